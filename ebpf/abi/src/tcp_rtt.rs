//! Smoothed round trips of TCP, one histogram for each interface and class of destinations.

pub use crate::histogram::Record;

/// One segment is taken, then up to so many less one are left out, each number as likely as the next.
pub const GAP: u32 = 16;
