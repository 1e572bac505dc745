//! Turns raw readings of counters into growth: extends wraps, and recognizes resets, saturation and glitches.
//!
//! [`Counter`] evaluates one raw counter; [`Total`] is the exported sum of one column. A rate across a discontinuity is
//! a lower bound, never a spike: implausible growth is not added. Used by `plan`.
//!
//! Counters narrower than 64 bits are extended in memory, and in `state` across a restart of the agent. Without the
//! state file such a series restarts at the raw value, which a rate function takes for a reset: it then over-counts at
//! most 2^width, once.

use fabriclens_catalog::{CounterSource, Overflow, VendorCounter};
use fabriclens_wire::Value;

/// Growth, raw units, that is accepted across a wrap without a history.
const WRAP_SLOP: f64 = 1000.0;
/// Growth accepted across a wrap, as a multiple of the recent rate.
const WRAP_FACTOR: f64 = 4.0;
/// Decay of the remembered rate per tick.
const FORGET: f64 = 0.02;

/// Interpretation of a new raw reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first reading.
    First(u64),
    /// Growth since the last reading; true if the counter wrapped.
    Grew(u64, bool),
    /// The counter was reset; plausible growth since then.
    Reset(u64),
    /// Jump beyond the capacity of the link: nothing is added, and counting continues from here.
    Implausible,
    /// Saturated: stays at its maximum.
    Saturated,
    /// Invalid reading (all ones of a 64-bit counter).
    NotReading,
}

/// State of one raw counter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    last: Option<u64>,
    /// Highest recent growth, raw units per second, with decay.
    pace: f64,
}

impl Counter {
    /// Counter with a saved reading and rate.
    pub fn remembered(last: u64, pace: f64) -> Self {
        Self { last: Some(last), pace: if pace.is_finite() { pace.max(0.0) } else { 0.0 } }
    }

    /// Last reading and rate, for [`Counter::remembered`].
    pub fn memory(&self) -> Option<(u64, f64)> {
        self.last.map(|last| (last, self.pace))
    }

    /// True if `raw` is below the last reading.
    pub fn falls(&self, raw: u64) -> bool {
        self.last.is_some_and(|last| raw < last)
    }

    /// Evaluates a reading `seconds` after the last one. `ceiling` is the largest plausible growth in raw units;
    /// `reset` is true if other counters of the same source were reset just now.
    pub fn advance(&mut self, feed: &VendorCounter, raw: u64, seconds: f64, ceiling: f64, reset: bool) -> Step {
        if !feed.is_reading(raw) {
            return Step::NotReading;
        }
        if is_stuck(feed, raw) {
            self.last = Some(raw);
            return Step::Saturated;
        }
        let Some(last) = self.last.replace(raw) else { return Step::First(raw) };
        let believable = |growth: u64| growth as f64 <= ceiling;
        if raw >= last {
            let growth = raw - last;
            if !believable(growth) {
                return Step::Implausible;
            }
            self.remember(growth, seconds);
            return Step::Grew(growth, false);
        }
        if let Some(growth) = self.wrapped(feed, last, raw, seconds).filter(|g| !reset && believable(*g)) {
            self.remember(growth, seconds);
            return Step::Grew(growth, true);
        }
        self.pace = 0.0;
        Step::Reset(if believable(raw) { raw } else { 0 })
    }

    /// Growth across a wrap, if the recent rate makes a wrap likelier than a reset.
    fn wrapped(&self, feed: &VendorCounter, last: u64, raw: u64, seconds: f64) -> Option<u64> {
        if feed.overflow != Overflow::Wrap {
            return None;
        }
        let growth = feed.step(last, raw)?;
        let usual = self.pace * WRAP_FACTOR * (seconds + 1.0) + WRAP_SLOP;
        (growth as f64 <= usual).then_some(growth)
    }

    fn remember(&mut self, growth: u64, seconds: f64) {
        let pace = if seconds > 0.0 { growth as f64 / seconds } else { 0.0 };
        self.pace = pace.max(self.pace * (1.0 - FORGET));
    }
}

/// Whether a counter is saturated and only gives a lower bound.
pub fn is_stuck(feed: &VendorCounter, raw: u64) -> bool {
    feed.is_saturated(raw) || is_narrow_end(feed, raw)
}

/// Port counters without PMA extended counters: the 64-bit files show 32-bit counters, which saturate.
fn is_narrow_end(feed: &VendorCounter, raw: u64) -> bool {
    feed.source == CounterSource::SysfsCounters && feed.width > 32 && raw == u64::from(u32::MAX)
}

/// Exported total of one cumulative column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    /// Count, in units of `scale`.
    count: u64,
    scale: f64,
}

impl Total {
    /// Total of zero.
    pub fn new(scale: f64) -> Self {
        Self { count: 0, scale }
    }

    /// Total that continues from a saved count.
    pub fn remembered(count: u64, scale: f64) -> Option<Self> {
        (scale.is_finite() && scale > 0.0).then_some(Self { count, scale })
    }

    /// Exported units per count.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Adds raw units.
    pub fn add(&mut self, raw: u64) {
        self.count = self.count.saturating_add(raw);
    }

    /// Adds raw units of a counter with another scale.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are positive; casts saturate")]
    pub fn add_scaled(&mut self, raw: u64, scale: f64) {
        let same = (scale - self.scale).abs() <= f64::EPSILON * scale.abs();
        self.add(if same { raw } else { (raw as f64 * scale / self.scale) as u64 });
    }

    /// Converts the total to another scale.
    pub fn in_scale(self, scale: f64) -> Self {
        let mut other = Self::new(scale);
        other.add_scaled(self.count, self.scale);
        other
    }

    /// Restarts at `raw`.
    pub fn restart(&mut self, raw: u64) {
        self.count = raw;
    }

    /// Count in units of `scale`.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Value in the metric's unit; exact if the scale permits.
    pub fn value(&self) -> Value {
        scaled(self.count, self.scale)
    }
}

/// `raw` × `scale`, as an integer where that is exact.
pub fn scaled(raw: u64, scale: f64) -> Value {
    if scale == 1.0 {
        return Value::Int(raw);
    }
    if (1.0..=1e15).contains(&scale) && scale.fract() == 0.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number in 1..=1e15")]
        if let Some(value) = raw.checked_mul(scale as u64) {
            return Value::Int(value);
        }
    }
    Value::Float(raw as f64 * scale)
}

#[cfg(test)]
mod tests;
