//! Labels, matchers, series of floats and native histograms, and the read trait: the vocabulary of store, query engine and server. No I/O, no policy.
//!
//! ```
//! use fabriclens_model::{Labels, MatchOp, Matcher, Memory, Read, Series};
//!
//! let labels = Labels::new([("__name__", "up"), ("host", "gpu-01")]);
//! let data = Memory(vec![Series { labels, times: vec![0, 1000], values: vec![1.0, 0.0] }]);
//! let gpus = Matcher::new("host", MatchOp::Regex, "gpu-.*")?;
//! let found = data.select(&[gpus], 500, 1000)?;
//! assert_eq!((found[0].times.len(), found[0].labels.to_string()), (1, r#"up{host="gpu-01"}"#.to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aggregation;
mod budget;
mod civil_date;
mod hint;
mod histogram;
mod histogram_rows;
pub mod hostlist;
mod kahan;
mod literals;
mod matcher;
mod memory;
mod pattern;

pub use aggregation::{Aggregated, Aggregation};
pub use budget::{Budget, CancelToken, FixedBudget, TimedBudget, Unlimited};
pub use civil_date::CivilDate;
pub use fabriclens_rows::{
    ABSENT_NAN, Labels, Layout, LayoutId, LayoutInterner, Pair, RowGroup, STALE_NAN, SharedLabels, WeakLayout, absent,
    is_absent, is_stale, names, present, stale,
};
pub use hint::{Hint, Rollup, Selected};
pub use histogram::{
    CUSTOM_SCHEMA, Component, EXPONENTIAL_SCHEMAS, Histogram, HistogramAccumulator, HistogramError, HistogramMean,
    HistogramParts, HistogramSeries, HistogramSum, IncompatibleHistograms, Interval, Keep, MAX_BUCKETS,
    MAX_STORED_BUCKETS, Reconciled, ResetHint, Side, Span, histogram_of, is_component,
};
pub use histogram_rows::{HistogramColumns, assembled, histograms_in, is_of_histograms, samples_in};
pub use kahan::kahan;
pub use matcher::{MatchOp, Matcher, MatcherError};
pub use memory::{Memory, MemoryWithHistograms};
pub use pattern::{
    GroupPattern, Groups, MAX_COMPILED, MAX_GROUPS, MAX_LITERALS, MAX_PATTERN, MAX_PATTERNS, Pattern, PatternError,
    Patterns,
};
use std::sync::Arc;

/// One series with its samples in a time range: `times` in Unix milliseconds, ascending and unique; `values[i]`
/// belongs to `times[i]` and may be [`stale`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Labels, with `__name__`.
    pub labels: Labels,
    /// Unix milliseconds.
    pub times: Vec<i64>,
    /// Same length as `times`.
    pub values: Vec<f64>,
}

/// A [`Series`] whose times are shared with the series that were sampled together with it.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedSeries {
    /// See [`Series::labels`].
    pub labels: Labels,
    /// See [`Series::times`]; two series with the same allocation have equal times.
    pub times: Arc<[i64]>,
    /// See [`Series::values`].
    pub values: Vec<f64>,
}

impl From<Series> for SharedSeries {
    fn from(s: Series) -> Self {
        Self { labels: s.labels, times: s.times.into(), values: s.values }
    }
}

impl From<SharedSeries> for Series {
    fn from(s: SharedSeries) -> Self {
        Self { labels: s.labels, times: s.times.to_vec(), values: s.values }
    }
}

/// Sorts by time and keeps the first sample of each time.
pub fn settle<T>(times: Vec<i64>, values: Vec<T>) -> (Vec<i64>, Vec<T>) {
    if times.is_sorted_by(|a, b| a < b) {
        return (times, values);
    }
    let mut pairs: Vec<(i64, T)> = times.into_iter().zip(values).collect();
    pairs.sort_by_key(|p| p.0);
    pairs.dedup_by_key(|p| p.0);
    pairs.into_iter().unzip()
}

/// Read access for a query engine: to the local store, or to a remote Prometheus-compatible one.
pub trait Read: Send + Sync {
    /// Every series that matches all matchers and has samples in `[start_ms, end_ms]` (inclusive), within `budget`.
    ///
    /// # Errors
    /// [`ReadError`] if blocks cannot be read, a limit or the budget is exceeded, or the remote side fails.
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError>;

    /// The samples of [`Self::select_within`] and [`Self::select_histograms`], with a hint about the use of the floats, so that a
    /// store may return rollups instead. Readers that have histograms implement it.
    ///
    /// # Errors
    /// See [`Self::select_within`].
    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        _hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let series = self.select_within(matchers, start_ms, end_ms, budget)?;
        Ok(Selected { series: series.into_iter().map(Into::into).collect(), ..Selected::default() })
    }

    /// Calls `visit` with the series of [`Self::select_for`] in parts, until it returns false. If the parts are sorted by labels, so are
    /// they among each other. What `budget` granted for the samples of a part is given back after its visit.
    ///
    /// # Errors
    /// See [`Self::select_within`].
    fn visit_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
        visit: &mut dyn FnMut(Selected) -> bool,
    ) -> Result<(), ReadError> {
        visit(self.select_for(matchers, start_ms, end_ms, hint, budget)?);
        Ok(())
    }

    /// The histogram samples of every series that matches all matchers, in `[start_ms, end_ms]` (inclusive), within `budget`.
    /// A series that has floats as well is in both answers.
    ///
    /// # Errors
    /// See [`Self::select_within`].
    fn select_histograms(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<HistogramSeries>, ReadError> {
        Ok(self.select_for(matchers, start_ms, end_ms, Hint::default(), budget)?.histograms)
    }

    /// Results of an aggregation, at its first steps at least; `None` if the samples must be read instead. Readers implement it if the
    /// samples are far from here.
    ///
    /// # Errors
    /// See [`Self::select_within`].
    fn aggregate(&self, _of: &Aggregation<'_>, _budget: &dyn Budget) -> Result<Option<Aggregated>, ReadError> {
        Ok(None)
    }

    /// Like [`Self::select_within`], with an unlimited budget.
    ///
    /// # Errors
    /// See [`Self::select_within`].
    fn select(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<Series>, ReadError> {
        self.select_within(matchers, start_ms, end_ms, &Unlimited)
    }
}

/// Why a read failed; `Display` is shown to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The store or the remote engine failed. Prometheus' `internal`.
    Storage(String),
    /// The read would find more samples than it may. Prometheus' `execution`.
    TooManySamples {
        /// How many it may find.
        limit: usize,
    },
    /// The memory budget of the read was exceeded.
    Memory,
    /// The deadline passed.
    Timeout,
    /// The caller canceled the read.
    Canceled,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Storage(m) => f.write_str(m),
            Self::TooManySamples { limit } => write!(
                f,
                "more than {limit} samples would be read; ask for a shorter range or fewer series, or raise max_samples"
            ),
            Self::Memory => f.write_str("the read exceeds its memory budget"),
            Self::Timeout => f.write_str("the read timed out"),
            Self::Canceled => f.write_str("the read was canceled"),
        }
    }
}
impl std::error::Error for ReadError {}
