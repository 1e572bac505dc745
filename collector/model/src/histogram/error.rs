//! Why parts are no histogram, and why two histograms cannot be combined.

use super::schema::{EXPONENTIAL_SCHEMAS, MAX_BUCKETS};

/// Parts that are no histogram.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HistogramError {
    /// The schema is not known.
    #[error("schema {0} is neither one of {low} to {high} nor -53", low = EXPONENTIAL_SCHEMAS.start(), high = EXPONENTIAL_SCHEMAS.end())]
    Schema(i32),
    /// A span but the first starts before the end of the one before it, or a bucket of an exponential schema counts no
    /// finite numbers.
    #[error("the spans of the {side} buckets are out of order or out of range")]
    Spans {
        /// `positive` or `negative`.
        side: &'static str,
    },
    /// Spans and counts differ in number.
    #[error("the spans of the {side} buckets need {spans} counts, there are {counts}")]
    Counts {
        /// `positive` or `negative`.
        side: &'static str,
        /// Buckets of all spans.
        spans: u64,
        /// Counts.
        counts: usize,
    },
    /// There are too many buckets.
    #[error("{0} buckets or bounds are more than {MAX_BUCKETS}")]
    TooManyBuckets(u64),
    /// There are more buckets than a store keeps.
    #[error("{0} buckets are more than {max}; use a lower schema", max = super::MAX_STORED_BUCKETS)]
    TooManyStored(usize),
    /// Custom bounds are not ascending, or infinite.
    #[error("custom bounds must be ascending and finite")]
    Bounds,
    /// An exponential schema has custom bounds, or the custom schema has negative buckets or a zero bucket.
    #[error("a histogram with schema {0} cannot have {1}")]
    Unexpected(i8, &'static str),
    /// The zero threshold is negative, infinite or none.
    #[error("zero threshold {0} must be finite and not negative")]
    ZeroThreshold(f64),
    /// A count is negative, which only results of queries may be.
    #[error("the histogram has a negative count")]
    NegativeCount,
}

/// One histogram has custom bounds and the other an exponential schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("histograms with exponential and with custom buckets cannot be combined")]
pub struct IncompatibleHistograms;
