//! The outcome of an append, counted per sample.

use crate::error::AppendError;
use fabriclens_model::RowGroup;
use std::ops::AddAssign;

/// Checks that times, columns and values of a group fit together; `index` is its position in the append.
pub(crate) fn check(group: &RowGroup, index: usize) -> Result<(), AppendError> {
    if group.is_consistent() {
        return Ok(());
    }
    let (columns, rows) = (group.series.len(), group.times.len());
    Err(AppendError::Shape { group: index, values: group.values.len(), columns, rows })
}

/// Outcome of an append; the sum is the number of samples sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// New, durable and readable.
    pub accepted: u64,
    /// Same series, time and value as an existing sample; nothing is stored.
    pub duplicates: u64,
    /// Native histograms among accepted and duplicate samples.
    pub histograms: u64,
    /// Same series and time as an existing sample but another value; the first one is kept.
    pub conflicts: u64,
    /// Older than retention or the out-of-order window.
    pub too_old: u64,
    /// Of a time in which the series has samples in random order, in too many chunks.
    pub out_of_order: u64,
    /// Too far ahead of the clock.
    pub too_far_in_future: u64,
    /// Of new series beyond a series limit.
    pub over_series_limit: u64,
}

impl Appended {
    /// All samples sent.
    pub fn total(&self) -> u64 {
        self.accepted + self.duplicates + self.refused().iter().map(|(_, samples)| samples).sum::<u64>()
    }

    /// Samples that are not stored, by reason.
    pub fn refused(&self) -> [(Refused, u64); 5] {
        [
            (Refused::TooOld, self.too_old),
            (Refused::OutOfOrder, self.out_of_order),
            (Refused::Future, self.too_far_in_future),
            (Refused::Conflict, self.conflicts),
            (Refused::SeriesLimit, self.over_series_limit),
        ]
    }
}

/// Why samples are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// [`Appended::too_old`].
    TooOld,
    /// [`Appended::out_of_order`].
    OutOfOrder,
    /// [`Appended::too_far_in_future`].
    Future,
    /// [`Appended::conflicts`].
    Conflict,
    /// [`Appended::over_series_limit`].
    SeriesLimit,
}

impl Refused {
    /// Value of the label `reason` of the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooOld => "too_old",
            Self::OutOfOrder => "out_of_order",
            Self::Future => "future",
            Self::Conflict => "conflict",
            Self::SeriesLimit => "series_limit",
        }
    }
}

impl AddAssign for Appended {
    fn add_assign(&mut self, o: Self) {
        self.accepted += o.accepted;
        self.duplicates += o.duplicates;
        self.histograms += o.histograms;
        self.conflicts += o.conflicts;
        self.too_old += o.too_old;
        self.out_of_order += o.out_of_order;
        self.too_far_in_future += o.too_far_in_future;
        self.over_series_limit += o.over_series_limit;
    }
}
