//! From raw readings to growth: wraps extended, resets, saturation and glitches recognised.
//!
//! [`Counter`] judges one raw counter; [`Total`] is the exported sum of one column. A rate across a discontinuity is a
//! lower bound, never a spike: what cannot be believed is not added. Used by `plan`.
//!
//! The extension of counters narrower than 64 bits lives in memory, and in `state` over a restart of the agent. Without
//! that file such a series starts again at the raw value, which a rate function takes for a reset: once, at most
//! 2^width is over-counted.

use fabriclens_catalog::{CounterSource, Overflow, VendorCounter};
use fabriclens_wire::Value;

/// Growth that needs no history to be believed across a wrap.
const WRAP_SLOP: f64 = 1000.0;
/// How much faster than lately a counter may have run when it wraps.
const WRAP_FACTOR: f64 = 4.0;
/// Share of the remembered rate that is forgotten each tick.
const FORGET: f64 = 0.02;

/// What a new reading of a raw counter means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first reading.
    First(u64),
    /// Grew by so much; true when it went through its end.
    Grew(u64, bool),
    /// Somebody reset it; so much has been counted since, as far as it can be believed.
    Reset(u64),
    /// Jumped by more than the link can carry: counted from here on, nothing added.
    Implausible,
    /// Sticks at its end.
    Saturated,
    /// No reading at all (all ones of a 64-bit counter).
    NotReading,
}

/// One raw counter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    last: Option<u64>,
    /// Fastest growth lately, raw units per second, slowly forgotten.
    pace: f64,
}

impl Counter {
    /// One whose last reading and pace are remembered.
    pub fn remembered(last: u64, pace: f64) -> Self {
        Self { last: Some(last), pace: if pace.is_finite() { pace.max(0.0) } else { 0.0 } }
    }

    /// Last reading and pace, for [`Counter::remembered`].
    pub fn memory(&self) -> Option<(u64, f64)> {
        self.last.map(|last| (last, self.pace))
    }

    /// True when `raw` is below the last reading.
    pub fn falls(&self, raw: u64) -> bool {
        self.last.is_some_and(|last| raw < last)
    }

    /// Takes a reading `seconds` after the last one. `ceiling` is the largest believable growth in raw units, `reset`
    /// tells that other counters of the same source were just reset.
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

    /// Growth across the end of the counter, when its recent pace makes that likelier than a reset.
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

/// Whether a counter has reached its end and says no more than "at least".
pub fn is_stuck(feed: &VendorCounter, raw: u64) -> bool {
    feed.is_saturated(raw) || is_narrow_end(feed, raw)
}

/// Performance management without extended counters: the 64-bit files are fed from 32-bit ones, which stick.
fn is_narrow_end(feed: &VendorCounter, raw: u64) -> bool {
    feed.source == CounterSource::SysfsCounters && feed.width > 32 && raw == u64::from(u32::MAX)
}

/// The exported value of one cumulative column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    /// In units of `scale`.
    count: u64,
    scale: f64,
}

impl Total {
    /// Starts at zero.
    pub fn new(scale: f64) -> Self {
        Self { count: 0, scale }
    }

    /// Goes on at `count`.
    pub fn remembered(count: u64, scale: f64) -> Option<Self> {
        (scale.is_finite() && scale > 0.0).then_some(Self { count, scale })
    }

    /// In what unit [`Total::count`] is.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Adds raw units.
    pub fn add(&mut self, raw: u64) {
        self.count = self.count.saturating_add(raw);
    }

    /// Adds raw units of another counter with its own scale.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are positive; casts saturate")]
    pub fn add_scaled(&mut self, raw: u64, scale: f64) {
        let same = (scale - self.scale).abs() <= f64::EPSILON * scale.abs();
        self.add(if same { raw } else { (raw as f64 * scale / self.scale) as u64 });
    }

    /// The same amount, counted in another scale.
    pub fn in_scale(self, scale: f64) -> Self {
        let mut other = Self::new(scale);
        other.add_scaled(self.count, self.scale);
        other
    }

    /// Starts again at `raw`.
    pub fn restart(&mut self, raw: u64) {
        self.count = raw;
    }

    /// Raw units so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// In the metric's unit; exact where the scale allows.
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
