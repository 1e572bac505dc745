//! Selects matching series and assembles their samples from head and blocks.

use crate::block::reader::Reader;
use crate::block_series::{BlockSeries, skip_damaged};
use crate::codec::Corrupt;
use crate::codec::column::Scratch;
use crate::error::StoreError;
use crate::head::chunk::Chunk;
use crate::sample_limit::SampleLimit;
use crate::series_builder::{SeriesBuilder, Times, TimesCache, rows};
use fabriclens_model::{Budget, Labels, ReadError, SharedSeries, is_absent};
use foldhash::HashMap;
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// A piece of a series.
pub enum Part {
    /// A column of sealed rows, taken under the lock and decoded outside it.
    Sealed(Arc<Chunk>, u32),
    /// Samples in the range; times may be shared.
    Plain(Arc<[i64]>, Vec<f64>),
}

/// A series and its pieces. Pieces appended earlier come first, so that the first of two samples at one time wins.
pub struct Entry {
    pub labels: Labels,
    pub parts: Parts,
}

/// Usually one.
pub type Parts = SmallVec<[Part; 1]>;

/// Bytes of pages that each thread of a read keeps: the columns of a metric follow each other.
const KEPT_PAGES: usize = 12 << 20;
/// Bytes of one sample with its own time.
pub const SAMPLE: usize = size_of::<i64>() + size_of::<f64>();
/// Bytes of a series without its samples: labels and table entries.
pub const SERIES: usize = 512;

/// The series found by a read so far.
pub struct Selection<'a> {
    /// In label order, except for entries of the source being read and of heads.
    pub entries: Vec<Entry>,
    pub times: Times,
    pub limit: &'a SampleLimit,
    /// Return only the newest sample of each series.
    pub newest: bool,
    budget: &'a dyn Budget,
}

/// Position of a source, whose series come in label order, among the series of earlier sources.
struct Target {
    at: usize,
    known: usize,
    /// Nothing was looked up yet.
    first: bool,
    /// Some of its series are new, and come after those of earlier sources.
    mixed: bool,
}

impl<'a> Selection<'a> {
    /// Empty. Exceeding `limit`, or the memory of `budget`, is an error. Returns all samples of each series, or only the
    /// `newest`.
    pub fn new(limit: &'a SampleLimit, newest: bool, budget: &'a dyn Budget) -> Self {
        Self { entries: Vec::new(), times: Times::default(), limit, newest, budget }
    }

    fn begin(&self) -> Target {
        Target { at: 0, known: self.entries.len(), first: true, mixed: false }
    }

    fn push(&mut self, place: &mut Target, labels: Labels, parts: Parts) -> Result<(), ReadError> {
        if std::mem::take(&mut place.first) {
            place.at = self.entries[..place.known].partition_point(|entry| entry.labels < labels);
        }
        while place.at < place.known {
            let entry = &mut self.entries[place.at];
            match entry.labels.cmp(&labels) {
                Ordering::Less => place.at += 1,
                Ordering::Equal => {
                    entry.parts.extend(parts);
                    return Ok(());
                }
                Ordering::Greater => break,
            }
        }
        self.take(SERIES)?;
        self.entries.push(Entry { labels, parts });
        place.mixed |= place.known > 0;
        Ok(())
    }

    /// Sorts the series of several sources by labels.
    fn end(&mut self, place: &Target) {
        if place.mixed {
            self.arrange();
        }
    }

    /// Sorts the series by labels and merges duplicates.
    pub fn arrange(&mut self) {
        if self.entries.is_sorted_by(|a, b| a.labels < b.labels) {
            return;
        }
        self.entries.sort_by(|a, b| a.labels.cmp(&b.labels));
        self.entries.dedup_by(|next, kept| {
            let same = next.labels == kept.labels;
            if same {
                kept.parts.append(&mut next.parts);
            }
            same
        });
    }

    /// Requests memory.
    pub fn take(&self, bytes: usize) -> Result<(), ReadError> {
        self.budget.request(bytes)
    }

    /// Adds pieces that were appended after the present ones, arranged.
    pub fn append(&mut self, later: Self) -> Result<(), ReadError> {
        if self.entries.is_empty() {
            // In order, and their memory is requested.
            self.entries = later.entries;
            return Ok(());
        }
        let mut place = self.begin();
        for Entry { labels, parts } in later.entries {
            self.push(&mut place, labels, parts)?;
        }
        self.end(&place);
        Ok(())
    }

    /// Adds the samples of some series of a block in the range. Series on a damaged page are left out, and `damage` is called.
    pub fn add_block(
        &mut self,
        of: &BlockSeries<'_>,
        some: Range<usize>,
        (start, end): (i64, i64),
        damage: &dyn Fn(&StoreError),
    ) -> Result<(), ReadError> {
        let BlockSeries { block, index, list, series } = of;
        let mut reader = Reader::new((*block).clone(), index.clone(), KEPT_PAGES);
        let (mut place, mut scratch, mut page) = (self.begin(), Scratch::default(), Vec::new());
        for s in &series[some] {
            self.budget.check()?;
            let s = *s as usize;
            let layout = list.columns().layout(s);
            let mut joined = SeriesBuilder::default();
            let mut newest = i64::MIN;
            let mut chunks: SmallVec<[_; 8]> = index.tables.layouts[layout]
                .iter()
                .zip(list.columns().of(s, &index.tables.layouts))
                .enumerate()
                .collect();
            if self.newest {
                chunks.reverse();
            }
            for (i, (meta, at)) in chunks {
                if meta.min > end || meta.max < start || meta.max < newest || at.1 == 0 {
                    continue;
                }
                let n = meta.rows as usize;
                self.limit.add(n)?;
                let times = match reader.times(layout, i) {
                    Ok(times) => times,
                    Err(e) => {
                        skip_damaged(e, damage)?;
                        continue;
                    }
                };
                let mut rows = rows(&times, start, end);
                self.take(size_of::<Part>() + (SAMPLE + size_of::<f64>()) * rows.len())?;
                match reader.column_into(at, n, &mut scratch, &mut page) {
                    Ok(gaps) => {
                        if self.newest {
                            rows = last_present(&page, rows);
                            newest = newest.max(times[rows.clone()].first().copied().unwrap_or(newest));
                        }
                        joined.push((times, rows), &page, gaps);
                    }
                    Err(e) => skip_damaged(e, damage)?,
                }
            }
            if joined.len() > 0 {
                let (times, values) = joined.finish(&mut self.times);
                self.push(&mut place, list.labels(s, &index.tables), smallvec![Part::Plain(times, values)])?;
            }
        }
        self.end(&place);
        Ok(())
    }

    /// Decodes and assembles; series in label order, without those that have no samples in the range.
    pub fn finish(mut self, start: i64, end: i64) -> Result<Vec<SharedSeries>, ReadError> {
        let mut chunks = ChunkTimes::default();
        let (mut scratch, mut column) = (Scratch::default(), Vec::new());
        let mut all = Vec::with_capacity(self.entries.len());
        for Entry { labels, mut parts } in std::mem::take(&mut self.entries) {
            self.budget.check()?;
            if let [Part::Plain(times, values)] = &mut parts[..] {
                all.push(SharedSeries { labels, times: times.clone(), values: std::mem::take(values) });
                continue;
            }
            let mut joined = SeriesBuilder::default();
            for part in parts {
                match part {
                    Part::Plain(times, values) => joined.push((times, 0..values.len()), &values, false),
                    Part::Sealed(chunk, c) => {
                        let times = chunks.of(&chunk).map_err(storage)?;
                        let gaps = chunk.column_into(c as usize, &mut scratch, &mut column).map_err(storage)?;
                        let rows = rows(&times, start, end);
                        joined.push((times, rows), &column, gaps);
                    }
                }
            }
            if joined.len() > 0 {
                let (mut times, mut values) = joined.finish(&mut self.times);
                if self.newest && values.len() > 1 {
                    (times, values) = (times[times.len() - 1..].into(), values.split_off(values.len() - 1));
                }
                all.push(SharedSeries { labels, times, values });
            }
        }
        Ok(all)
    }
}

/// The last of these rows that has a value, as a range of one or zero rows.
fn last_present(values: &[f64], rows: Range<usize>) -> Range<usize> {
    rows.rev().find(|r| !is_absent(values[*r])).map_or(0..0, |r| r..r + 1)
}

fn storage(e: Corrupt) -> ReadError {
    ReadError::Storage(format!("rows in memory cannot be decoded: {e}; please report this"))
}

/// Times of sealed rows, decoded once for all columns.
#[derive(Default)]
struct ChunkTimes {
    /// By address; the chunk is kept alive with it.
    known: HashMap<*const Chunk, (Arc<Chunk>, Arc<[i64]>)>,
    decoded: TimesCache,
}

impl ChunkTimes {
    fn of(&mut self, chunk: &Arc<Chunk>) -> Result<Arc<[i64]>, Corrupt> {
        if let Some((_, times)) = self.known.get(&Arc::as_ptr(chunk)) {
            return Ok(times.clone());
        }
        let times = self.decoded.times(chunk.encoded_times(), chunk.rows())?;
        self.known.insert(Arc::as_ptr(chunk), (chunk.clone(), times.clone()));
        Ok(times)
    }
}
