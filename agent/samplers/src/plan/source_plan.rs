//! Plan of one source: its exported columns, and how each reading advances them.

use super::column_state::{ColumnState, Peak};
use super::derive::Per;
use super::discontinuities::Discontinuities;
use super::series::SeriesKey;
use super::shape::PlanShape;
use crate::counter::{Counter, Total};
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::metrics::link::COUNTER_SATURATED;
use fabriclens_catalog::metrics::vendor::VENDOR_COUNTER;
use fabriclens_catalog::{CounterSource, MetricKind, Overflow};
use fabriclens_wire::{Column, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Number of counters that must fall in one read to be taken for a reset.
const FELL_TOGETHER: usize = 3;

/// Time of a read, and speed of the link.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext {
    /// End of the read.
    pub at: Instant,
    /// Start of the read, Unix ns.
    pub begin_ns: u64,
    /// Upper bound of the link speed, bytes per second.
    pub rate: f64,
    /// Actual link speed, if known.
    pub known_rate: Option<f64>,
}

/// Plan of one source.
#[derive(Debug)]
pub struct SourcePlan {
    shape: Arc<PlanShape>,
    /// One per slot.
    counters: Box<[Counter]>,
    /// One per column that counters feed.
    cols: Box<[ColumnState]>,
    /// One per column of congestion samples.
    peaks: Box<[Peak]>,
    /// Names of the batch that are exported raw, after all other columns.
    passed: Vec<usize>,
    columns: Arc<[Column]>,
    starts: Arc<[u64]>,
    dirty: bool,
    last_full: Option<Instant>,
    last_fast: Option<Instant>,
    seconds: f64,
    /// Counts since the plan was built.
    pub discontinuities: Discontinuities,
}

/// Totals of series, kept while a plan is rebuilt.
pub type Carried = HashMap<SeriesKey, (Total, u64)>;

fn key(column: &Column) -> SeriesKey {
    (column.metric.name, column.labels.clone())
}

impl SourcePlan {
    /// Builds a plan. `carried` has the totals of the target's previous plans, `former` the raw counters of this source's
    /// previous plan.
    pub fn new(shape: Arc<PlanShape>, carried: &Carried, former: Option<&Self>) -> Self {
        let slots = former.iter().flat_map(|plan| plan.shape.slots.iter().zip(&plan.counters));
        let had: HashMap<&str, Counter> = slots.map(|(slot, counter)| (&*slot.name, *counter)).collect();
        let counter = |name: &str| had.get(name).copied().unwrap_or_default();
        let state = |(column, scale): (&Column, f64)| {
            ColumnState::new(scale, if carried.is_empty() { None } else { carried.get(&key(column)) })
        };
        Self {
            counters: shape.slots.iter().map(|slot| counter(&slot.name)).collect(),
            cols: shape.columns().iter().zip(shape.cols.iter().map(|c| c.scale)).map(state).collect(),
            peaks: vec![Peak::default(); shape.fast_cols.len()].into(),
            passed: Vec::new(),
            columns: Arc::clone(shape.columns()),
            starts: Arc::default(),
            dirty: true,
            last_full: former.and_then(|f| f.last_full),
            last_fast: former.and_then(|f| f.last_fast),
            seconds: 0.0,
            discontinuities: former.map(|f| f.discontinuities).unwrap_or_default(),
            shape,
        }
    }

    /// Selects the names of the batch that feed a column; with `fast`, a column of the congestion sample.
    pub fn mask(&self, names: usize, fast: bool) -> Vec<bool> {
        let mut mask = vec![false; names];
        let slots = self.shape.slots.iter().filter(|s| !fast || s.fast).map(|s| s.raw);
        for raw in slots.chain(self.passed.iter().copied().filter(|_| !fast)) {
            if let Some(wanted) = mask.get_mut(raw) {
                *wanted = true;
            }
        }
        mask
    }

    /// True if the vendor's counter feeds a column.
    pub fn feeds(&self, name: &str) -> bool {
        self.shape.slots.iter().any(|s| &*s.name == name)
    }

    /// True if a congestion sample reads at least one counter.
    pub fn has_fast(&self) -> bool {
        self.shape.fast_slots > 0
    }

    /// Exports these names of the batch raw, in addition to the columns that they feed.
    pub fn pass(&mut self, batch: &Batch, raws: Vec<usize>, source: CounterSource) {
        let labels = |raw: usize| {
            vec![(Arc::from("name"), Arc::clone(&batch.names()[raw])), (Arc::from("source"), Arc::from(source.label()))]
        };
        let columns = raws.iter().map(|raw| Column { metric: &VENDOR_COUNTER, labels: labels(*raw) });
        self.columns = self.shape.columns().iter().cloned().chain(columns).collect();
        self.passed = raws;
    }

    /// True if no column is fed.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Columns that counters feed, with their state.
    fn fed(&self) -> impl Iterator<Item = (&Column, &ColumnState)> {
        self.shape.columns().iter().zip(&self.cols)
    }

    /// Saves the totals for the next plan.
    pub fn carry(&self, into: &mut Carried) {
        for (column, state) in self.fed().filter(|(c, state)| state.started && c.metric.kind == MetricKind::Counter) {
            into.insert(key(column), (state.total, state.start));
        }
    }

    /// Continues from readings of the time `at`. The first step yields no derived values, as it spans the agent's
    /// absence.
    pub fn recall(&mut self, readings: &HashMap<String, (u64, f64)>, at: Instant) {
        for (slot, counter) in self.shape.slots.iter().zip(&mut self.counters) {
            if let Some((last, pace)) = readings.get(&*slot.name) {
                *counter = Counter::remembered(*last, *pace);
                self.cols[slot.col].broken = true;
                self.last_full = Some(at);
            }
        }
    }

    /// Readings for [`SourcePlan::recall`].
    pub fn readings(&self) -> HashMap<String, (u64, f64)> {
        let slots = self.shape.slots.iter().zip(&self.counters);
        let counters = slots.filter(|(slot, _)| self.shape.cols[slot.col].kind == MetricKind::Counter);
        counters.filter_map(|(slot, counter)| Some((slot.name.to_string(), counter.memory()?))).collect()
    }

    /// Processes a congestion sample.
    pub fn take_fast(&mut self, batch: &Batch, now: ReadContext) {
        self.take(batch, now, true);
    }

    /// Processes a full sample. True if it must be sent at once.
    pub fn take_full(&mut self, batch: &Batch, now: ReadContext) -> bool {
        for (planned, col) in self.shape.cols.iter().zip(&mut self.cols) {
            (col.was_saturated, col.saturated, col.present) = (col.saturated, false, false);
            if planned.kind != MetricKind::Counter {
                col.amount = 0.0;
            }
        }
        self.take(batch, now, false);
        self.seconds = self.last_full.map_or(0.0, |last| (now.at - last).as_secs_f64());
        self.last_full = Some(now.at);
        self.shape.cols.iter().zip(&self.cols).any(|(planned, col)| {
            let limit = planned.rule.map_or(f64::INFINITY, |r| r.urgent);
            limit.is_finite() && col.rate(planned, self.seconds, now.known_rate).is_some_and(|v| v >= limit)
        })
    }

    fn take(&mut self, batch: &Batch, now: ReadContext, fast_only: bool) {
        let since = |last: Option<Instant>| last.map_or(0.0, |l| (now.at - l).as_secs_f64());
        let (full, fast) = (since(self.last_full), since(self.last_fast.max(self.last_full)));
        let reset = self.reset_together(batch, fast_only);
        let Self { shape, counters, cols, peaks, discontinuities, dirty, .. } = self;
        let in_sample = if fast_only { shape.fast_slots } else { shape.slots.len() };
        for (slot, counter) in shape.slots[..in_sample].iter().zip(counters) {
            let Some(raw) = batch.values.get(slot.raw).copied().flatten() else { continue };
            let (planned, col) = (&shape.cols[slot.col], &mut cols[slot.col]);
            if planned.kind != MetricKind::Counter {
                col.present = true;
                col.amount += raw as f64 * slot.scale;
                continue;
            }
            let seconds = if slot.fast { fast } else { full };
            let ceiling = slot.limit.ceiling(Some(now.rate), seconds);
            let ceiling = ceiling.map_or(f64::INFINITY, |units| units / slot.scale);
            let step = counter.advance(slot.feed, raw, seconds, ceiling, reset);
            let (moved, grown) = col.apply(step, slot.scale, planned.parts, now.begin_ns, discontinuities);
            *dirty |= moved;
            if let Some(fast) = planned.fast {
                peaks[fast].step += grown;
            }
        }
        if self.has_fast() {
            self.close_fast(fast, now.known_rate);
            self.last_fast = Some(now.at);
        }
        if fast_only {
            self.shape.fast_cols.iter().for_each(|col| self.cols[*col].started |= self.cols[*col].present);
        } else {
            self.cols.iter_mut().for_each(|col| col.started |= col.present);
        }
    }

    /// Ends the interval of a congestion sample and keeps the peak.
    fn close_fast(&mut self, seconds: f64, rate: Option<f64>) {
        for (col, peak) in self.shape.fast_cols.iter().zip(&mut self.peaks) {
            let per = self.shape.cols[*col].rule.map_or(Per::Second, |r| r.per);
            peak.close(per, seconds, rate);
        }
    }

    /// True if several counters fell at once, which indicates a reset; a single counter that cannot wrap suffices.
    fn reset_together(&self, batch: &Batch, fast_only: bool) -> bool {
        let mut fell = 0;
        let in_sample = if fast_only { self.shape.fast_slots } else { self.shape.slots.len() };
        for (slot, counter) in self.shape.slots[..in_sample].iter().zip(&self.counters) {
            let Some(raw) = batch.values.get(slot.raw).copied().flatten() else { continue };
            if self.shape.cols[slot.col].kind == MetricKind::Counter && counter.falls(raw) {
                let cannot_wrap = slot.feed.overflow == Overflow::Saturate || slot.feed.width >= 64;
                fell += if cannot_wrap { FELL_TOGETHER } else { 1 };
            }
        }
        fell >= FELL_TOGETHER
    }

    /// Exported columns.
    pub fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.columns)
    }

    /// Start time of each column, and of `more` columns after them that are no counters.
    pub fn starts(&mut self, more: usize) -> Arc<[u64]> {
        let len = self.columns.len() + more;
        if self.dirty || self.starts.len() != len {
            let others = std::iter::repeat_n(0, len - self.cols.len());
            self.starts = self.cols.iter().map(|c| c.start).chain(others).collect();
            self.dirty = false;
        }
        Arc::clone(&self.starts)
    }

    /// Values of the last full sample, with room for `more`; ends the interval of derived values.
    pub fn values(&mut self, batch: &Batch, known_rate: Option<f64>, more: usize) -> Vec<Value> {
        let mut values = Vec::with_capacity(self.columns.len() + more);
        values.extend(self.fed().map(|(column, state)| state.value(column.metric.kind)));
        let shape = &*self.shape;
        values.extend(shape.derived.iter().map(|d| {
            let (planned, col) = (&shape.cols[d.col], &self.cols[d.col]);
            let value = match planned.fast.filter(|_| d.peak) {
                Some(fast) => Some(self.peaks[fast].peak).filter(|_| self.seconds > 0.0),
                None => col.rate(planned, self.seconds, known_rate),
            };
            value.filter(|_| col.present && !col.saturated && !col.broken).map_or(Value::Absent, Value::Float)
        }));
        let raw = |index: &usize| batch.values.get(*index).copied().flatten().map_or(Value::Absent, Value::Int);
        values.extend(self.passed.iter().map(raw));
        self.cols.iter_mut().for_each(|col| (col.amount, col.broken) = (0.0, false));
        self.peaks.fill(Peak::default());
        values
    }

    /// Columns whose counters are saturated.
    pub fn saturated(&self) -> impl Iterator<Item = &Column> {
        self.fed().filter(|(_, state)| state.saturated).map(|(column, _)| column)
    }
}

/// Fact that the counter of a column is saturated; its value is 1.
pub fn saturated(column: &Column) -> Column {
    let reason = column.labels.iter().map(|(_, v)| &**v).collect::<Vec<_>>().join(",");
    let mut labels = vec![(Arc::from("metric"), Arc::from(column.metric.name))];
    if !reason.is_empty() {
        labels.push((Arc::from("reason"), Arc::from(reason)));
    }
    Column { metric: &COUNTER_SATURATED, labels }
}
