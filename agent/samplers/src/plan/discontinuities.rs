//! Counts of readings that were not plain growth.

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
