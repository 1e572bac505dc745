//! What a reader is going to do with samples, and what it got.

use crate::SharedSeries;

/// What stands for all samples of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rollup {
    /// How much a counter rose, resets counted.
    Increase,
    /// The last one.
    Last,
    /// The largest.
    Max,
    /// The arithmetic mean.
    Mean,
    /// The smallest.
    Min,
}

/// What the samples of a read are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Distance of the instants that are looked at, ms; 0 when it is one instant.
    pub step_ms: i64,
    /// Width of the window that each instant looks at, ms; 0 when it looks at one sample.
    pub range_ms: i64,
    /// What can stand for the samples; `None`: only they themselves, unless they are gone.
    pub rollup: Option<Rollup>,
}

impl Hint {
    /// Whether of each series no sample but the newest is looked at.
    pub fn newest(&self) -> bool {
        (self.step_ms, self.range_ms, self.rollup) == (0, 0, Some(Rollup::Last))
    }
}

/// The answer to a read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    /// As [`crate::Read::select_within`] gives them.
    pub series: Vec<SharedSeries>,
    /// Length of the stretches that samples stand for, ms, where some are rollups.
    pub resolution_ms: Option<i64>,
}
