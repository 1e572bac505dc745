//! The index of a block: label texts, layouts, pages, and its series in sections, one for each metric. A query loads the
//! sections of its metrics: all series of a large fabric take hundreds of megabytes.

use super::series_list::SeriesList;
use super::tables::{ChunkMeta, Tables};
use crate::codec::Corrupt;
use crate::codec::varint::Cursor;
use fabriclens_model::Matcher;
use parking_lot::Mutex;
use std::sync::Arc;

/// The format version since which series are in sections.
const SECTIONS: u32 = 2;

/// Location of a column: layout index, and column of the layout (head) or series index (block).
pub type ColumnLocation = (u32, u32);

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

/// Series that are adjacent in label order and have the same metric as their first label, or another first label.
#[derive(Debug)]
pub struct Section {
    /// Text index of the metric; `None` if other labels come first, or if the block has no sections.
    metric: Option<u32>,
    /// Number of series.
    pub series: usize,
    /// Its encoded series.
    pub page: Page,
    /// Its decoded series, once they were asked for.
    pub list: Mutex<Option<Arc<SeriesList>>>,
}

/// A decoded index. Sections and their series are sorted by labels.
#[derive(Debug, Default)]
pub struct Index {
    /// What sections refer to.
    pub tables: Tables,
    /// In file order.
    pub pages: Vec<Page>,
    pub sections: Vec<Section>,
}

/// Decodes an index of a format version; `first_page` is the offset of the first page in the file, `directory` that of these bytes,
/// which come after the series of all sections.
pub fn decode(bytes: &[u8], version: u32, first_page: u64, directory: u64) -> Result<Index, Corrupt> {
    let c = &mut Cursor::new(bytes);
    let mut index = Index::default();
    let mut offset = first_page;
    for _ in 0..c.count(bytes.len())? {
        index.pages.push(page(c, &mut offset)?);
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
        index.tables.layouts.push(chunks);
    }
    for _ in 0..c.count(bytes.len())? {
        index.tables.texts.push(c.text()?.into());
    }
    if !index.tables.texts.is_sorted_by(|a, b| a < b) {
        return Err(Corrupt("texts out of order"));
    }
    if version < SECTIONS {
        let (series, mut list) = (c.count(bytes.len())?, SeriesList::default());
        list.decode(c, series, end, &index.tables)?;
        let list = Mutex::new(Some(Arc::new(list.shrunk())));
        index.sections.push(Section { metric: None, series, page: Page { offset: 0, len: 0, crc: 0 }, list });
        return Ok(index);
    }
    let mut size = 0;
    for _ in 0..c.count(bytes.len())? {
        let metric = c.count(index.tables.texts.len())?.checked_sub(1).map(|text| text as u32);
        let series = c.count(u32::MAX as usize)?;
        index.sections.push(Section { metric, series, page: page(c, &mut size)?, list: Mutex::default() });
    }
    let first = directory.checked_sub(size).ok_or(Corrupt("sections are larger than the file"))?;
    index.sections.iter_mut().for_each(|section| section.page.offset += first);
    Ok(index)
}

/// Decodes length and checksum of what is at `offset`, and moves it on.
fn page(c: &mut Cursor<'_>, offset: &mut u64) -> Result<Page, Corrupt> {
    let len = c.count(u32::MAX as usize)? as u32;
    let page = Page { offset: *offset, len, crc: u32::from_le_bytes(c.array()?) };
    *offset += u64::from(len);
    Ok(page)
}

impl Index {
    /// Bytes of memory that it takes with the sections that are loaded.
    pub fn memory(&self) -> usize {
        let loaded = |section: &Section| section.list.try_lock().and_then(|list| list.as_ref().map(|l| l.memory()));
        let lists: usize = self.sections.iter().filter_map(loaded).sum();
        self.tables.memory() + lists + size_of_val(&self.pages[..]) + size_of_val(&self.sections[..])
    }

    /// Whether series of a section may match.
    pub fn may_match(&self, section: &Section, matchers: &[Matcher]) -> bool {
        let mut of_metric = matchers.iter().filter(|m| m.name == "__name__");
        section.metric.is_none_or(|metric| of_metric.all(|m| m.matches_value(&self.tables.texts[metric as usize])))
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
}

#[cfg(test)]
mod tests {
    use super::super::label_table::LabelPair;
    use super::*;
    use crate::codec::varint::put;
    use fabriclens_model::Labels;

    /// The labels of one series without chunks, as encoded over these texts.
    fn labels(texts: &[&str], pairs: &[LabelPair]) -> Result<Labels, Corrupt> {
        let mut bytes = vec![0, 1, 0];
        put(&mut bytes, texts.len() as u64);
        for text in texts {
            put(&mut bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        }
        bytes.extend([1, 0, pairs.len() as u8]);
        bytes.extend(pairs.iter().flat_map(|(n, v)| [*n as u8, *v as u8]));
        bytes.extend([0, 0]);
        let index = decode(&bytes, 1, 16, 0)?;
        let list = index.sections[0].list.lock().clone().expect("decoded");
        Ok(list.labels(0, &index.tables))
    }

    #[test]
    fn malformed_labels_are_refused() {
        let good = labels(&["", "a", "b"], &[(1, 2), (2, 1)]).unwrap();
        assert_eq!(good, Labels::new([("a", "b"), ("b", "a")]));
        let texts = ["", "a", "b"];
        for (texts, pairs) in [
            (&texts[..], &[(2, 1), (1, 2)][..]),
            (&texts, &[(1, 2), (1, 1)]),
            (&texts, &[(1, 0)]),
            (&["b", "a"], &[(0, 1)]),
            (&["a", "a"], &[(0, 1)]),
            (&[], &[(0, 0)]),
        ] {
            assert!(labels(texts, pairs).is_err(), "{texts:?} {pairs:?}");
        }
    }
}
