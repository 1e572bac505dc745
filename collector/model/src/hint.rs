//! Hints about the use of samples, and the answer to a read.

use crate::{HistogramSeries, SharedSeries};

/// Aggregate that represents the samples of a time interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rollup {
    /// Increase of a counter, across resets.
    Increase,
    /// Last sample.
    Last,
    /// Largest sample.
    Max,
    /// Arithmetic mean.
    Mean,
    /// Smallest sample.
    Min,
}

/// How the samples of a read are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Distance between the evaluated instants, ms; 0 for a single instant.
    pub step_ms: i64,
    /// Window that each instant looks at, ms; 0 if it looks at one sample.
    pub range_ms: i64,
    /// Aggregate that may replace the samples; `None` only if they are expired.
    pub rollup: Option<Rollup>,
}

impl Hint {
    /// Whether only the newest sample of each series is used.
    pub fn newest(&self) -> bool {
        (self.step_ms, self.range_ms, self.rollup) == (0, 0, Some(Rollup::Last))
    }
}

/// Answer to a read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    /// See [`crate::Read::select_within`].
    pub series: Vec<SharedSeries>,
    /// Whether the reader has sorted `series` by labels. The query engine sorts them otherwise.
    pub in_label_order: bool,
    /// See [`crate::Read::select_histograms`].
    pub histograms: Vec<HistogramSeries>,
    /// Length of the rollup intervals, ms, if some samples are rollups.
    pub resolution_ms: Option<i64>,
}
