//! Builds one block from any number of sources; flushes and merges both use it.
//!
//! Series whose columns lie in the same layouts of the same sources become one layout of the new block, with the union
//! of their times. Layouts are processed in batches: within a batch the columns of one metric are adjacent in the
//! file, and only one batch is in memory.

use super::file::{FileWriter, Footer};
use super::index::{ChunkMeta, ColumnLengths, ColumnLocation, Entry};
use super::label_table::{LabelPair, LabelTable};
use super::source::Source;
use crate::codec::{column, ints};
use crate::error::StoreError;
use crate::io::Files;
use fabriclens_model::{absent, is_absent};
use foldhash::{HashMap, HashMapExt as _};
use smallvec::SmallVec;
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

/// A series, by its index in label order, and the locations of its columns, earliest source first.
struct Member {
    series: u32,
    locations: SmallVec<[(u32, ColumnLocation); 2]>,
}

/// Columns that are encoded but not yet placed in the file.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    columns: Vec<Encoded>,
    /// Layout index and its encoded times.
    times: Vec<(usize, Vec<u8>)>,
}

/// The encoded column of a series, and where it starts in the batch.
struct Encoded {
    series: u32,
    from: usize,
    layout: u32,
    lens: ColumnLengths,
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
    let (names, groups) = group(sources);
    let mut writer: Option<FileWriter> = None;
    let mut layouts: Vec<Vec<ChunkMeta>> = Vec::new();
    let mut placed: Vec<(u32, Entry)> = Vec::new();
    let mut batch = Batch::default();
    let mut footer = Footer {
        min: i64::MAX,
        max: i64::MIN,
        generations: plan.generations,
        parents: plan.parents,
        ..Footer::default()
    };
    let mut values = Vec::new();
    for (i, members) in groups.iter().enumerate() {
        if !keep_going() {
            return Err(StoreError::Closed);
        }
        let merged = Times::of(sources, &members[0].locations, plan.start, plan.end)?;
        if !merged.all.is_empty() {
            let layout = layouts.len() as u32;
            let before = batch.columns.len();
            for m in members {
                footer.samples += gather(sources, m, &merged, &mut values)?;
                batch.encode(m.series, layout, &values);
            }
            if batch.columns.len() > before {
                footer.min = footer.min.min(merged.all[0]);
                footer.max = footer.max.max(merged.all[merged.all.len() - 1]);
                layouts.push(merged.chunks(&mut batch.times, layouts.len()));
            }
        }
        let last = i + 1 == groups.len();
        if batch.columns.is_empty() || (batch.bytes.len() < BATCH && !last) {
            continue;
        }
        let mut out = match writer.take() {
            Some(out) => out,
            None => FileWriter::new(files.create(path).map_err(fail("create"))?).map_err(fail("write"))?,
        };
        batch.write(&mut out, &mut layouts, &mut placed).map_err(fail("write"))?;
        writer = Some(out);
    }
    let Some(writer) = writer else {
        return Ok(None);
    };
    placed.sort_unstable_by_key(|p| p.0);
    let names = names.only(placed.iter().map(|p| p.0 as usize));
    let entries: Vec<Entry> = placed.into_iter().map(|p| p.1).collect();
    footer.series = entries.len() as u64;
    writer.finish(&layouts, &names, &entries, footer).map(Some).map_err(fail("write"))
}

impl Batch {
    /// Adds the column of a series, unless it is empty.
    fn encode(&mut self, series: u32, layout: u32, values: &[f64]) {
        if values.is_empty() {
            return;
        }
        let from = self.bytes.len();
        let encode = |chunk| {
            let before = self.bytes.len();
            column::encode(chunk, &mut self.bytes);
            (self.bytes.len() - before) as u32
        };
        let lens = values.chunks(CHUNK_ROWS).map(encode).collect();
        self.columns.push(Encoded { series, from, layout, lens });
    }

    /// Writes all columns in label order and empties the batch.
    fn write(
        &mut self,
        out: &mut FileWriter,
        layouts: &mut [Vec<ChunkMeta>],
        placed: &mut Vec<(u32, Entry)>,
    ) -> std::io::Result<()> {
        for (layout, bytes) in self.times.drain(..) {
            let mut rest = &bytes[..];
            for chunk in &mut layouts[layout] {
                let (stream, after) = rest.split_at(chunk.len as usize);
                chunk.offset = out.stream(stream)?;
                rest = after;
            }
        }
        self.columns.sort_unstable_by_key(|c| c.series);
        for c in self.columns.drain(..) {
            let mut rest = &self.bytes[c.from..];
            let mut offset = None;
            for len in &c.lens {
                let (stream, after) = rest.split_at(*len as usize);
                let at = out.stream(stream)?;
                offset = offset.or(Some(at));
                rest = after;
            }
            placed.push((c.series, Entry { layout: c.layout, offset: offset.unwrap_or(0), lens: c.lens }));
        }
        self.bytes.clear();
        Ok(())
    }
}

/// All series in label order, grouped by the location of their columns; groups in order of that location.
fn group(sources: &[Source]) -> (LabelTable, Vec<Vec<Member>>) {
    type Key = SmallVec<[(u32, u32); 2]>;
    let texts: Vec<_> = sources.iter().map(Source::texts).collect();
    let (mut names, numbers) = LabelTable::union(&texts);
    // Loads the labels of the next series of a source.
    let front = |s: usize, next: usize, labels: &mut Vec<LabelPair>| {
        labels.clear();
        sources[s].labels(next, labels);
        let number = |t: u32| numbers[s][t as usize];
        labels.iter_mut().for_each(|p| *p = (number(p.0), number(p.1)));
    };
    let mut fronts: Vec<(usize, Vec<LabelPair>)> = vec![(0, Vec::new()); sources.len()];
    let mut left: Vec<usize> = (0..sources.len()).filter(|s| sources[*s].series() > 0).collect();
    left.iter().for_each(|s| front(*s, 0, &mut fronts[*s].1));
    let mut groups: HashMap<Key, Vec<Member>> = HashMap::new();
    while let Some(first) = left.iter().map(|s| &fronts[*s].1).min() {
        let series = names.len();
        names.push(first);
        let mut locations = SmallVec::<[(u32, ColumnLocation); 2]>::new();
        left.retain(|s| {
            let (next, labels) = &mut fronts[*s];
            if *labels != names.get(series) {
                return true;
            }
            sources[*s].locations(*next, |h| locations.push((*s as u32, h)));
            *next += 1;
            let more = *next < sources[*s].series();
            if more {
                front(*s, *next, labels);
            }
            more
        });
        let key: Key = locations.iter().map(|(s, h)| (*s, h.0)).collect();
        groups.entry(key).or_default().push(Member { series: series as u32, locations });
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    (names, groups.into_iter().map(|g| g.1).collect())
}

/// The times of a group, and the times of each source chunk.
struct Times {
    all: Vec<i64>,
    /// By column location and chunk: times of the source.
    sources: Vec<Vec<std::sync::Arc<[i64]>>>,
}

impl Times {
    fn of(
        sources: &mut [Source],
        locations: &[(u32, ColumnLocation)],
        start: i64,
        end: i64,
    ) -> Result<Self, StoreError> {
        let of_home = |(s, location): &(u32, ColumnLocation)| sources[*s as usize].times(location.0);
        let chunks: Vec<_> = locations.iter().map(of_home).collect::<Result<_, _>>()?;
        let mut all: Vec<i64> =
            chunks.iter().flatten().flat_map(|c| c.iter().copied()).filter(|t| (start..=end).contains(t)).collect();
        if !all.is_sorted_by(|a, b| a < b) {
            all.sort_unstable();
            all.dedup();
        }
        Ok(Self { all, sources: chunks })
    }

    /// Chunks of the new layout; appends their encoded times to `encoded`.
    fn chunks(&self, encoded: &mut Vec<(usize, Vec<u8>)>, layout: usize) -> Vec<ChunkMeta> {
        let mut bytes = Vec::new();
        let chunks = self
            .all
            .chunks(CHUNK_ROWS)
            .map(|times| {
                let before = bytes.len();
                ints::encode(times, &mut bytes);
                ChunkMeta {
                    rows: times.len() as u32,
                    min: times[0],
                    max: times[times.len() - 1],
                    offset: 0,
                    len: (bytes.len() - before) as u32,
                }
            })
            .collect();
        encoded.push((layout, bytes));
        chunks
    }
}

/// Collects the samples of one series in the range and returns their number; `values` is left empty if there are none.
fn gather(sources: &mut [Source], m: &Member, times: &Times, values: &mut Vec<f64>) -> Result<u64, StoreError> {
    values.clear();
    values.resize(times.all.len(), absent());
    let mut samples = 0;
    for ((s, location), chunks) in m.locations.iter().zip(&times.sources) {
        // Rows of a chunk ascend, so the next position is at or right of the last one.
        let (mut chunk, mut at) = (usize::MAX, 0);
        sources[*s as usize].column(*location, |c, row, v| {
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
