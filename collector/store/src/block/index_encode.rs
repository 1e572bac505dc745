//! Encodes the index of a block.

use super::entries::Entries;
use super::index::Page;
use super::label_table::LabelPair;
use super::tables::ChunkMeta;
use crate::codec::varint::{put, put_signed};
use crate::error::StoreError;
use std::sync::Arc;

/// Replaces the pairs by the labels of a series, as text indexes.
pub type LabelsOf<'a> = dyn Fn(u32, &mut Vec<LabelPair>) -> Result<(), StoreError> + 'a;

/// An encoded index.
pub struct Encoded {
    /// The series of all sections.
    pub series: Vec<u8>,
    /// What tells where they are, and all else.
    pub directory: Vec<u8>,
}

/// Encodes an index. `texts` are sorted; texts that no series of `entries` uses are left out.
pub fn encode(
    pages: &[Page],
    layouts: &[Vec<ChunkMeta>],
    texts: &[Arc<str>],
    labels: &LabelsOf<'_>,
    entries: &Entries,
) -> Result<Encoded, StoreError> {
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
    let numbers = put_texts(&mut out, texts, labels, entries)?;
    let name = texts.binary_search_by(|t| (**t).cmp("__name__")).ok().map(|at| at as u32);
    // Metric, number of series and end of the bytes of each section.
    let mut sections: Vec<(Option<u32>, usize, usize)> = Vec::new();
    let (mut series, mut before, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut layout, mut end) = (0i64, 0u64);
    for entry in &entries.all {
        labels(entry.series, &mut pairs)?;
        let metric = pairs.first().filter(|pair| Some(pair.0) == name).map(|pair| pair.1);
        if sections.last().is_none_or(|section| section.0 != metric) {
            // Each section is decoded without those before it.
            before.clear();
            (layout, end) = (0, 0);
            sections.push((metric, 0, 0));
        }
        let shared = pairs.iter().zip(&before).take_while(|(a, b)| a == b).count();
        put(&mut series, shared as u64);
        put(&mut series, (pairs.len() - shared) as u64);
        for text in pairs[shared..].iter().flat_map(|(name, value)| [name, value]) {
            put(&mut series, u64::from(numbers[*text as usize]));
        }
        put_signed(&mut series, i64::from(entry.layout) - layout);
        put_signed(&mut series, entry.offset.wrapping_sub(end) as i64);
        let lengths = entries.lengths_of(entry, layouts[entry.layout as usize].len());
        lengths.iter().for_each(|length| put(&mut series, u64::from(*length)));
        end = entry.offset + lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        layout = i64::from(entry.layout);
        std::mem::swap(&mut before, &mut pairs);
        if let Some(section) = sections.last_mut() {
            *section = (metric, section.1 + 1, series.len());
        }
    }
    put(&mut out, sections.len() as u64);
    let mut from = 0;
    for (metric, number, to) in sections {
        put(&mut out, metric.map_or(0, |metric| u64::from(numbers[metric as usize]) + 1));
        put(&mut out, number as u64);
        put(&mut out, (to - from) as u64);
        out.extend(crc32fast::hash(&series[from..to]).to_le_bytes());
        from = to;
    }
    Ok(Encoded { series, directory: out })
}

/// Writes the texts that some entry has, and returns the number of each there.
fn put_texts(
    out: &mut Vec<u8>,
    texts: &[Arc<str>],
    labels: &LabelsOf<'_>,
    entries: &Entries,
) -> Result<Vec<u32>, StoreError> {
    let (mut numbers, mut pairs) = (vec![u32::MAX; texts.len()], Vec::new());
    for entry in &entries.all {
        labels(entry.series, &mut pairs)?;
        pairs.iter().for_each(|(name, value)| (numbers[*name as usize], numbers[*value as usize]) = (0, 0));
    }
    put(out, numbers.iter().filter(|number| **number == 0).count() as u64);
    let used = numbers.iter_mut().zip(texts).filter(|(number, _)| **number == 0);
    for (next, (number, text)) in used.enumerate() {
        *number = next as u32;
        put(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    Ok(numbers)
}
