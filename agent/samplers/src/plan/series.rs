//! Identity of an exported series, and the counter that feeds it.

use fabriclens_catalog::BoundCounter;
use std::sync::Arc;

/// Metric name and labels of one series.
pub type SeriesKey = (&'static str, Vec<(Arc<str>, Arc<str>)>);

/// A counter of a source that feeds a column.
#[derive(Debug, Clone)]
pub struct Assigned {
    /// Index of its name in the batch.
    pub raw: usize,
    /// Row of the catalog.
    pub bound: BoundCounter,
}
