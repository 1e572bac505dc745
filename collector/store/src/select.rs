//! Reading: which series match, and their samples from head and blocks put together.

use crate::block::read::Block;
use crate::codec::Corrupt;
use crate::error::StoreError;
use crate::head::chunk::Chunk;
use crate::head::generation::Generation;
use fabriclens_model::{Budget, Labels, MatchOp, Matcher, ReadError, Series, is_absent, settle};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// A piece of a series, taken under the lock and decoded outside it.
pub enum Part {
    /// A column of sealed rows.
    Sealed(Arc<Chunk>, u32),
    /// Copied samples of the range, absent ones left out.
    Plain(Vec<i64>, Vec<f64>),
    /// Decoded from a block, as good as all of it in the range; times are shared by the columns of a layout. Values may
    /// be absent.
    Decoded(Arc<[i64]>, Vec<f64>),
}

impl Part {
    /// Samples it holds at most.
    fn len(&self) -> usize {
        match self {
            Self::Sealed(chunk, _) => chunk.rows(),
            Self::Plain(_, values) | Self::Decoded(_, values) => values.len(),
        }
    }

    /// Bytes it takes until the end, at its own size and in the answer.
    fn bytes(&self) -> usize {
        let waiting = match self {
            Self::Sealed(..) => 0,
            Self::Plain(..) => SAMPLE * self.len(),
            Self::Decoded(..) => size_of::<f64>() * self.len(),
        };
        size_of::<Self>() + waiting + SAMPLE * self.len()
    }
}

/// Bytes of a sample in an answer.
const SAMPLE: usize = size_of::<i64>() + size_of::<f64>();
/// Bytes of a series beside its samples: labels, and its places in maps and lists.
const SERIES: usize = 512;

/// Pieces by series. Pieces that were appended earlier come first, so that the first of two samples at one time wins.
pub struct Found<'a> {
    parts: HashMap<Labels, Vec<Part>>,
    samples: usize,
    limit: usize,
    budget: &'a dyn Budget,
}

/// Indexes of the series of a generation that match.
pub fn matching(head: &Generation, matchers: &[Matcher]) -> Vec<u32> {
    let fits = |s: &u32| {
        let labels = &head.series[*s as usize].labels;
        matchers.iter().all(|m| m.matches(labels))
    };
    let metric = matchers.iter().find(|m| m.name == "__name__" && m.op == MatchOp::Equal && !m.value.is_empty());
    match metric {
        Some(m) => head.series.of_metric(&m.value).iter().copied().filter(fits).collect(),
        None => (0..head.series.len() as u32).filter(fits).collect(),
    }
}

impl<'a> Found<'a> {
    /// Nothing yet; more than `limit` samples, or more memory than `budget` allows, are an error.
    pub fn new(limit: usize, budget: &'a dyn Budget) -> Self {
        Self { parts: HashMap::new(), samples: 0, limit, budget }
    }

    /// Adds a piece of about `samples` samples.
    pub fn add(&mut self, labels: &Labels, part: Part, samples: usize) -> Result<(), ReadError> {
        self.add_samples(samples)?;
        self.take(part.bytes())?;
        self.push(labels, part)
    }

    fn push(&mut self, labels: &Labels, part: Part) -> Result<(), ReadError> {
        match self.parts.get_mut(labels) {
            Some(parts) => parts.push(part),
            None => {
                self.take(SERIES)?;
                self.parts.insert(labels.clone(), vec![part]);
            }
        }
        Ok(())
    }

    fn take(&self, bytes: usize) -> Result<(), ReadError> {
        if self.budget.take(bytes) { Ok(()) } else { Err(ReadError::Memory) }
    }

    /// Adds pieces that were appended after these.
    pub fn append(&mut self, later: Self) -> Result<(), ReadError> {
        for (labels, parts) in later.parts {
            for part in parts {
                self.push(&labels, part)?;
            }
        }
        self.add_samples(later.samples)
    }

    fn add_samples(&mut self, samples: usize) -> Result<(), ReadError> {
        self.samples += samples;
        if self.samples <= self.limit {
            return Ok(());
        }
        Err(ReadError::Limit(format!(
            "the query would read more than {} samples; ask for a shorter range or fewer series, or raise max_read_samples",
            self.limit
        )))
    }

    /// Adds what a block has in the range. A series whose page does not check is left out and `damage` is told.
    pub fn add_block(
        &mut self,
        block: &Arc<Block>,
        matchers: &[Matcher],
        start: i64,
        end: i64,
        damage: impl Fn(&StoreError),
    ) -> Result<(), ReadError> {
        let mut reader = match block.reader() {
            Ok(reader) => reader,
            Err(e) => return skip_damaged(e, &damage),
        };
        let index = reader.index.clone();
        for s in index.matching(matchers) {
            let s = s as usize;
            let layout = index.layout(s);
            let mut labels = None;
            for (i, (meta, at)) in index.layouts[layout].iter().zip(index.columns(s)).enumerate() {
                if meta.min > end || meta.max < start || at.1 == 0 {
                    continue;
                }
                self.add_samples(meta.rows as usize)?;
                let read = reader.times(layout, i).and_then(|t| Ok((t, reader.column(at, meta.rows as usize)?)));
                match read {
                    Ok((times, values)) => {
                        let labels = labels.get_or_insert_with(|| index.labels(s));
                        self.add(labels, cut(times, values, start, end), 0)?;
                    }
                    Err(e) => skip_damaged(e, &damage)?,
                }
            }
        }
        Ok(())
    }

    /// Adds what a generation has in the range.
    pub fn add_head(&mut self, head: &Generation, matchers: &[Matcher], start: i64, end: i64) -> Result<(), ReadError> {
        for s in matching(head, matchers) {
            let series = &head.series[s as usize];
            for (l, c) in &series.homes {
                let layout = &head.layouts[*l as usize];
                for chunk in layout.sealed.iter().filter(|k| k.overlaps(start, end)) {
                    self.add(&series.labels, Part::Sealed(chunk.clone(), *c), chunk.rows())?;
                }
                for rows in [&layout.open, &layout.late] {
                    let from = rows.times().partition_point(|t| *t < start);
                    let to = rows.times().partition_point(|t| *t <= end);
                    let (times, values): (Vec<i64>, Vec<f64>) = rows.times()[from..to]
                        .iter()
                        .zip(rows.column(*c as usize).skip(from))
                        .filter(|(_, v)| !is_absent(*v))
                        .unzip();
                    if !times.is_empty() {
                        let n = times.len();
                        self.add(&series.labels, Part::Plain(times, values), n)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes and joins; series in order of their labels, those without samples in the range left out.
    pub fn finish(self, start: i64, end: i64) -> Result<Vec<Series>, ReadError> {
        let mut cache: HashMap<*const Chunk, Arc<[i64]>> = HashMap::new();
        let mut all = Vec::with_capacity(self.parts.len());
        for (labels, parts) in self.parts {
            let samples = parts.iter().map(Part::len).sum();
            let (mut times, mut values) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
            for part in parts {
                match part {
                    Part::Plain(t, v) => {
                        times.extend(t);
                        values.extend(v);
                    }
                    Part::Sealed(chunk, c) => {
                        let t = decoded_times(&mut cache, &chunk).map_err(storage)?;
                        let v = chunk.column(c as usize).map_err(storage)?;
                        extend(&mut times, &mut values, &t, &v, start, end);
                    }
                    Part::Decoded(t, v) => extend(&mut times, &mut values, &t, &v, start, end),
                }
            }
            let (times, values) = settle(times, values);
            if !times.is_empty() {
                all.push(Series { labels, times, values });
            }
        }
        all.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        Ok(all)
    }
}

/// A decoded column; where less than half of a page is asked for, a copy of that and not the page.
fn cut(times: Arc<[i64]>, values: Vec<f64>, start: i64, end: i64) -> Part {
    let (mut t, mut v) = (Vec::new(), Vec::new());
    let from = times.partition_point(|t| *t < start);
    let to = times.partition_point(|t| *t <= end);
    if to.saturating_sub(from) * 2 > times.len() {
        return Part::Decoded(times, values);
    }
    extend(&mut t, &mut v, &times, &values, start, end);
    Part::Plain(t, v)
}

/// Damage is left out of the answer and reported; a disk that does not answer is an error of the read.
fn skip_damaged(e: StoreError, damage: &impl Fn(&StoreError)) -> Result<(), ReadError> {
    match e {
        StoreError::Damaged { .. } => {
            damage(&e);
            Ok(())
        }
        other => Err(ReadError::Storage(other.to_string())),
    }
}

fn storage(e: Corrupt) -> ReadError {
    ReadError::Storage(format!("rows in memory cannot be decoded: {e}; please report this"))
}

fn decoded_times(cache: &mut HashMap<*const Chunk, Arc<[i64]>>, chunk: &Arc<Chunk>) -> Result<Arc<[i64]>, Corrupt> {
    if let Some(t) = cache.get(&Arc::as_ptr(chunk)) {
        return Ok(t.clone());
    }
    let t: Arc<[i64]> = chunk.times()?.into();
    cache.insert(Arc::as_ptr(chunk), t.clone());
    Ok(t)
}

/// Appends the present samples of `[start, end]`.
fn extend(times: &mut Vec<i64>, values: &mut Vec<f64>, t: &[i64], v: &[f64], start: i64, end: i64) {
    let from = t.partition_point(|t| *t < start);
    let to = t.partition_point(|t| *t <= end).max(from);
    for (t, v) in t[from..to].iter().zip(&v[from..to]) {
        if !is_absent(*v) {
            times.push(*t);
            values.push(*v);
        }
    }
}
