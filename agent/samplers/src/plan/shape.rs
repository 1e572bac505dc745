//! The constant part of a plan: which counters feed which columns. Sources with equal names, such as the ports of an
//! InfiniBand subnet, share one; each has only its totals and readings to itself.

use super::derive::{Rule, rule};
use super::series::{Assigned, SeriesKey};
use fabriclens_catalog::{GrowthLimit, MetricKind, VendorCounter};
use fabriclens_wire::Column;
use std::collections::HashMap;
use std::sync::Arc;

/// A counter that feeds a column.
#[derive(Debug)]
pub(super) struct Slot {
    /// The vendor's name.
    pub name: Arc<str>,
    /// Index of the name in the batch.
    pub raw: usize,
    /// Index of the column.
    pub col: usize,
    /// Row of the catalog.
    pub feed: &'static VendorCounter,
    /// Exported units per raw unit.
    pub scale: f64,
    /// Limit of plausible growth.
    pub limit: GrowthLimit,
    /// True if it is read in congestion samples.
    pub fast: bool,
}

/// A column that counters feed.
#[derive(Debug)]
pub(super) struct PlannedColumn {
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Exported units per unit of the total: the scale of the first counter.
    pub scale: f64,
    /// Number of slots that feed it.
    pub parts: usize,
    /// Derived gauges.
    pub rule: Option<&'static Rule>,
    /// Number among the columns of congestion samples.
    pub fast: Option<usize>,
}

/// A gauge that is derived from a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct DerivedColumn {
    /// Index of the column.
    pub col: usize,
    /// True for the peak, false for the mean of the full sample.
    pub peak: bool,
}

/// The constant part of a plan.
#[derive(Debug)]
pub struct PlanShape {
    /// Slots; those of congestion samples come first, to keep their memory together.
    pub(super) slots: Vec<Slot>,
    /// Number of slots in congestion samples, and the columns that they feed.
    pub(super) fast_slots: usize,
    pub(super) fast_cols: Vec<usize>,
    /// Columns that counters feed: the first ones of `columns`.
    pub(super) cols: Vec<PlannedColumn>,
    /// The columns after them.
    pub(super) derived: Vec<DerivedColumn>,
    columns: Arc<[Column]>,
}

impl PlanShape {
    /// The shape for these names of a batch. `fast`: the source may be read every 100 ms.
    pub fn new(names: &[Arc<str>], assigned: &[Assigned], fast: bool) -> Self {
        let mut index: HashMap<SeriesKey, usize> = HashMap::new();
        let (mut columns, mut cols, mut slots) = (Vec::new(), Vec::new(), Vec::with_capacity(assigned.len()));
        for Assigned { raw, bound } in assigned {
            let labels: Vec<_> = bound.labels.iter().map(|(n, v)| (Arc::from(*n), Arc::from(v.as_str()))).collect();
            let col = *index.entry((bound.metric.name, labels.clone())).or_insert_with(|| {
                columns.push(Column { metric: bound.metric, labels });
                let (metric, scale) = (bound.metric, bound.scale);
                cols.push(PlannedColumn { kind: metric.kind, scale, parts: 0, rule: rule(metric), fast: None });
                cols.len() - 1
            });
            cols[col].parts += 1;
            slots.push(Slot {
                name: Arc::clone(&names[*raw]),
                raw: *raw,
                col,
                feed: bound.counter,
                scale: bound.scale,
                limit: bound.metric.limit(),
                fast: fast && bound.metric.in_congestion_sample(),
            });
        }
        slots.sort_by_key(|s| (!s.fast, s.raw));
        let fast_slots = slots.iter().filter(|s| s.fast).count();
        let mut fast_cols: Vec<usize> = slots.iter().filter(|s| s.fast).map(|s| s.col).collect();
        fast_cols.sort_unstable();
        fast_cols.dedup();
        for (number, col) in fast_cols.iter().enumerate() {
            cols[*col].fast = Some(number);
        }
        let mut derived = Vec::new();
        for (col, planned) in cols.iter().enumerate() {
            let Some(rule) = planned.rule else { continue };
            for (metric, peak) in [(rule.whole, false), (rule.peak.filter(|_| planned.fast.is_some()), true)] {
                let Some(metric) = metric else { continue };
                let labels = columns[col].labels.clone();
                columns.push(Column { metric, labels });
                derived.push(DerivedColumn { col, peak });
            }
        }
        Self { slots, fast_slots, fast_cols, cols, derived, columns: columns.into() }
    }

    /// Exported columns.
    pub fn columns(&self) -> &Arc<[Column]> {
        &self.columns
    }
}
