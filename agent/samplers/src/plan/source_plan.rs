//! Plan of one source: its exported columns, and how each reading advances them.

use super::derive::{Per, Rule, rule};
use super::series::{Assigned, SeriesKey};
use crate::counter::{Counter, Step, Total, scaled};
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::metrics::link::COUNTER_SATURATED;
use fabriclens_catalog::metrics::vendor::VENDOR_COUNTER;
use fabriclens_catalog::{CounterSource, GrowthLimit, MetricKind, Overflow, VendorCounter};
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

/// Number of readings that were not plain growth, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Discontinuities {
    /// Resets.
    pub reset: u64,
    /// Wraps that were extended.
    pub wrap: u64,
    /// Counters that reached their maximum and stay there.
    pub saturated: u64,
    /// Jumps beyond the capacity of the link.
    pub implausible: u64,
    /// Readings with the device's pattern for "invalid".
    pub invalid: u64,
}

#[derive(Debug)]
struct Slot {
    name: Arc<str>,
    raw: usize,
    col: usize,
    feed: &'static VendorCounter,
    scale: f64,
    /// Limit of plausible growth.
    limit: GrowthLimit,
    fast: bool,
    counter: Counter,
}

#[derive(Debug)]
struct PlannedColumn {
    column: Column,
    kind: MetricKind,
    total: Total,
    gauge: f64,
    start: u64,
    /// Number of slots that feed it.
    parts: usize,
    started: bool,
    present: bool,
    saturated: bool,
    /// `saturated` after the previous read.
    was_saturated: bool,
    rule: Option<&'static Rule>,
    /// Growth since the last full sample, and since the last sample of any kind, in exported units.
    whole: f64,
    step: f64,
    peak: f64,
    broken: bool,
}

#[derive(Debug, Clone, Copy)]
struct DerivedColumn {
    col: usize,
    peak: bool,
}

/// Plan of one source.
#[derive(Debug)]
pub struct SourcePlan {
    /// Slots; those of congestion samples come first, to keep their memory together.
    slots: Vec<Slot>,
    /// Number of slots in congestion samples, and the columns that they feed.
    fast_slots: usize,
    fast_cols: Vec<usize>,
    cols: Vec<PlannedColumn>,
    derived: Vec<DerivedColumn>,
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
    /// Builds a plan. `fast`: the source may be read every 100 ms. `carried` has the totals of the target's previous
    /// plans, `former` the raw counters of this source's previous plan.
    pub fn new(batch: &Batch, assigned: &[Assigned], fast: bool, carried: &Carried, former: Option<&Self>) -> Self {
        let mut plan = Self {
            slots: Vec::with_capacity(assigned.len()),
            fast_slots: 0,
            fast_cols: Vec::new(),
            cols: Vec::new(),
            derived: Vec::new(),
            passed: Vec::new(),
            columns: Arc::from([]),
            starts: Arc::from([]),
            dirty: true,
            last_full: former.and_then(|f| f.last_full),
            last_fast: former.and_then(|f| f.last_fast),
            seconds: 0.0,
            discontinuities: former.map(|f| f.discontinuities).unwrap_or_default(),
        };
        let mut index: HashMap<SeriesKey, usize> = HashMap::new();
        let had: HashMap<&str, Counter> = former.iter().flat_map(|f| &f.slots).map(|s| (&*s.name, s.counter)).collect();
        for Assigned { raw, bound } in assigned {
            let labels = bound.labels.iter().map(|(n, v)| (Arc::from(*n), Arc::from(v.as_str()))).collect();
            let column = Column { metric: bound.metric, labels };
            let col = *index.entry(key(&column)).or_insert_with(|| {
                plan.cols.push(PlannedColumn::new(column, bound.scale, carried));
                plan.cols.len() - 1
            });
            plan.cols[col].parts += 1;
            let name = Arc::clone(&batch.names()[*raw]);
            plan.slots.push(Slot {
                raw: *raw,
                col,
                feed: bound.counter,
                scale: bound.scale,
                limit: bound.metric.limit(),
                fast: fast && bound.metric.in_congestion_sample(),
                counter: had.get(&*name).copied().unwrap_or_default(),
                name,
            });
        }
        plan.slots.sort_by_key(|s| (!s.fast, s.raw));
        plan.fast_slots = plan.slots.iter().filter(|s| s.fast).count();
        plan.fast_cols = plan.slots.iter().filter(|s| s.fast).map(|s| s.col).collect();
        plan.fast_cols.sort_unstable();
        plan.fast_cols.dedup();
        plan.derive();
        plan
    }

    fn derive(&mut self) {
        let mut columns: Vec<Column> = self.cols.iter().map(|c| c.column.clone()).collect();
        for (i, col) in self.cols.iter().enumerate() {
            let Some(rule) = col.rule else { continue };
            let fast = self.slots.iter().any(|s| s.col == i && s.fast);
            for (metric, peak) in [(rule.whole, false), (rule.peak.filter(|_| fast), true)] {
                let Some(metric) = metric else { continue };
                let labels = col.column.labels.clone();
                columns.push(Column { metric, labels });
                self.derived.push(DerivedColumn { col: i, peak });
            }
        }
        self.columns = columns.into();
    }

    /// Selects the names of the batch that feed a column; with `fast`, a column of the congestion sample.
    pub fn mask(&self, names: usize, fast: bool) -> Vec<bool> {
        let mut mask = vec![false; names];
        let slots = self.slots.iter().filter(|s| !fast || s.fast).map(|s| s.raw);
        for raw in slots.chain(self.passed.iter().copied().filter(|_| !fast)) {
            if let Some(wanted) = mask.get_mut(raw) {
                *wanted = true;
            }
        }
        mask
    }

    /// True if the vendor's counter feeds a column.
    pub fn feeds(&self, name: &str) -> bool {
        self.slots.iter().any(|s| &*s.name == name)
    }

    /// True if a congestion sample reads at least one counter.
    pub fn has_fast(&self) -> bool {
        self.fast_slots > 0
    }

    /// Exports these names of the batch raw, in addition to the columns that they feed.
    pub fn pass(&mut self, batch: &Batch, raws: Vec<usize>, source: CounterSource) {
        let labels = |raw: usize| {
            vec![(Arc::from("name"), Arc::clone(&batch.names()[raw])), (Arc::from("source"), Arc::from(source.label()))]
        };
        let columns = raws.iter().map(|raw| Column { metric: &VENDOR_COUNTER, labels: labels(*raw) });
        self.columns = self.columns.iter().cloned().chain(columns).collect();
        self.passed = raws;
    }

    /// True if no column is fed.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Saves the totals for the next plan.
    pub fn carry(&self, into: &mut Carried) {
        for col in self.cols.iter().filter(|c| c.started && c.kind == MetricKind::Counter) {
            into.insert(key(&col.column), (col.total, col.start));
        }
    }

    /// Continues from readings of the time `at`. The first step yields no derived values, as it spans the agent's
    /// absence.
    pub fn recall(&mut self, readings: &HashMap<String, (u64, f64)>, at: Instant) {
        for slot in &mut self.slots {
            if let Some((last, pace)) = readings.get(&*slot.name) {
                slot.counter = Counter::remembered(*last, *pace);
                self.cols[slot.col].broken = true;
                self.last_full = Some(at);
            }
        }
    }

    /// Readings for [`SourcePlan::recall`].
    pub fn readings(&self) -> HashMap<String, (u64, f64)> {
        let counters = self.slots.iter().filter(|s| self.cols[s.col].kind == MetricKind::Counter);
        counters.filter_map(|s| Some((s.name.to_string(), s.counter.memory()?))).collect()
    }

    /// Processes a congestion sample.
    pub fn take_fast(&mut self, batch: &Batch, now: ReadContext) {
        self.take(batch, now, true);
    }

    /// Processes a full sample. True if it must be sent at once.
    pub fn take_full(&mut self, batch: &Batch, now: ReadContext) -> bool {
        for col in &mut self.cols {
            (col.was_saturated, col.saturated) = (col.saturated, false);
            (col.present, col.gauge) = (false, 0.0);
        }
        self.take(batch, now, false);
        self.seconds = self.last_full.map_or(0.0, |last| (now.at - last).as_secs_f64());
        self.last_full = Some(now.at);
        let urgent = |col: &PlannedColumn| {
            let limit = col.rule.map_or(f64::INFINITY, |r| r.urgent);
            limit.is_finite() && col.rate(self.seconds, now.known_rate).is_some_and(|v| v >= limit)
        };
        self.cols.iter().any(urgent)
    }

    fn take(&mut self, batch: &Batch, now: ReadContext, fast_only: bool) {
        let since = |last: Option<Instant>| last.map_or(0.0, |l| (now.at - l).as_secs_f64());
        let (full, fast) = (since(self.last_full), since(self.last_fast.max(self.last_full)));
        let reset = self.reset_together(batch, fast_only);
        let in_sample = if fast_only { self.fast_slots } else { self.slots.len() };
        let Self { slots, cols, discontinuities, dirty, .. } = self;
        for slot in &mut slots[..in_sample] {
            let Some(raw) = batch.values.get(slot.raw).copied().flatten() else { continue };
            let col = &mut cols[slot.col];
            if col.kind != MetricKind::Counter {
                col.present = true;
                col.gauge += raw as f64 * slot.scale;
                continue;
            }
            let seconds = if slot.fast { fast } else { full };
            let ceiling = slot.limit.ceiling(Some(now.rate), seconds);
            let ceiling = ceiling.map_or(f64::INFINITY, |units| units / slot.scale);
            let step = slot.counter.advance(slot.feed, raw, seconds, ceiling, reset);
            *dirty |= col.apply(step, slot.scale, now.begin_ns, discontinuities);
        }
        if self.has_fast() {
            self.close_fast(fast, now.known_rate);
            self.last_fast = Some(now.at);
        }
        if fast_only {
            self.fast_cols.iter().for_each(|col| self.cols[*col].started |= self.cols[*col].present);
        } else {
            self.cols.iter_mut().for_each(|col| col.started |= col.present);
        }
    }

    /// Ends the interval of a congestion sample and keeps the peak.
    fn close_fast(&mut self, seconds: f64, rate: Option<f64>) {
        for col in &self.fast_cols {
            let col = &mut self.cols[*col];
            let per = col.rule.map_or(Per::Second, |r| r.per);
            if let Some(value) = per.of(col.step, seconds, rate) {
                col.peak = col.peak.max(value);
            }
            col.step = 0.0;
        }
    }

    /// True if several counters fell at once, which indicates a reset; a single counter that cannot wrap suffices.
    fn reset_together(&self, batch: &Batch, fast_only: bool) -> bool {
        let mut fell = 0;
        let in_sample = if fast_only { self.fast_slots } else { self.slots.len() };
        for slot in &self.slots[..in_sample] {
            let Some(raw) = batch.values.get(slot.raw).copied().flatten() else { continue };
            if self.cols[slot.col].kind == MetricKind::Counter && slot.counter.falls(raw) {
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

    /// Start time of each column.
    pub fn starts(&mut self) -> Arc<[u64]> {
        if self.dirty || self.starts.len() != self.columns.len() {
            let derived = std::iter::repeat_n(0, self.derived.len() + self.passed.len());
            self.starts = self.cols.iter().map(|c| c.start).chain(derived).collect();
            self.dirty = false;
        }
        Arc::clone(&self.starts)
    }

    /// Values of the last full sample; ends the interval of derived values.
    pub fn values(&mut self, batch: &Batch, known_rate: Option<f64>) -> Vec<Value> {
        let mut values: Vec<Value> = self.cols.iter().map(PlannedColumn::value).collect();
        values.extend(self.derived.iter().map(|d| {
            let col = &self.cols[d.col];
            let value =
                if d.peak { Some(col.peak).filter(|_| self.seconds > 0.0) } else { col.rate(self.seconds, known_rate) };
            value.filter(|_| col.present && !col.saturated && !col.broken).map_or(Value::Absent, Value::Float)
        }));
        let raw = |index: &usize| batch.values.get(*index).copied().flatten().map_or(Value::Absent, Value::Int);
        values.extend(self.passed.iter().map(raw));
        for col in &mut self.cols {
            (col.whole, col.step, col.peak, col.broken) = (0.0, 0.0, 0.0, false);
        }
        values
    }

    /// Adds one fact per saturated column.
    pub fn saturated(&self, out: &mut Vec<(Column, Value)>) {
        out.extend(self.cols.iter().filter(|c| c.saturated).map(|c| saturated(&c.column)));
    }
}

/// Fact that the counter of a column is saturated.
pub fn saturated(column: &Column) -> (Column, Value) {
    let reason = column.labels.iter().map(|(_, v)| &**v).collect::<Vec<_>>().join(",");
    let mut labels = vec![(Arc::from("metric"), Arc::from(column.metric.name))];
    if !reason.is_empty() {
        labels.push((Arc::from("reason"), Arc::from(reason)));
    }
    (Column { metric: &COUNTER_SATURATED, labels }, Value::Int(1))
}

impl PlannedColumn {
    fn new(column: Column, scale: f64, carried: &Carried) -> Self {
        let former = carried.get(&key(&column));
        let total = match former {
            Some((total, _)) => total.in_scale(scale),
            None => Total::new(scale),
        };
        Self {
            kind: column.metric.kind,
            rule: rule(column.metric),
            total,
            start: former.map_or(0, |(_, start)| *start),
            started: former.is_some(),
            column,
            gauge: 0.0,
            parts: 0,
            present: false,
            saturated: false,
            was_saturated: false,
            whole: 0.0,
            step: 0.0,
            peak: 0.0,
            broken: false,
        }
    }

    /// Applies a step; true if the start of the series moved.
    fn apply(&mut self, step: Step, scale: f64, begin_ns: u64, counts: &mut Discontinuities) -> bool {
        self.present = true;
        let moved = match step {
            Step::First(raw) => {
                if self.started {
                    return false;
                }
                self.total.add_scaled(raw, scale);
                self.start == 0
            }
            Step::Grew(growth, wrapped) => {
                counts.wrap += u64::from(wrapped);
                self.grow(growth, scale);
                false
            }
            Step::Reset(since) => {
                counts.reset += 1;
                self.broken = true;
                // One of several counters: the sum continues, as its fall would look like a reset of all of them.
                if self.parts > 1 {
                    self.grow(since, scale);
                } else {
                    self.total.restart(since);
                }
                self.parts == 1
            }
            Step::Implausible => {
                counts.implausible += 1;
                self.broken = true;
                true
            }
            Step::Saturated => {
                counts.saturated += u64::from(!self.saturated && !self.was_saturated);
                self.saturated = true;
                false
            }
            Step::NotReading => {
                counts.invalid += 1;
                self.present = self.parts > 1;
                false
            }
        };
        if moved {
            self.start = begin_ns;
        }
        moved
    }

    fn grow(&mut self, raw: u64, scale: f64) {
        self.total.add_scaled(raw, scale);
        let units = raw as f64 * scale;
        self.whole += units;
        self.step += units;
    }

    fn rate(&self, seconds: f64, known_rate: Option<f64>) -> Option<f64> {
        self.rule?.per.of(self.whole, seconds, known_rate)
    }

    fn value(&self) -> Value {
        match (self.present, self.saturated) {
            (_, true) => Value::Stale,
            (false, false) => Value::Absent,
            (true, false) if self.kind == MetricKind::Counter => self.total.value(),
            (true, false) if self.gauge.fract() == 0.0 && self.gauge.abs() < 1e15 => scaled_gauge(self.gauge),
            (true, false) => Value::Float(self.gauge),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, below 1e15; negative ones stay floats"
)]
fn scaled_gauge(value: f64) -> Value {
    if value < 0.0 { Value::Float(value) } else { scaled(value as u64, 1.0) }
}
