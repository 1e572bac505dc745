//! What goes in: rows of series that share time stamps, and the count of what became of them.

use crate::error::AppendError;
use fabriclens_model::Labels;
use std::ops::AddAssign;
use std::sync::Arc;

/// Samples of series that were read together. Send the same `Arc` of labels each time: it is recognised by address,
/// and an append then costs no hashing.
#[derive(Clone, Debug)]
pub struct RowGroup {
    /// One label set per column, each with `__name__`, no two equal.
    pub series: Arc<[Labels]>,
    /// Unix milliseconds, one per row.
    pub times: Vec<i64>,
    /// Column-major, `values[column * times.len() + row]`; [`fabriclens_model::ABSENT_NAN`] where there is no sample.
    pub values: Vec<f64>,
}

impl RowGroup {
    /// Checks that times, columns and values fit together.
    pub(crate) fn check(&self, group: usize) -> Result<(), AppendError> {
        let (columns, rows) = (self.series.len(), self.times.len());
        if columns.checked_mul(rows) == Some(self.values.len()) {
            return Ok(());
        }
        Err(AppendError::Shape { group, values: self.values.len(), columns, rows })
    }
}

/// What became of the samples of an append; the sum is the number of samples sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// New, durable, readable.
    pub accepted: u64,
    /// Same series, time and value as a sample already there: fine, nothing stored.
    pub duplicates: u64,
    /// Same series and time as a sample already there but another value: the first one stays.
    pub conflicts: u64,
    /// Older than retention or the out-of-order window.
    pub too_old: u64,
    /// Too far ahead of the clock.
    pub too_far_in_future: u64,
    /// Of new series beyond the limit of series.
    pub over_series_limit: u64,
}

impl Appended {
    /// All samples sent.
    pub fn total(&self) -> u64 {
        self.accepted
            + self.duplicates
            + self.conflicts
            + self.too_old
            + self.too_far_in_future
            + self.over_series_limit
    }
}

impl AddAssign for Appended {
    fn add_assign(&mut self, o: Self) {
        self.accepted += o.accepted;
        self.duplicates += o.duplicates;
        self.conflicts += o.conflicts;
        self.too_old += o.too_old;
        self.too_far_in_future += o.too_far_in_future;
        self.over_series_limit += o.over_series_limit;
    }
}
