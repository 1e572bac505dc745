//! Builds one block from any number of sources: flush and merge are the same thing.
//!
//! Series whose columns lie in the same layouts of the same sources become one layout of the new block; its times are
//! the union of theirs. Layouts are worked off in batches: within a batch the columns of one metric are neighbours, and
//! only one batch is in memory.

use super::file::{Facts, FileWriter};
use super::index::{ChunkMeta, Entry};
use super::source::{Home, Source};
use crate::codec::{column, ints};
use crate::error::StoreError;
use crate::io::Files;
use fabriclens_model::{Labels, absent, is_absent};
use foldhash::{HashMap, HashMapExt as _};
use std::path::Path;

/// Rows that are compressed together in a block at most.
const CHUNK_ROWS: usize = 2048;
/// Compressed bytes after which a batch is written.
const BATCH: usize = 32 << 20;

/// What to build.
pub struct Plan {
    /// Samples from here on …
    pub start: i64,
    /// … to here, both inclusive.
    pub end: i64,
    /// See [`Facts::generations`].
    pub generations: (u64, u64),
    /// See [`Facts::parents`].
    pub parents: Vec<u64>,
}

/// A series and all places of its columns, earliest source first.
struct Member {
    series: usize,
    source: usize,
    at: usize,
    homes: Vec<(usize, Home)>,
}

/// A series' columns, encoded but not yet placed.
struct Encoded {
    member: (usize, usize, usize),
    layout: u32,
    lens: Vec<u32>,
    bytes: Vec<u8>,
}

/// Series placed in the file: number in order, source, index there.
type Placed = ((usize, usize, usize), u32, u64, Vec<u32>);

/// Writes a block to `path`. `None`, and no file, when there is nothing in the range. `go_on` is asked between
/// layouts, so that a merge can step back behind ingest; false ends the build with [`StoreError::Closed`].
pub fn build(
    files: &dyn Files,
    path: &Path,
    sources: &mut [Source],
    plan: Plan,
    mut go_on: impl FnMut() -> bool,
) -> Result<Option<Facts>, StoreError> {
    let fail = |what| move |e: std::io::Error| StoreError::io(what, path, &e);
    let groups = group(sources);
    let mut writer: Option<FileWriter> = None;
    let mut layouts: Vec<Vec<ChunkMeta>> = Vec::new();
    let mut placed: Vec<Placed> = Vec::new();
    let mut batch: Vec<Encoded> = Vec::new();
    let mut batch_times: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut batch_bytes = 0;
    let mut facts = Facts {
        min: i64::MAX,
        max: i64::MIN,
        generations: plan.generations,
        parents: plan.parents,
        ..Facts::default()
    };
    for (i, members) in groups.iter().enumerate() {
        if !go_on() {
            return Err(StoreError::Closed);
        }
        let merged = Times::of(sources, &members[0].homes, plan.start, plan.end)?;
        if !merged.all.is_empty() {
            let layout = layouts.len() as u32;
            let before = batch.len();
            for m in members {
                if let Some((encoded, samples)) = encode(sources, m, &merged, layout)? {
                    facts.samples += samples;
                    batch_bytes += encoded.bytes.len();
                    batch.push(encoded);
                }
            }
            if batch.len() > before {
                facts.min = facts.min.min(merged.all[0]);
                facts.max = facts.max.max(merged.all[merged.all.len() - 1]);
                layouts.push(merged.chunks(&mut batch_times, layouts.len()));
            }
        }
        let last = i + 1 == groups.len();
        if batch.is_empty() || (batch_bytes < BATCH && !last) {
            continue;
        }
        let mut out = match writer.take() {
            Some(out) => out,
            None => FileWriter::new(files.create(path).map_err(fail("create"))?).map_err(fail("write"))?,
        };
        write_batch(&mut out, &mut layouts, &mut batch_times, &mut batch, &mut placed).map_err(fail("write"))?;
        writer = Some(out);
        batch_bytes = 0;
    }
    let Some(writer) = writer else {
        return Ok(None);
    };
    placed.sort_unstable_by_key(|p| p.0.0);
    let entries: Vec<Entry> = placed
        .into_iter()
        .map(|((_, source, at), layout, offset, lens)| Entry {
            labels: sources[source].labels(at),
            layout,
            offset,
            lens,
        })
        .collect();
    facts.series = entries.len() as u64;
    writer.finish(&layouts, &entries, facts).map(Some).map_err(fail("write"))
}

fn write_batch(
    out: &mut FileWriter,
    layouts: &mut [Vec<ChunkMeta>],
    times: &mut Vec<(usize, Vec<u8>)>,
    batch: &mut Vec<Encoded>,
    placed: &mut Vec<Placed>,
) -> std::io::Result<()> {
    for (layout, bytes) in times.drain(..) {
        let mut rest = &bytes[..];
        for chunk in &mut layouts[layout] {
            let (stream, after) = rest.split_at(chunk.len as usize);
            chunk.offset = out.stream(stream)?;
            rest = after;
        }
    }
    batch.sort_unstable_by_key(|e| e.member.0);
    for e in batch.drain(..) {
        let mut rest = &e.bytes[..];
        let mut offset = None;
        for len in &e.lens {
            let (stream, after) = rest.split_at(*len as usize);
            let at = out.stream(stream)?;
            offset = offset.or(Some(at));
            rest = after;
        }
        placed.push((e.member, e.layout, offset.unwrap_or(0), e.lens));
    }
    Ok(())
}

/// All series in order of their labels, grouped by where their columns lie; groups in order of that place.
fn group(sources: &[Source]) -> Vec<Vec<Member>> {
    let mut next = vec![0usize; sources.len()];
    let mut fronts: Vec<Option<Labels>> = sources.iter().map(|s| (s.series() > 0).then(|| s.labels(0))).collect();
    let mut groups: HashMap<Vec<(usize, u32)>, Vec<Member>> = HashMap::new();
    for series in 0.. {
        let Some(labels) = fronts.iter().flatten().min().cloned() else {
            break;
        };
        let mut homes = Vec::new();
        let mut first = None;
        for (s, source) in sources.iter().enumerate() {
            if fronts[s].as_ref() != Some(&labels) {
                continue;
            }
            first = first.or(Some((s, next[s])));
            homes.extend(source.homes(next[s]).into_iter().map(|h| (s, h)));
            next[s] += 1;
            fronts[s] = (next[s] < source.series()).then(|| source.labels(next[s]));
        }
        let key = homes.iter().map(|(s, h)| (*s, h.0)).collect();
        let (source, at) = first.unwrap_or((0, 0));
        groups.entry(key).or_default().push(Member { series, source, at, homes });
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    groups.into_iter().map(|g| g.1).collect()
}

/// The times of a group, and which of them each source row is.
struct Times {
    all: Vec<i64>,
    /// By home and chunk: times of the source.
    sources: Vec<Vec<std::sync::Arc<[i64]>>>,
}

impl Times {
    fn of(sources: &mut [Source], homes: &[(usize, Home)], start: i64, end: i64) -> Result<Self, StoreError> {
        let of_home = |(s, home): &(usize, Home)| sources[*s].times(home.0);
        let chunks: Vec<_> = homes.iter().map(of_home).collect::<Result<_, _>>()?;
        let mut all: Vec<i64> =
            chunks.iter().flatten().flat_map(|c| c.iter().copied()).filter(|t| (start..=end).contains(t)).collect();
        if !all.is_sorted_by(|a, b| a < b) {
            all.sort_unstable();
            all.dedup();
        }
        Ok(Self { all, sources: chunks })
    }

    /// Chunks of the new layout; their encoded times go to `encoded`.
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

/// The columns of one series; `None` when it has no sample in the range.
fn encode(
    sources: &mut [Source],
    m: &Member,
    times: &Times,
    layout: u32,
) -> Result<Option<(Encoded, u64)>, StoreError> {
    let mut values = vec![absent(); times.all.len()];
    let mut samples = 0;
    for ((s, home), chunks) in m.homes.iter().zip(&times.sources) {
        // Rows of a chunk ascend, so the place of the next one is at or right of the last one.
        let (mut chunk, mut at) = (usize::MAX, 0);
        sources[*s].column(*home, |c, row, v| {
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
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let lens = values
        .chunks(CHUNK_ROWS)
        .map(|v| {
            let before = bytes.len();
            column::encode(v, &mut bytes);
            (bytes.len() - before) as u32
        })
        .collect();
    let encoded = Encoded { member: (m.series, m.source, m.at), layout, lens, bytes };
    Ok(Some((encoded, samples)))
}
