//! The index of a block: label texts, layouts, pages and series, with its encoding.

use super::entries::Entries;
use super::label_table::LabelPair;
use crate::codec::Corrupt;
use crate::codec::varint::{Cursor, put, put_signed};
use crate::matching::{SERIES_PER_CHECK, asks_for_components, is_pattern};
use fabriclens_model::names::COMPONENT;
use fabriclens_model::{Budget, Labels, MatchOp, Matcher, ReadError};
use std::sync::Arc;

/// Location of a column: layout index, and column of the layout (head) or series index (block).
pub type ColumnLocation = (u32, u32);

/// Rows of one layout that are compressed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkMeta {
    /// Number of rows.
    pub rows: u32,
    /// First time, Unix ms.
    pub min: i64,
    /// Last time, Unix ms.
    pub max: i64,
    /// Offset of the encoded times in the file.
    pub offset: u64,
    /// Bytes of the times.
    pub len: u32,
}

/// Bytes that share a checksum; no stream crosses the end of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// CRC-32.
    pub crc: u32,
}

/// One series: its labels are `pairs` of text indexes; its columns are contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    pairs: u32,
    layout: u32,
    lens: u32,
    offset: u64,
}

/// A decoded index. Series are sorted by labels.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    texts: Vec<Arc<str>>,
    pairs: Vec<LabelPair>,
    rows: Vec<Row>,
    lens: Vec<u32>,
    /// Every series has `__name__` as its first label, so that the series of a metric are adjacent. Labels that sort
    /// before it (upper case) are legal but rare.
    by_metric: bool,
    /// Chunks by layout.
    pub layouts: Vec<Vec<ChunkMeta>>,
    /// In file order.
    pub pages: Vec<Page>,
}

/// Replaces the pairs by the labels of a series, as text indexes.
pub type LabelsOf<'a> = dyn Fn(u32, &mut Vec<LabelPair>) + 'a;

/// Encodes an index. `texts` are sorted; those that no entry has are left out.
pub fn encode(
    pages: &[Page],
    layouts: &[Vec<ChunkMeta>],
    texts: &[Arc<str>],
    labels: &LabelsOf<'_>,
    entries: &Entries,
) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, pages.len() as u64);
    for page in pages {
        put(&mut out, u64::from(page.len));
        out.extend(page.crc.to_le_bytes());
    }
    put(&mut out, layouts.len() as u64);
    let (mut time, mut end) = (0i64, 0u64);
    for chunks in layouts {
        put(&mut out, chunks.len() as u64);
        for c in chunks {
            put(&mut out, u64::from(c.rows));
            put_signed(&mut out, c.min.wrapping_sub(time));
            put(&mut out, c.max.wrapping_sub(c.min) as u64);
            put_signed(&mut out, c.offset.wrapping_sub(end) as i64);
            put(&mut out, u64::from(c.len));
            time = c.max;
            end = c.offset + u64::from(c.len);
        }
    }
    let numbers = put_texts(&mut out, texts, labels, entries);
    put(&mut out, entries.all.len() as u64);
    let (mut before, mut pairs) = (Vec::new(), Vec::new());
    let mut layout = 0i64;
    for entry in &entries.all {
        labels(entry.series, &mut pairs);
        let shared = pairs.iter().zip(&before).take_while(|(a, b)| a == b).count();
        put(&mut out, shared as u64);
        put(&mut out, (pairs.len() - shared) as u64);
        for text in pairs[shared..].iter().flat_map(|(name, value)| [name, value]) {
            put(&mut out, u64::from(numbers[*text as usize]));
        }
        put_signed(&mut out, i64::from(entry.layout) - layout);
        put_signed(&mut out, entry.offset.wrapping_sub(end) as i64);
        let lengths = entries.lengths_of(entry, layouts[entry.layout as usize].len());
        lengths.iter().for_each(|length| put(&mut out, u64::from(*length)));
        end = entry.offset + lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        layout = i64::from(entry.layout);
        std::mem::swap(&mut before, &mut pairs);
    }
    out
}

/// Writes the texts that some entry has, and returns the number of each there.
fn put_texts(out: &mut Vec<u8>, texts: &[Arc<str>], labels: &LabelsOf<'_>, entries: &Entries) -> Vec<u32> {
    let (mut numbers, mut pairs) = (vec![u32::MAX; texts.len()], Vec::new());
    for entry in &entries.all {
        labels(entry.series, &mut pairs);
        pairs.iter().for_each(|(name, value)| (numbers[*name as usize], numbers[*value as usize]) = (0, 0));
    }
    put(out, numbers.iter().filter(|number| **number == 0).count() as u64);
    let used = numbers.iter_mut().zip(texts).filter(|(number, _)| **number == 0);
    for (next, (number, text)) in used.enumerate() {
        *number = next as u32;
        put(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    numbers
}

/// Decodes an index; `first_page` is the offset of the first page in the file.
pub fn decode(bytes: &[u8], first_page: u64) -> Result<Index, Corrupt> {
    let c = &mut Cursor::new(bytes);
    let mut index = Index::default();
    let mut offset = first_page;
    for _ in 0..c.count(bytes.len())? {
        let len = c.count(u32::MAX as usize)? as u32;
        let crc = u32::from_le_bytes(c.array()?);
        index.pages.push(Page { offset, len, crc });
        offset += u64::from(len);
    }
    let (mut time, mut end) = (0i64, 0u64);
    for _ in 0..c.count(bytes.len())? {
        let mut chunks = Vec::new();
        for _ in 0..c.count(bytes.len())? {
            let rows = c.count(u32::MAX as usize)? as u32;
            let min = time.wrapping_add(c.signed()?);
            let max = min.wrapping_add(c.varint()? as i64);
            let offset = end.wrapping_add(c.signed()? as u64);
            let len = c.count(u32::MAX as usize)? as u32;
            chunks.push(ChunkMeta { rows, min, max, offset, len });
            time = max;
            end = offset.wrapping_add(u64::from(len));
        }
        index.layouts.push(chunks);
    }
    for _ in 0..c.count(bytes.len())? {
        index.texts.push(c.text()?.into());
    }
    if !index.texts.is_sorted_by(|a, b| a < b) {
        return Err(Corrupt("texts out of order"));
    }
    let empty = index.texts.first().filter(|t| t.is_empty()).map(|_| 0);
    let (mut before, mut layout) = (0usize, 0i64);
    for _ in 0..c.count(bytes.len())? {
        let start = index.pairs.len();
        let shared = c.count(start - before)?;
        index.pairs.extend_from_within(before..before + shared);
        for _ in 0..c.count(bytes.len())? {
            let most = index.texts.len().checked_sub(1).ok_or(Corrupt("unknown text"))?;
            let pair = (c.count(most)? as u32, c.count(most)? as u32);
            if index.pairs[start..].last().is_some_and(|before| before.0 >= pair.0) || Some(pair.1) == empty {
                return Err(Corrupt("labels out of order or empty"));
            }
            index.pairs.push(pair);
        }
        layout = layout.wrapping_add(c.signed()?);
        let chunks =
            usize::try_from(layout).ok().and_then(|l| index.layouts.get(l)).ok_or(Corrupt("unknown layout"))?;
        let offset = end.wrapping_add(c.signed()? as u64);
        index.rows.push(Row { pairs: start as u32, layout: layout as u32, lens: index.lens.len() as u32, offset });
        end = offset;
        for _ in chunks {
            let len = c.count(u32::MAX as usize)? as u32;
            index.lens.push(len);
            end = end.wrapping_add(u64::from(len));
        }
        before = start;
    }
    index.pairs.shrink_to_fit();
    index.rows.shrink_to_fit();
    index.lens.shrink_to_fit();
    let metric = index.texts.binary_search_by(|t| (**t).cmp("__name__")).map(|i| i as u32);
    index.by_metric = (0..index.rows.len()).all(|s| index.pairs_of(s).first().map(|p| p.0) == metric.ok());
    Ok(index)
}

impl Index {
    /// Number of series.
    pub fn series(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        // An `Arc` has two counters before the text.
        let texts: usize = self.texts.iter().map(|t| t.len() + size_of::<Arc<str>>() + 2 * size_of::<usize>()).sum();
        let layouts: usize = self.layouts.iter().map(|l| size_of_val(l) + size_of_val(&l[..])).sum();
        texts
            + layouts
            + size_of_val(&self.pairs[..])
            + size_of_val(&self.rows[..])
            + size_of_val(&self.lens[..])
            + size_of_val(&self.pages[..])
    }

    /// Label texts, sorted.
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// Labels of a series as indexes into [`Index::texts`].
    pub fn pairs_of(&self, series: usize) -> &[LabelPair] {
        let start = self.rows[series].pairs as usize;
        let end = self.rows.get(series + 1).map_or(self.pairs.len(), |r| r.pairs as usize);
        &self.pairs[start..end]
    }

    /// Labels of a series.
    pub fn labels(&self, series: usize) -> Labels {
        let text = |i: u32| self.texts[i as usize].clone();
        let pairs = self.pairs_of(series);
        let metric = pairs.iter().position(|(n, _)| *self.texts[*n as usize] == *"__name__");
        let (before, after) = match metric {
            Some(at) => (&pairs[..at], &pairs[at + 1..]),
            None => (pairs, &[][..]),
        };
        let others = before.iter().chain(after).map(|(n, v)| (text(*n), text(*v))).collect();
        Labels::from_parts(metric.map(|at| text(pairs[at].1)), others)
    }

    /// Layout index of a series.
    pub fn layout(&self, series: usize) -> usize {
        self.rows[series].layout as usize
    }

    /// Offset and length of the column of a series in each chunk of its layout.
    pub fn columns(&self, series: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let row = self.rows[series];
        let chunks = self.layouts[row.layout as usize].len();
        let lens = &self.lens[row.lens as usize..row.lens as usize + chunks];
        lens.iter().scan(row.offset, |at, len| {
            let here = *at;
            *at = at.wrapping_add(u64::from(*len));
            Some((here, *len))
        })
    }

    /// The page that contains a stream.
    pub fn page_of(&self, offset: u64, len: u32) -> Result<usize, Corrupt> {
        let i = self.pages.partition_point(|p| p.offset <= offset);
        let i = i.checked_sub(1).ok_or(Corrupt("stream before the pages"))?;
        let page = self.pages[i];
        let end = offset.checked_add(u64::from(len));
        if end.is_none_or(|e| e > page.offset + u64::from(page.len)) {
            return Err(Corrupt("stream crosses a page"));
        }
        Ok(i)
    }

    /// Series that satisfy all matchers; components of histograms only if a matcher names their label. Each pattern tests each text once; series are then compared by text index.
    ///
    /// # Errors
    /// Those of `budget`.
    pub fn matching(&self, matchers: &[Matcher], budget: &dyn Budget) -> Result<Vec<u32>, ReadError> {
        let number = |t: &str| self.texts.binary_search_by(|x| (**x).cmp(t)).ok().map(|i| i as u32);
        let excluded = match (number(COMPONENT), asks_for_components(matchers)) {
            (None, true) => return Ok(Vec::new()),
            (_, true) => None,
            (component, false) => component,
        };
        let mut range = 0..self.rows.len();
        let mut tests = Vec::new();
        for m in matchers {
            if m.op == MatchOp::Equal && !m.value.is_empty() {
                let Some(value) = number(&m.value) else {
                    return Ok(Vec::new());
                };
                if m.name == "__name__" && self.by_metric {
                    range = self.of_metric(value);
                    continue;
                }
            }
            let label = number(&m.name);
            budget.check()?;
            let absent_fits = m.matches_value("");
            let seen = if is_pattern(m) && label.is_some() { self.texts.len() } else { 0 };
            budget.request(seen)?;
            tests.push((m, label, absent_fits, vec![0u8; seen]));
        }
        let mut fits = |series: usize| {
            if excluded.is_some() && self.pairs_of(series).iter().any(|(name, _)| Some(*name) == excluded) {
                return Ok(false);
            }
            for (m, label, absent_fits, seen) in &mut tests {
                let pair = self.pairs_of(series).iter().find(|(n, _)| Some(*n) == *label);
                let test = |value: u32| m.matches_value(&self.texts[value as usize]);
                let fits = match pair {
                    None => *absent_fits,
                    Some((_, value)) => match seen.get_mut(*value as usize) {
                        None => test(*value),
                        Some(known) => {
                            if *known == 0 {
                                budget.check()?;
                                *known = 1 + u8::from(test(*value));
                            }
                            *known == 2
                        }
                    },
                };
                if !fits {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let mut found = Vec::new();
        for series in range {
            if series % SERIES_PER_CHECK == 0 {
                budget.check()?;
            }
            if fits(series)? {
                found.push(series as u32);
            }
        }
        Ok(found)
    }

    /// Series ranges by metric, or `None` if the series of a metric are not adjacent.
    pub fn metrics(&self) -> Option<Vec<std::ops::Range<usize>>> {
        let mut metrics = Vec::new();
        let mut from = 0;
        while self.by_metric && from < self.rows.len() {
            let metric = self.of_metric(self.pairs[self.rows[from].pairs as usize].1);
            from = metric.end;
            metrics.push(metric);
        }
        self.by_metric.then_some(metrics)
    }

    /// The series of a metric, or all of them if they are not adjacent.
    fn of_metric(&self, value: u32) -> std::ops::Range<usize> {
        let metric = |s: usize| self.pairs[self.rows[s].pairs as usize].1;
        let from = partition(self.rows.len(), |s| metric(s) < value);
        let to = partition(self.rows.len(), |s| metric(s) <= value);
        from..to
    }
}

/// The first index that is not `before`.
fn partition(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index with these texts and one series with these labels and no chunk.
    fn index(texts: &[&str], pairs: &[LabelPair]) -> Result<Index, Corrupt> {
        let mut bytes = vec![0, 1, 0];
        put(&mut bytes, texts.len() as u64);
        for text in texts {
            put(&mut bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        }
        bytes.extend([1, 0, pairs.len() as u8]);
        bytes.extend(pairs.iter().flat_map(|(n, v)| [*n as u8, *v as u8]));
        bytes.extend([0, 0]);
        decode(&bytes, 16)
    }

    #[test]
    fn malformed_labels_are_refused() {
        let good = index(&["", "a", "b"], &[(1, 2), (2, 1)]).unwrap();
        assert_eq!(good.labels(0), Labels::new([("a", "b"), ("b", "a")]));
        let texts = ["", "a", "b"];
        for (texts, pairs) in [
            (&texts[..], &[(2, 1), (1, 2)][..]),
            (&texts, &[(1, 2), (1, 1)]),
            (&texts, &[(1, 0)]),
            (&["b", "a"], &[(0, 1)]),
            (&["a", "a"], &[(0, 1)]),
            (&[], &[(0, 0)]),
        ] {
            assert!(index(texts, pairs).is_err(), "{texts:?} {pairs:?}");
        }
    }
}
