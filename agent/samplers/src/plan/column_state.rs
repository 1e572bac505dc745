//! What a plan remembers of one column between two samples.

use super::derive::Per;
use super::discontinuities::Discontinuities;
use super::shape::PlannedColumn;
use crate::counter::{Step, Total, scaled};
use fabriclens_catalog::MetricKind;
use fabriclens_wire::Value;

/// State of one column.
#[derive(Debug)]
pub(super) struct ColumnState {
    pub total: Total,
    /// Start of the series, Unix ns.
    pub start: u64,
    /// Of a counter its growth since the last full sample, of a gauge its reading, in exported units.
    pub amount: f64,
    pub started: bool,
    pub present: bool,
    pub saturated: bool,
    /// `saturated` after the previous read.
    pub was_saturated: bool,
    /// Growth is incomplete: no gauge is derived from it.
    pub broken: bool,
}

/// Growth of a column of congestion samples.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peak {
    /// Growth since the last sample of any kind, in exported units.
    pub step: f64,
    /// Highest rate since the last full sample.
    pub peak: f64,
}

impl ColumnState {
    /// State of a column that continues from a total, or begins.
    pub fn new(scale: f64, former: Option<&(Total, u64)>) -> Self {
        let total = former.map_or_else(|| Total::new(scale), |(total, _)| total.in_scale(scale));
        Self {
            total,
            start: former.map_or(0, |(_, start)| *start),
            amount: 0.0,
            started: former.is_some(),
            present: false,
            saturated: false,
            was_saturated: false,
            broken: false,
        }
    }

    /// Applies a step of one of `parts` counters; returns whether the start of the series moved, and the growth.
    pub fn apply(
        &mut self,
        step: Step,
        scale: f64,
        parts: usize,
        begin_ns: u64,
        counts: &mut Discontinuities,
    ) -> (bool, f64) {
        self.present = true;
        let mut grown = 0.0;
        let moved = match step {
            Step::First(raw) => {
                if self.started {
                    return (false, 0.0);
                }
                self.total.add_scaled(raw, scale);
                self.start == 0
            }
            Step::Grew(growth, wrapped) => {
                counts.wrap += u64::from(wrapped);
                grown = self.grow(growth, scale);
                false
            }
            Step::Reset(since) => {
                counts.reset += 1;
                self.broken = true;
                // One of several counters: the sum continues, as its fall would look like a reset of all of them.
                if parts > 1 {
                    grown = self.grow(since, scale);
                } else {
                    self.total.restart(since);
                }
                parts == 1
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
                self.present = parts > 1;
                false
            }
        };
        if moved {
            self.start = begin_ns;
        }
        (moved, grown)
    }

    fn grow(&mut self, raw: u64, scale: f64) -> f64 {
        self.total.add_scaled(raw, scale);
        let units = raw as f64 * scale;
        self.amount += units;
        units
    }

    /// Derived gauge over `seconds` on a link of `known_rate` bytes per second.
    pub fn rate(&self, planned: &PlannedColumn, seconds: f64, known_rate: Option<f64>) -> Option<f64> {
        planned.rule?.per.of(self.amount, seconds, known_rate)
    }

    /// Exported value.
    pub fn value(&self, kind: MetricKind) -> Value {
        match (self.present, self.saturated) {
            (_, true) => Value::Stale,
            (false, false) => Value::Absent,
            (true, false) if kind == MetricKind::Counter => self.total.value(),
            (true, false) if self.amount.fract() == 0.0 && self.amount.abs() < 1e15 => scaled_gauge(self.amount),
            (true, false) => Value::Float(self.amount),
        }
    }
}

impl Peak {
    /// Ends the interval of a congestion sample and keeps the highest rate.
    pub fn close(&mut self, per: Per, seconds: f64, rate: Option<f64>) {
        if let Some(value) = per.of(self.step, seconds, rate) {
            self.peak = self.peak.max(value);
        }
        self.step = 0.0;
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
