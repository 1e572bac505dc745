//! Native histograms: counts of observations in sparse buckets, as one sample.
//!
//! An exponential schema `n` divides each power of two into `2^n` buckets; bucket `i` counts values up to `2^(i/2^n)`, and
//! as many negative buckets mirror them. Values near zero are in the zero bucket. The custom schema counts values between
//! bounds that the histogram itself lists.
//!
//! ```
//! use fabriclens_model::{Histogram, HistogramParts, Side, Span};
//!
//! let positive = Side { spans: vec![Span { offset: 1, length: 2 }], counts: vec![3.0, 1.0] };
//! let mut a = Histogram::new(HistogramParts { count: 4.0, sum: 9.0, positive, ..HistogramParts::default() })?;
//! a.add(&a.clone())?;
//! let last = a.intervals().last();
//! assert_eq!(last.map(|b| (b.lower, b.upper, b.count)), Some((2.0, 4.0, 2.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod align;
mod arithmetic;
mod buckets;
mod components;
mod error;
mod intervals;
mod parts;
mod reset;
mod schema;
mod sum;
mod trim;

pub use arithmetic::Reconciled;
pub use components::{Component, MAX_STORED_BUCKETS, histogram_of, is_component};
pub use error::{HistogramError, IncompatibleHistograms};
pub use intervals::Interval;
pub use parts::{HistogramParts, Side, Span};
pub use schema::{CUSTOM_SCHEMA, EXPONENTIAL_SCHEMAS, MAX_BUCKETS};
pub use sum::{HistogramAccumulator, HistogramMean, HistogramSum};
pub use trim::Keep;

use crate::{Labels, STALE_NAN, is_stale};
use buckets::Bucket;
use std::sync::Arc;

/// What is known of the relation between a histogram and the one before it in its series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetHint {
    /// Counts must be compared to find out.
    #[default]
    Unknown,
    /// Its counts start from zero.
    Reset,
    /// It continues the counts of the one before it.
    NotReset,
    /// It is no counter.
    Gauge,
}

/// A native histogram with absolute counts, which may be fractions. Results of subtractions have negative counts.
#[derive(Clone, Debug)]
pub struct Histogram {
    schema: i8,
    zero_threshold: f64,
    zero_count: f64,
    count: f64,
    sum: f64,
    /// Ascending by index; a listed bucket may be empty.
    positive: Vec<Bucket>,
    negative: Vec<Bucket>,
    /// Upper bounds of the custom schema, ascending; empty otherwise.
    bounds: Arc<[f64]>,
    hint: ResetHint,
}

impl Histogram {
    /// A histogram that counts nothing and marks the end of its series.
    pub fn stale() -> Self {
        Self { sum: f64::from_bits(STALE_NAN), ..Self::empty(0, Arc::default()) }
    }

    fn empty(schema: i8, bounds: Arc<[f64]>) -> Self {
        Self {
            schema,
            zero_threshold: 0.0,
            zero_count: 0.0,
            count: 0.0,
            sum: 0.0,
            positive: vec![],
            negative: vec![],
            bounds,
            hint: ResetHint::Unknown,
        }
    }

    /// A histogram without observations whose buckets are those of this one's schema and bounds.
    pub fn emptied(&self) -> Self {
        Self::empty(self.schema, self.bounds.clone())
    }

    /// Resolution: one of [`EXPONENTIAL_SCHEMAS`], or [`CUSTOM_SCHEMA`].
    pub fn schema(&self) -> i8 {
        self.schema
    }

    /// Whether its buckets are those of custom bounds.
    pub fn is_custom(&self) -> bool {
        self.schema == CUSTOM_SCHEMA
    }

    /// Largest absolute value in the zero bucket.
    pub fn zero_threshold(&self) -> f64 {
        self.zero_threshold
    }

    /// Observations in the zero bucket.
    pub fn zero_count(&self) -> f64 {
        self.zero_count
    }

    /// Number of observations, with those of NaN, which are in no bucket.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Sum of observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Upper bounds of the custom schema.
    pub fn custom_bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// See [`ResetHint`].
    pub fn hint(&self) -> ResetHint {
        self.hint
    }

    /// The same histogram with another hint.
    #[must_use]
    pub fn with_hint(self, hint: ResetHint) -> Self {
        Self { hint, ..self }
    }

    /// Whether it has buckets above the zero bucket.
    pub fn has_positive(&self) -> bool {
        !self.positive.is_empty()
    }

    /// Whether it has buckets below the zero bucket.
    pub fn has_negative(&self) -> bool {
        !self.negative.is_empty()
    }

    /// Whether it marks the end of its series.
    pub fn is_stale(&self) -> bool {
        is_stale(self.sum)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let buckets = self.positive.len() + self.negative.len();
        size_of::<Self>() + buckets * size_of::<Bucket>() + size_of_val(&*self.bounds)
    }

    /// Whether both have the same buckets with the same counts, count and sum, bit by bit; hints do not matter.
    pub fn same_observations(&self, other: &Self) -> bool {
        let bits = |h: &Self| [h.zero_count, h.count, h.sum].map(f64::to_bits);
        let layout = |h: &Self| (h.schema, h.positive.len(), h.negative.len(), h.bounds.len());
        let pairs = || self.positive.iter().zip(&other.positive).chain(self.negative.iter().zip(&other.negative));
        layout(self) == layout(other)
            && bits(self) == bits(other)
            && self.zero_threshold.total_cmp(&other.zero_threshold).is_eq()
            && same_bounds(&self.bounds, &other.bounds)
            && pairs().all(|(a, b)| a.index == b.index && a.count.to_bits() == b.count.to_bits())
    }
}

/// Histograms are equal if they have the same observations and the same hint.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.hint == other.hint && self.same_observations(other)
    }
}

fn same_bounds(a: &Arc<[f64]>, b: &Arc<[f64]>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// The histogram samples of one series in a time range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSeries {
    /// Labels, with `__name__`.
    pub labels: Labels,
    /// Unix milliseconds, ascending and unique.
    pub times: Vec<i64>,
    /// Same length as `times`; may be [stale](Histogram::is_stale).
    pub values: Vec<Arc<Histogram>>,
}

impl HistogramSeries {
    /// Bytes of memory, without the labels.
    pub fn bytes(&self) -> usize {
        let slot = size_of::<i64>() + size_of::<Arc<Histogram>>();
        self.values.iter().map(|h| slot + h.bytes()).sum()
    }
}
