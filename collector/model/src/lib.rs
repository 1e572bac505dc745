//! Labels, matchers and series: the words that store, query engine and server share. No I/O, no policy.

mod budget;
mod civil;
mod hint;
pub mod hostlist;
mod labels;
mod matcher;
mod memory;

pub use budget::{Budget, Purse, Unlimited};
pub use civil::Civil;
pub use hint::{Hint, Rollup, Selected};
pub use labels::Labels;
pub use matcher::{MatchOp, Matcher, MatcherError};
pub use memory::Memory;
use std::sync::Arc;

/// Bit pattern of Prometheus' staleness marker (a NaN): "this series ended here".
pub const STALE_NAN: u64 = 0x7ff0_0000_0000_0002;

/// Whether a value is the staleness marker. An ordinary NaN is not.
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_NAN
}

/// The staleness marker as a value.
pub fn stale() -> f64 {
    f64::from_bits(STALE_NAN)
}

/// Bit pattern of "no sample here" (a NaN) in column-major rows that share time stamps. It never reaches a query.
pub const ABSENT_NAN: u64 = 0x7ff8_0000_0000_0fab;

/// Whether a value of a row is "no sample here". An ordinary NaN and the staleness marker are not.
pub fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT_NAN
}

/// How many values of rows are samples.
pub fn present(values: &[f64]) -> u64 {
    values.iter().filter(|v| !is_absent(**v)).count() as u64
}

/// "No sample here" as a value.
pub fn absent() -> f64 {
    f64::from_bits(ABSENT_NAN)
}

/// One series with its samples in a time range: `times` in Unix milliseconds, ascending, no duplicates;
/// `values[i]` belongs to `times[i]` and may be [`stale`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its labels, with `__name__`.
    pub labels: Labels,
    /// Unix milliseconds.
    pub times: Vec<i64>,
    /// Same length as `times`.
    pub values: Vec<f64>,
}

/// A [`Series`] among many that were sampled together: those with the same times share them.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedSeries {
    /// As in [`Series`].
    pub labels: Labels,
    /// As in [`Series`]; the same allocation tells that times are the same without a look at them.
    pub times: Arc<[i64]>,
    /// As in [`Series`].
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

/// Ascending times, the first sample of each time.
pub fn settle(times: Vec<i64>, values: Vec<f64>) -> (Vec<i64>, Vec<f64>) {
    if times.is_sorted_by(|a, b| a < b) {
        return (times, values);
    }
    let mut pairs: Vec<(i64, f64)> = times.into_iter().zip(values).collect();
    pairs.sort_by_key(|p| p.0);
    pairs.dedup_by_key(|p| p.0);
    pairs.into_iter().unzip()
}

/// What a query engine needs of a store: the local one, or a remote Prometheus-compatible one.
pub trait Read: Send + Sync {
    /// Every series that matches all matchers and has samples in `[start_ms, end_ms]`, both inclusive, as far as
    /// `budget` allows.
    ///
    /// # Errors
    /// [`ReadError`] when blocks cannot be read, a limit or the budget is exceeded or the remote side fails.
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError>;

    /// [`Self::select_within`] for a reader who tells what the samples are for, so that a store may let fewer stand for
    /// them.
    ///
    /// # Errors
    /// As there.
    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        _hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let series = self.select_within(matchers, start_ms, end_ms, budget)?;
        Ok(Selected { series: series.into_iter().map(Into::into).collect(), resolution_ms: None })
    }

    /// [`Self::select_within`] whatever it takes.
    ///
    /// # Errors
    /// As there.
    fn select(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<Series>, ReadError> {
        self.select_within(matchers, start_ms, end_ms, &Unlimited)
    }
}

/// Why a read failed; `Display` is shown to the person who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The store or the remote engine failed; Prometheus' `internal`.
    Storage(String),
    /// A limit was exceeded; names the limit and the remedy. Prometheus' `execution`.
    Limit(String),
    /// The budget of the read was exceeded.
    Memory,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Storage(m) | Self::Limit(m) => f.write_str(m),
            Self::Memory => f.write_str("the read needs more memory than it may take"),
        }
    }
}
impl std::error::Error for ReadError {}
