//! One generation of the head: its series, its layouts and their rows. Each generation has its own log and becomes
//! blocks.

use super::layout::HeadLayout;
use super::limits::{Limits, SeriesCounts};
use super::memory::{self, HeadMemory};
use super::out_of_order;
use super::sealed_times::SealedTimes;
use super::series::{Location, SeriesTable};
use crate::options::SeriesLimits;
use crate::rows::Appended;
use crate::wal::record;
use fabriclens_base::Sender;
use fabriclens_model::{Labels, Layout, LayoutId, RowGroup, is_absent, is_component, present};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A series may be part of this many layouts before it gets a layout of its own.
const MAX_LAYOUTS: usize = 8;
/// The same of the components of a histogram, which gets another layout when its observations reach other buckets. Alone,
/// each would be a record of the log.
const MAX_HISTOGRAM_LAYOUTS: usize = 64;

/// Fraction of the columns that must have had samples for all to be carried into the next generation.
const KEEP: (usize, usize) = (3, 4);

/// A generation of the head.
pub struct Generation {
    /// Number of its log; later generations have higher numbers.
    pub number: u64,
    /// Number of the first log that was replayed into it; equal to `number` if none was.
    pub first: u64,
    /// By series index. The next generation shares it until it gets a series or layout that this one has not.
    pub series: Arc<SeriesTable>,
    /// By layout index, as numbered in its log.
    pub layouts: Vec<HeadLayout>,
    by_id: HashMap<LayoutId, u32>,
    /// Hash of the columns, and layout index.
    by_content: HashTable<(u64, u32)>,
    solo: HashMap<u32, u32>,
    hasher: RandomState,
    /// Number of samples accepted.
    pub samples: u64,
    /// Bytes of compressed chunks.
    pub sealed_bytes: u64,
    chunk_rows: usize,
    limits: Limits,
}

/// Where the columns of a row group go.
enum Target {
    Layout(u32),
    /// One layout per column, because senders regroup these series too often.
    Solo(Vec<u32>),
    /// A subset of the columns, as a list of its own with its column indexes: the others are of series beyond a limit.
    Some(Layout, Arc<[u32]>),
}

impl Generation {
    /// An empty generation.
    pub fn new(number: u64, chunk_rows: usize, limits: &SeriesLimits) -> Self {
        Self {
            number,
            first: number,
            series: Arc::default(),
            layouts: Vec::new(),
            by_id: HashMap::new(),
            by_content: HashTable::new(),
            solo: HashMap::new(),
            hasher: RandomState::default(),
            samples: 0,
            sealed_bytes: 0,
            chunk_rows,
            limits: Limits::new(limits.clone()),
        }
    }

    /// The generation after this one. It keeps the series and layouts, so that continuing senders cost nothing to
    /// register again. It starts empty if a series was refused or if too many columns had no samples, so that ended
    /// series do not stay for long.
    pub fn successor(&self, number: u64) -> Self {
        let columns = |with_rows: bool| -> usize {
            self.layouts.iter().filter(|l| !with_rows || l.has_rows()).map(|l| l.series.len()).sum()
        };
        if self.refusal().is_some() || columns(true) * KEEP.1 < columns(false) * KEEP.0 {
            return self.empty_successor(number);
        }
        let mut next = self.empty_successor(number);
        next.series = self.series.clone();
        next.layouts = self.layouts.iter().map(HeadLayout::successor).collect();
        next.by_id = self.by_id.clone();
        next.by_content = self.by_content.clone();
        next.solo = self.solo.clone();
        next.hasher = self.hasher.clone();
        next.limits = self.limits.successor(true);
        next
    }

    /// The generation after this one, without series. What each sender has is reserved for it.
    pub fn empty_successor(&self, number: u64) -> Self {
        Self { limits: self.limits.successor(false), ..Self::new(number, self.chunk_rows, &SeriesLimits::default()) }
    }

    /// Logs and stores a group whose shape and times have been checked.
    pub fn append(&mut self, group: &RowGroup, sender: Sender<'_>, older: &[Arc<Self>], log: &mut Vec<u8>) -> Appended {
        let rows = group.times.len();
        match self.resolve(&group.series, sender, older) {
            Target::Layout(layout) => {
                self.log_layout(layout, log);
                record::put_rows(log, layout, &group.times, &group.values);
                self.apply(layout, &group.times, &group.values, older)
            }
            Target::Solo(layouts) => {
                let mut sum = Appended::default();
                for (layout, column) in layouts.into_iter().zip(group.values.chunks(rows.max(1))) {
                    self.log_layout(layout, log);
                    record::put_rows(log, layout, &group.times, column);
                    sum += self.apply(layout, &group.times, column, older);
                }
                sum
            }
            Target::Some(series, kept) => {
                let column = |c: &u32| &group.values[*c as usize * rows..(*c as usize + 1) * rows];
                let values: Vec<f64> = kept.iter().flat_map(column).copied().collect();
                let over_series_limit = present(&group.values) - present(&values);
                let mut sum = Appended { over_series_limit, ..Appended::default() };
                if !kept.is_empty() {
                    let kept = RowGroup { series, times: group.times.clone(), values };
                    sum += self.append(&kept, sender, older, log);
                }
                sum
            }
        }
    }

    /// Stores rows of a known layout; replay calls this with the rows that [`Generation::append`] logged.
    pub fn apply(&mut self, layout: u32, times: &[i64], values: &[f64], older: &[Arc<Self>]) -> Appended {
        let (mut sum, mut sealed) = (Appended::default(), SealedTimes::default());
        let l = layout as usize;
        for (r, time) in times.iter().enumerate() {
            let newest = self.layouts[l]
                .peers
                .iter()
                .map(|p| self.layouts[*p as usize].last)
                .fold(self.layouts[l].last, i64::max);
            if *time > newest {
                let of_row = if times.len() == 1 {
                    present(values)
                } else {
                    values.iter().skip(r).step_by(times.len()).filter(|v| !is_absent(**v)).count() as u64
                };
                if of_row == 0 {
                    continue;
                }
                let layout = &mut self.layouts[l];
                layout.open.push(*time, values, times.len(), r);
                layout.last = *time;
                sum.accepted += of_row;
            } else if self.layouts[l].is_scattered(*time) {
                let refused = values.iter().skip(r).step_by(times.len()).filter(|v| !is_absent(**v)).count();
                sum.out_of_order += refused as u64;
            } else {
                let mut row: Vec<f64> = values.iter().skip(r).step_by(times.len()).copied().collect();
                let existing = |column: usize| self.existing(self.layouts[l].series[column], *time, older, &mut sealed);
                let kept = out_of_order::drop_existing(&mut row, existing);
                if kept.accepted > 0 {
                    self.layouts[l].insert_late(*time, &row);
                }
                sum += kept;
            }
            self.sealed_bytes += self.layouts[l].seal_full(self.chunk_rows) as u64;
        }
        self.samples += sum.accepted;
        sum
    }

    /// The sample of a series at a time, in this generation or in an older one that is not a block yet.
    fn existing(&self, series: u32, time: i64, older: &[Arc<Self>], sealed: &mut SealedTimes) -> Option<f64> {
        let labels = self.labels(series);
        let here = self.at(series, time, sealed);
        here.or_else(|| older.iter().find_map(|g| g.at(g.find(labels)?, time, sealed)))
    }

    /// Logs the definition of a layout before its first rows.
    fn log_layout(&mut self, layout: u32, log: &mut Vec<u8>) {
        let l = &mut self.layouts[layout as usize];
        if !std::mem::replace(&mut l.logged, true) {
            record::put_layout(log, layout, &l.columns);
        }
    }

    /// The layout of these columns, defined if it is new.
    fn resolve(&mut self, columns: &Layout, sender: Sender<'_>, older: &[Arc<Self>]) -> Target {
        if let Some(layout) = self.by_id.get(&columns.id()) {
            return Target::Layout(*layout);
        }
        if let Some(layout) = self.layout_of(columns) {
            self.remember_id(layout, columns);
            return Target::Layout(layout);
        }
        if let Some((series, kept)) = self.limits.cached(sender, columns.id()) {
            return Target::Some(series, kept);
        }
        let of_metric = |metric: &str| self.series.of_metric(metric).len();
        let counts = SeriesCounts { all: self.series.len(), of_metric: &of_metric };
        let known = |c: &Labels| self.series.find(c, &self.layouts).is_some();
        if !self.limits.allow(sender, &counts, columns.iter().filter(|c| !known(c))) {
            let (series, kept) = self.limits.subset(sender, columns, &counts, known);
            return Target::Some(series, kept);
        }
        let histogram = columns.first().is_some_and(is_component);
        let most = if histogram { MAX_HISTOGRAM_LAYOUTS } else { MAX_LAYOUTS };
        let crowded = |c: &Labels| self.find(c).is_some_and(|series| self.series.locations(series).count() >= most);
        if columns.len() > 1 && (columns.iter().any(crowded) || has_duplicates(columns)) {
            let layouts = columns.iter().map(|c| self.solo(c, sender, older)).collect();
            return Target::Solo(layouts);
        }
        Target::Layout(self.define(columns.clone(), Some(sender), older))
    }

    /// The layout with exactly these columns.
    pub fn layout_of(&self, columns: &[Labels]) -> Option<u32> {
        let hash = self.hasher.hash_one(columns);
        let same = |known: &(u64, u32)| known.0 == hash && self.layouts[known.1 as usize].columns[..] == *columns;
        self.by_content.find(hash, same).map(|known| known.1)
    }

    /// The layout that holds this series alone.
    fn solo(&mut self, labels: &Labels, sender: Sender<'_>, older: &[Arc<Self>]) -> u32 {
        if let Some(layout) = self.find(labels).and_then(|s| self.solo.get(&s)) {
            return *layout;
        }
        self.define(Layout::new([labels.clone()]), Some(sender), older)
    }

    /// Adds a layout; replay calls this with the logged definition, which names no sender.
    pub fn define(&mut self, columns: Layout, sender: Option<Sender<'_>>, older: &[Arc<Self>]) -> u32 {
        let layout = self.layouts.len() as u32;
        let mut peers = Vec::new();
        let newest = |labels: &Labels| older.iter().map(|old| old.newest(labels)).fold(i64::MIN, i64::max);
        let last = columns.iter().map(newest).fold(i64::MIN, i64::max);
        let mut series = Vec::with_capacity(columns.len());
        // The index finds the labels of the series in their layouts.
        self.layouts.push(HeadLayout::new(columns.clone(), Arc::from([]), last));
        let index = Arc::make_mut(&mut self.series);
        for (column, labels) in columns.iter().enumerate() {
            let (id, new) = index.add(labels, (layout, column as u32), &self.layouts);
            if new {
                self.limits.count(labels, sender);
            }
            peers.extend(index.locations(id).map(|(l, _)| l).filter(|l| *l != layout));
            series.push(id);
        }
        peers.sort_unstable();
        peers.dedup();
        for peer in &peers {
            self.layouts[*peer as usize].peers.push(layout);
        }
        self.limits.count_list(&columns, sender);
        if let [only] = series[..] {
            self.solo.insert(only, layout);
        }
        let hash = self.hasher.hash_one(&*columns);
        self.by_content.insert_unique(hash, (hash, layout), |known| known.0);
        self.by_id.insert(columns.id(), layout);
        let new = &mut self.layouts[layout as usize];
        (new.series, new.peers) = (series.into(), peers);
        layout
    }

    /// A layout holds the column list that was seen last; its id maps to the layout until another list replaces it.
    fn remember_id(&mut self, layout: u32, columns: &Layout) {
        let old = std::mem::replace(&mut self.layouts[layout as usize].columns, columns.clone());
        self.by_id.remove(&old.id());
        self.by_id.insert(columns.id(), layout);
    }

    /// Message about the last series that was refused, if any.
    pub fn refusal(&self) -> Option<String> {
        self.limits.refusal()
    }

    /// Number of series, of which a histogram is one.
    pub fn series_without_components(&self) -> usize {
        self.series.len() - self.limits.components()
    }

    /// Whether a series is a component of a histogram.
    pub fn has_components(&self) -> bool {
        self.limits.components() > 0
    }

    /// Whether the series of these components exist, or fit into the limits together.
    pub(super) fn takes_histogram(&mut self, columns: &Layout, sender: Sender<'_>) -> bool {
        if self.by_id.contains_key(&columns.id()) || self.layout_of(columns).is_some() {
            return true;
        }
        let of_metric = |metric: &str| self.series.of_metric(metric).len();
        let counts = SeriesCounts { all: self.series.len(), of_metric: &of_metric };
        let fresh = columns.iter().filter(|c| self.series.find(c, &self.layouts).is_none());
        self.limits.allow_histogram(sender, &counts, fresh)
    }

    /// The sample with these labels at a time, in this generation or in an older one that is not a block yet.
    pub(super) fn sample_at(
        &self,
        labels: &Labels,
        time: i64,
        older: &[Arc<Self>],
        sealed: &mut SealedTimes,
    ) -> Option<f64> {
        let here = self.find(labels).and_then(|series| self.at(series, time, sealed));
        here.or_else(|| older.iter().find_map(|g| g.at(g.find(labels)?, time, sealed)))
    }

    /// The sample of a series at a time.
    fn at(&self, series: u32, time: i64, sealed: &mut SealedTimes) -> Option<f64> {
        self.series.locations(series).find_map(|(l, c)| self.layouts[l as usize].at(time, c as usize, sealed))
    }

    /// The index of a series.
    fn find(&self, labels: &Labels) -> Option<u32> {
        self.series.find(labels, &self.layouts)
    }

    /// The labels of a series.
    pub fn labels(&self, series: u32) -> &Labels {
        self.series.labels(series, &self.layouts)
    }

    /// Bytes of memory by part, without what generations share: labels, lists and the index of series.
    pub fn memory(&self) -> HeadMemory {
        let layouts = memory::vec(&self.layouts)
            + memory::table::<(LayoutId, u32)>(self.by_id.capacity())
            + memory::table::<(u64, u32)>(self.by_content.capacity())
            + memory::table::<(u32, u32)>(self.solo.capacity());
        let mut sum = HeadMemory { layouts, ..HeadMemory::default() };
        self.layouts.iter().for_each(|layout| sum += layout.memory());
        sum
    }

    /// No sample with these labels is newer, Unix ms.
    pub(super) fn newest(&self, labels: &Labels) -> i64 {
        let last = |(layout, _): Location| self.layouts[layout as usize].last;
        self.find(labels).map_or(i64::MIN, |series| self.series.locations(series).map(last).fold(i64::MIN, i64::max))
    }

    /// First and last time of all rows, Unix ms.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.layouts.iter().filter_map(HeadLayout::range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Whether a series occurs twice.
fn has_duplicates(columns: &[Labels]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(columns.len());
    !columns.iter().all(|c| seen.insert(c))
}
