//! One generation of the head: its series, its layouts and their rows. A generation has one log and becomes blocks.

use super::layout::Layout;
use super::limits::{Limits, There};
use super::slow;
use crate::options::SeriesLimits;
use crate::rows::{Appended, RowGroup};
use crate::wal::record;
use fabriclens_model::{Labels, is_absent, present};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Layouts that one series may be part of before it gets a layout of its own.
const MAX_HOMES: usize = 8;

/// A series and where its columns are.
pub struct Entered {
    /// Its labels.
    pub labels: Labels,
    /// Layout and column.
    pub homes: Vec<(u32, u32)>,
}

/// See the module.
pub struct Generation {
    /// Number of its log; later generations have higher ones.
    pub number: u64,
    /// Number of the first log that was replayed into it; its own if none was.
    pub first: u64,
    /// By series index.
    pub series: Vec<Entered>,
    /// By layout index, as in its log.
    pub layouts: Vec<Layout>,
    by_labels: HashMap<Labels, u32>,
    by_metric: HashMap<Arc<str>, Vec<u32>>,
    by_address: HashMap<usize, u32>,
    by_content: HashMap<u64, Vec<u32>>,
    solo: HashMap<u32, u32>,
    hasher: RandomState,
    /// Samples accepted.
    pub samples: u64,
    /// Bytes of compressed chunks.
    pub sealed_bytes: u64,
    chunk_rows: usize,
    limits: Limits,
}

/// Where the columns of a group go.
enum Place {
    Layout(u32),
    /// One layout for each column: the senders regroup their series too often.
    Solo(Vec<u32>),
    /// Some columns, in a layout of their own, and which they are: the others are of series beyond a limit.
    Some(Arc<[Labels]>, Arc<[u32]>),
}

impl Generation {
    /// Empty.
    pub fn new(number: u64, chunk_rows: usize, limits: &SeriesLimits) -> Self {
        Self {
            number,
            first: number,
            series: Vec::new(),
            layouts: Vec::new(),
            by_labels: HashMap::new(),
            by_metric: HashMap::new(),
            by_address: HashMap::new(),
            by_content: HashMap::new(),
            solo: HashMap::new(),
            hasher: RandomState::default(),
            samples: 0,
            sealed_bytes: 0,
            chunk_rows,
            limits: Limits::new(limits.clone()),
        }
    }

    /// Logs and stores a group whose shape and times have been checked.
    pub fn append(&mut self, group: &RowGroup, older: &[Arc<Self>], log: &mut Vec<u8>) -> Appended {
        let rows = group.times.len();
        match self.resolve(&group.series, older, log) {
            Place::Layout(layout) => {
                record::put_rows(log, layout, &group.times, &group.values);
                self.apply(layout, &group.times, &group.values, older)
            }
            Place::Solo(layouts) => {
                let mut sum = Appended::default();
                for (layout, column) in layouts.into_iter().zip(group.values.chunks(rows.max(1))) {
                    record::put_rows(log, layout, &group.times, column);
                    sum += self.apply(layout, &group.times, column, older);
                }
                sum
            }
            Place::Some(series, kept) => {
                let column = |c: &u32| &group.values[*c as usize * rows..(*c as usize + 1) * rows];
                let values: Vec<f64> = kept.iter().flat_map(column).copied().collect();
                let over_series_limit = present(&group.values) - present(&values);
                let mut sum = Appended { over_series_limit, ..Appended::default() };
                if !kept.is_empty() {
                    sum += self.append(&RowGroup { series, times: group.times.clone(), values }, older, log);
                }
                sum
            }
        }
    }

    /// Stores rows of a known layout; the log calls this on replay with what [`Generation::append`] wrote.
    pub fn apply(&mut self, layout: u32, times: &[i64], values: &[f64], older: &[Arc<Self>]) -> Appended {
        let mut sum = Appended::default();
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
            } else {
                let row: Vec<f64> = values.iter().skip(r).step_by(times.len()).copied().collect();
                sum += slow::place(self, older, layout, *time, row);
            }
            self.sealed_bytes += self.layouts[l].seal_full(self.chunk_rows) as u64;
        }
        self.samples += sum.accepted;
        sum
    }

    /// The layout of these columns, defined and logged if it is new.
    fn resolve(&mut self, columns: &Arc<[Labels]>, older: &[Arc<Self>], log: &mut Vec<u8>) -> Place {
        let address = Arc::as_ptr(columns).cast::<Labels>() as usize;
        if let Some(layout) = self.by_address.get(&address) {
            return Place::Layout(*layout);
        }
        if let Some(layout) = self.layout_of(columns) {
            self.remember_address(address, layout, columns);
            return Place::Layout(layout);
        }
        if let Some((series, kept)) = self.limits.known(address) {
            return Place::Some(series, kept);
        }
        let of_metric = |metric: &str| self.by_metric.get(metric).map_or(0, Vec::len);
        let there = There { all: self.series.len(), of_metric: &of_metric };
        let known = |c: &Labels| self.by_labels.contains_key(c);
        if !self.limits.allow(&there, columns.len(), columns.iter().filter(|c| !known(c))) {
            let (series, kept) = self.limits.cut(columns, &there, known);
            return Place::Some(series, kept);
        }
        let crowded =
            |c: &Labels| self.by_labels.get(c).is_some_and(|s| self.series[*s as usize].homes.len() >= MAX_HOMES);
        if columns.len() > 1 && (columns.iter().any(crowded) || has_twins(columns)) {
            let layouts = columns.iter().map(|c| self.solo(c, older, log)).collect();
            return Place::Solo(layouts);
        }
        let layout = self.layouts.len() as u32;
        record::put_layout(log, layout, columns);
        self.define(columns.clone(), older);
        Place::Layout(layout)
    }

    /// The layout with exactly these columns.
    pub fn layout_of(&self, columns: &[Labels]) -> Option<u32> {
        let hash = self.hasher.hash_one(columns);
        self.by_content.get(&hash)?.iter().copied().find(|l| *self.layouts[*l as usize].columns == *columns)
    }

    /// The layout that holds one series alone.
    fn solo(&mut self, labels: &Labels, older: &[Arc<Self>], log: &mut Vec<u8>) -> u32 {
        if let Some(layout) = self.by_labels.get(labels).and_then(|s| self.solo.get(s)) {
            return *layout;
        }
        let columns: Arc<[Labels]> = Arc::from([labels.clone()]);
        record::put_layout(log, self.layouts.len() as u32, &columns);
        self.define(columns, older)
    }

    /// Adds a layout; replay calls this with what the log says.
    pub fn define(&mut self, columns: Arc<[Labels]>, older: &[Arc<Self>]) -> u32 {
        let layout = self.layouts.len() as u32;
        let mut peers = Vec::new();
        let mut last = i64::MIN;
        let mut series = Vec::with_capacity(columns.len());
        for (column, labels) in columns.iter().enumerate() {
            for old in older {
                last = last.max(old.newest(labels));
            }
            let id = self.enter(labels);
            let homes = &mut self.series[id as usize].homes;
            peers.extend(homes.iter().map(|(l, _)| *l).filter(|l| *l != layout));
            homes.push((layout, column as u32));
            series.push(id);
        }
        peers.sort_unstable();
        peers.dedup();
        for peer in &peers {
            self.layouts[*peer as usize].peers.push(layout);
        }
        if let [only] = series[..] {
            self.solo.insert(only, layout);
        }
        let hash = self.hasher.hash_one(&*columns);
        self.by_content.entry(hash).or_default().push(layout);
        self.by_address.insert(Arc::as_ptr(&columns).cast::<Labels>() as usize, layout);
        let mut new = Layout::new(columns, series, last);
        new.peers = peers;
        self.layouts.push(new);
        layout
    }

    /// An address stands for a layout only while the layout keeps that allocation alive.
    fn remember_address(&mut self, address: usize, layout: u32, columns: &Arc<[Labels]>) {
        let held = &mut self.layouts[layout as usize].columns;
        let old = Arc::as_ptr(held).cast::<Labels>() as usize;
        *held = columns.clone();
        self.by_address.remove(&old);
        self.by_address.insert(address, layout);
    }

    /// What the last series that was refused ran into.
    pub fn refusal(&self) -> Option<String> {
        self.limits.refusal()
    }

    fn enter(&mut self, labels: &Labels) -> u32 {
        let next = self.series.len() as u32;
        match self.by_labels.entry(labels.clone()) {
            Entry::Occupied(e) => *e.get(),
            Entry::Vacant(e) => {
                e.insert(next);
                self.limits.count(labels);
                self.series.push(Entered { labels: labels.clone(), homes: Vec::new() });
                match self.by_metric.get_mut(labels.metric()) {
                    Some(list) => list.push(next),
                    None => {
                        self.by_metric.insert(labels.metric().into(), vec![next]);
                    }
                }
                next
            }
        }
    }

    /// The index of a series.
    pub fn find(&self, labels: &Labels) -> Option<u32> {
        self.by_labels.get(labels).copied()
    }

    /// Indexes of the series of a metric.
    pub fn of_metric(&self, metric: &str) -> &[u32] {
        self.by_metric.get(metric).map_or(&[], Vec::as_slice)
    }

    /// The sample of a series at a time.
    pub fn at(&self, series: u32, time: i64) -> Option<f64> {
        self.series[series as usize].homes.iter().find_map(|(l, c)| self.layouts[*l as usize].at(time, *c as usize))
    }

    fn newest(&self, labels: &Labels) -> i64 {
        self.find(labels).map_or(i64::MIN, |s| {
            self.series[s as usize].homes.iter().map(|(l, _)| self.layouts[*l as usize].last).fold(i64::MIN, i64::max)
        })
    }

    /// First and last time of all rows.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.layouts.iter().filter_map(Layout::range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Whether a series occurs twice.
fn has_twins(columns: &[Labels]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(columns.len());
    !columns.iter().all(|c| seen.insert(c))
}
