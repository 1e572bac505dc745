//! A layout in the head: series that arrive together, and their rows.

use super::chunk::Chunk;
use super::memory::{self, HeadMemory};
use super::rows::Rows;
use super::sealed_times::SealedTimes;
use fabriclens_model::{Layout, is_absent};
use std::sync::Arc;

/// Chunks that may hold rows around one time before further late rows are refused: each late sample is compared with
/// them, while other senders wait.
const MAX_OVERLAPPING: usize = 8;

/// Columns that share time stamps, with their rows.
pub struct HeadLayout {
    /// Labels by column, as the sender gave them.
    pub columns: Layout,
    /// Series index by column.
    pub series: Arc<[u32]>,
    /// Other layouts that contain one of its series.
    pub peers: Vec<u32>,
    /// No sample of its series is newer than this, here or in earlier generations.
    pub last: i64,
    /// The newest rows, ordered by time.
    pub open: Rows,
    /// Rows older than all of `open`, ordered by time; `None` if there are none.
    pub late: Option<Box<Rows>>,
    /// Compressed rows; chunks may overlap in time.
    pub sealed: Vec<Arc<Chunk>>,
    /// Whether its definition is in the log.
    pub logged: bool,
}

impl HeadLayout {
    /// An empty layout; `last` is the newest time of its series in earlier generations.
    pub fn new(columns: Layout, series: Arc<[u32]>, last: i64) -> Self {
        Self {
            columns,
            series,
            peers: Vec::new(),
            last,
            open: Rows::default(),
            late: None,
            sealed: Vec::new(),
            logged: false,
        }
    }

    /// The same columns for the next generation, without rows.
    pub fn successor(&self) -> Self {
        let empty = Self::new(self.columns.clone(), self.series.clone(), self.last);
        Self { peers: self.peers.clone(), ..empty }
    }

    /// Whether so many chunks hold rows around a time that another late row is refused: each is searched for it. Senders that
    /// send rows in order, however late, have one or two.
    pub fn is_scattered(&self, time: i64) -> bool {
        self.sealed.iter().filter(|chunk| chunk.overlaps(time, time)).nth(MAX_OVERLAPPING).is_some()
    }

    /// The rows that are not sealed: those in order, then the late ones.
    pub fn unsealed(&self) -> impl Iterator<Item = &Rows> {
        [&self.open].into_iter().chain(self.late.as_deref())
    }

    /// Adds a row without duplicate samples: to `open` if it is in order, else to `late`.
    pub fn insert_late(&mut self, time: i64, row: &[f64]) {
        match self.open.times().first() {
            Some(first) if time < *first => self.late.get_or_insert_default().merge(time, row),
            None if time <= self.last => self.late.get_or_insert_default().merge(time, row),
            _ => self.open.merge(time, row),
        }
        self.last = self.last.max(time);
    }

    /// Seals buffers of `limit` rows or more; returns the compressed bytes added.
    pub fn seal_full(&mut self, limit: usize) -> usize {
        let mut gained = 0;
        for rows in [Some(&mut self.open), self.late.as_deref_mut()].into_iter().flatten() {
            if rows.times().len() < limit.max(1) {
                continue;
            }
            if let Some(chunk) = rows.seal() {
                gained += chunk.bytes();
                self.sealed.push(Arc::new(chunk));
            }
        }
        if self.late.as_ref().is_some_and(|late| late.times().is_empty()) {
            self.late = None;
        }
        gained
    }

    /// The sample of a column at a time, in any buffer or chunk.
    pub fn at(&self, time: i64, column: usize, times: &mut SealedTimes) -> Option<f64> {
        if time > self.last {
            return None;
        }
        self.unsealed().find_map(|rows| rows.at(time, column)).or_else(|| {
            self.sealed.iter().find_map(|chunk| {
                let row = times.row(chunk, time)?;
                Some(chunk.column(column).ok()?[row]).filter(|value| !is_absent(*value))
            })
        })
    }

    /// Bytes of memory by part, without the lists that generations share.
    pub fn memory(&self) -> HeadMemory {
        let chunks = self.sealed.iter().map(|chunk| memory::ARC + size_of::<Chunk>() + chunk.bytes());
        HeadMemory {
            layouts: memory::vec(&self.peers),
            open: self.open.memory(),
            late: self.late.as_ref().map_or(0, |late| size_of::<Rows>() + late.memory()),
            sealed: memory::vec(&self.sealed) + chunks.sum::<usize>(),
            ..HeadMemory::default()
        }
    }

    /// Whether it has any row.
    pub fn has_rows(&self) -> bool {
        !self.sealed.is_empty() || self.unsealed().any(|rows| !rows.times().is_empty())
    }

    /// First and last time of all rows, Unix ms.
    pub fn range(&self) -> Option<(i64, i64)> {
        let open = self.unsealed().filter_map(|r| Some((*r.times().first()?, *r.times().last()?)));
        self.sealed.iter().map(|c| c.range()).chain(open).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}
