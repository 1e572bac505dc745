//! Smoothed round-trip time of TCP: one histogram per interface and destination class.

pub use crate::histogram::Record;

/// After each sample, a probe skips a uniformly random number of segments below this one.
pub const GAP: u32 = 16;
