//! Builds one block from any number of sources; flushes and merges both use it.
//!
//! Series whose columns lie in the same layouts of the same sources become one layout of the new block, with the union
//! of their times. Layouts are processed in batches: within a batch the columns of one metric are adjacent in the
//! file, and only one batch is in memory.

use super::entries::{Entries, Entry};
use super::file::{FileWriter, Footer};
use super::group::group;
use super::index::ColumnLocation;
use super::index_encode::encode;
use super::label_table::LabelPair;
use super::source::Source;
use super::tables::ChunkMeta;
use crate::codec::{column, ints};
use crate::error::StoreError;
use crate::io::Files;
use fabriclens_model::{absent, is_absent};
use std::path::Path;

/// Rows that are compressed together, at most.
const CHUNK_ROWS: usize = 2048;
/// Compressed bytes after which a batch is written.
const BATCH: usize = 32 << 20;

/// What to build.
pub struct Plan {
    /// First time to include, Unix ms.
    pub start: i64,
    /// Last time to include, Unix ms.
    pub end: i64,
    /// See [`Footer::generations`].
    pub generations: (u64, u64),
    /// See [`Footer::parents`].
    pub parents: Vec<u64>,
}

/// Columns that are encoded but not yet placed in the file.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Encoded times of its layouts.
    times: Vec<u8>,
    /// Its first layout and its first entry.
    layout: usize,
    entry: usize,
}

/// Writes a block to `path`. Returns `None`, and leaves no file, if there is no sample in the range. `keep_going` is
/// called between layouts, so that a merge can yield to ingest; if it returns false the build ends with
/// [`StoreError::Closed`].
pub fn build(
    files: &dyn Files,
    path: &Path,
    sources: &mut [Source],
    plan: Plan,
    mut keep_going: impl FnMut() -> bool,
) -> Result<Option<Footer>, StoreError> {
    let fail = |what| move |e: std::io::Error| StoreError::io(what, path, &e);
    let (union, groups) = group(sources)?;
    let mut writer: Option<FileWriter> = None;
    let mut layouts: Vec<Vec<ChunkMeta>> = Vec::new();
    let mut entries = Entries { all: Vec::with_capacity(union.series()), lengths: Vec::new() };
    let mut batch = Batch::default();
    let mut footer = Footer {
        min: i64::MAX,
        max: i64::MIN,
        generations: plan.generations,
        parents: plan.parents,
        ..Footer::default()
    };
    let mut values = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        if !keep_going() {
            return Err(StoreError::Closed);
        }
        let merged = Times::of(sources, group.layouts(), plan.start, plan.end)?;
        if !merged.all.is_empty() {
            let layout = layouts.len() as u32;
            let before = entries.all.len();
            for (series, columns) in group.members() {
                footer.samples += gather(sources, columns, &merged, &mut values)?;
                batch.encode(series, layout, &values, &mut entries);
            }
            if entries.all.len() > before {
                footer.min = footer.min.min(merged.all[0]);
                footer.max = footer.max.max(merged.all[merged.all.len() - 1]);
                layouts.push(merged.chunks(&mut batch.times));
            }
        }
        let last = i + 1 == groups.len();
        if entries.all.len() == batch.entry || (batch.bytes.len() < BATCH && !last) {
            continue;
        }
        let mut out = match writer.take() {
            Some(out) => out,
            None => FileWriter::new(files.create(path).map_err(fail("create"))?).map_err(fail("write"))?,
        };
        batch.write(&mut out, &mut layouts, &mut entries).map_err(fail("write"))?;
        writer = Some(out);
    }
    let Some(mut writer) = writer else {
        return Ok(None);
    };
    drop((groups, batch));
    entries.all.sort_unstable_by_key(|entry| entry.series);
    footer.series = entries.all.len() as u64;
    let labels = |series, out: &mut Vec<LabelPair>| union.labels(sources, series, out);
    let pages = writer.end_pages().map_err(fail("write"))?;
    let index = encode(pages, &layouts, &union.texts, &labels, &entries)?;
    writer.finish(&index, footer).map(Some).map_err(fail("write"))
}

impl Batch {
    /// Adds the column of a series, unless it is empty.
    fn encode(&mut self, series: u32, layout: u32, values: &[f64], entries: &mut Entries) {
        if values.is_empty() {
            return;
        }
        let (offset, lengths) = (self.bytes.len() as u64, entries.lengths.len() as u32);
        entries.lengths.extend(values.chunks(CHUNK_ROWS).map(|chunk| {
            let before = self.bytes.len();
            column::encode(chunk, &mut self.bytes);
            (self.bytes.len() - before) as u32
        }));
        entries.all.push(Entry { series, layout, lengths, offset });
    }

    /// Writes all columns in label order and empties the batch.
    fn write(
        &mut self,
        out: &mut FileWriter,
        layouts: &mut [Vec<ChunkMeta>],
        entries: &mut Entries,
    ) -> std::io::Result<()> {
        let mut rest = &self.times[..];
        for chunk in layouts[self.layout..].iter_mut().flatten() {
            let (stream, after) = rest.split_at(chunk.len as usize);
            chunk.offset = out.stream(stream)?;
            rest = after;
        }
        let Entries { all, lengths } = entries;
        all[self.entry..].sort_unstable_by_key(|entry| entry.series);
        for entry in &mut all[self.entry..] {
            let mut rest = &self.bytes[entry.offset as usize..];
            let mut offset = None;
            for length in &lengths[entry.lengths as usize..][..layouts[entry.layout as usize].len()] {
                let (stream, after) = rest.split_at(*length as usize);
                let at = out.stream(stream)?;
                offset = offset.or(Some(at));
                rest = after;
            }
            entry.offset = offset.unwrap_or(0);
        }
        (self.layout, self.entry) = (layouts.len(), all.len());
        self.times.clear();
        self.bytes.clear();
        Ok(())
    }
}

/// The times of a group, and the times of each source chunk.
struct Times {
    all: Vec<i64>,
    /// By column location and chunk: times of the source.
    sources: Vec<Vec<std::sync::Arc<[i64]>>>,
}

impl Times {
    fn of(sources: &mut [Source], layouts: &[(u32, u32)], start: i64, end: i64) -> Result<Self, StoreError> {
        let times = |(source, layout): &(u32, u32)| sources[*source as usize].times(*layout);
        let chunks: Vec<_> = layouts.iter().map(times).collect::<Result<_, _>>()?;
        let mut all: Vec<i64> =
            chunks.iter().flatten().flat_map(|c| c.iter().copied()).filter(|t| (start..=end).contains(t)).collect();
        if !all.is_sorted_by(|a, b| a < b) {
            all.sort_unstable();
            all.dedup();
        }
        Ok(Self { all, sources: chunks })
    }

    /// Chunks of the new layout; appends their encoded times to `encoded`.
    fn chunks(&self, encoded: &mut Vec<u8>) -> Vec<ChunkMeta> {
        let chunk = |times: &[i64]| {
            let before = encoded.len();
            ints::encode(times, encoded);
            ChunkMeta {
                rows: times.len() as u32,
                min: times[0],
                max: times[times.len() - 1],
                offset: 0,
                len: (encoded.len() - before) as u32,
            }
        };
        self.all.chunks(CHUNK_ROWS).map(chunk).collect()
    }
}

/// Collects the samples of one series in the range and returns their number; `values` is left empty if there are none.
fn gather(
    sources: &mut [Source],
    columns: impl Iterator<Item = (u32, ColumnLocation)>,
    times: &Times,
    values: &mut Vec<f64>,
) -> Result<u64, StoreError> {
    values.clear();
    values.resize(times.all.len(), absent());
    let mut samples = 0;
    for ((s, location), chunks) in columns.zip(&times.sources) {
        // Rows of a chunk ascend, so the next position is at or right of the last one.
        let (mut chunk, mut at) = (usize::MAX, 0);
        sources[s as usize].column(location, |c, row, v| {
            let t = chunks[c][row];
            if c != chunk {
                (chunk, at) = (c, times.all.partition_point(|x| *x < t));
            }
            while times.all.get(at).is_some_and(|x| *x < t) {
                at += 1;
            }
            if times.all.get(at) == Some(&t) && is_absent(values[at]) {
                values[at] = v;
                samples += 1;
            }
        })?;
    }
    if samples == 0 {
        values.clear();
    }
    Ok(samples)
}
