//! Rows of samples: label sets, column lists with an identity, and values that share time stamps.
//!
//! The OTLP decoder and the collector's other inputs produce [`RowGroup`]s; the store, the forward queues and the
//! detectors consume them. All of them recognize a column list by its [`LayoutId`].
//!
//! ```
//! use fabriclens_rows::{Labels, LayoutInterner, RowGroup};
//!
//! let columns = || vec![Labels::new([("__name__", "up"), ("host", "gpu-01")])];
//! let mut layouts = LayoutInterner::default();
//! let (first, second) = (layouts.intern(columns()), layouts.intern(columns()));
//! assert_eq!(first.id(), second.id());
//!
//! let rows = RowGroup { series: first, times: vec![0, 1000], values: vec![1.0, 1.0] };
//! assert!(rows.is_consistent());
//! ```
#![forbid(unsafe_code)]

mod interner;
mod labels;
mod layout;
pub mod names;
mod shared_labels;

pub use interner::LayoutInterner;
pub use labels::{Labels, Pair, Pairs};
pub use layout::{Layout, LayoutId, WeakLayout};
pub use shared_labels::SharedLabels;

/// Samples of series that were read together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowGroup {
    /// One label set per column, each with `__name__`, no two equal.
    pub series: Layout,
    /// Unix milliseconds, one per row.
    pub times: Vec<i64>,
    /// Column-major: column `c` of row `r` is `values[c * times.len() + r]`; [`ABSENT_NAN`] where there is no sample.
    pub values: Vec<f64>,
}

impl RowGroup {
    /// Whether there is one value for each column and row.
    pub fn is_consistent(&self) -> bool {
        self.series.len().checked_mul(self.times.len()) == Some(self.values.len())
    }
}

/// Bit pattern of Prometheus' staleness marker (a NaN): the series ended here.
pub const STALE_NAN: u64 = 0x7ff0_0000_0000_0002;

/// Whether a value is the staleness marker. An ordinary NaN is not.
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_NAN
}

/// The staleness marker as a value.
pub fn stale() -> f64 {
    f64::from_bits(STALE_NAN)
}

/// Bit pattern of "no sample" (a NaN) in [`RowGroup::values`]. It never reaches a query.
pub const ABSENT_NAN: u64 = 0x7ff8_0000_0000_0fab;

/// Whether a value of a row is "no sample". An ordinary NaN and the staleness marker are not.
pub fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT_NAN
}

/// "No sample" as a value.
pub fn absent() -> f64 {
    f64::from_bits(ABSENT_NAN)
}

/// Number of values that are samples.
pub fn present(values: &[f64]) -> u64 {
    values.iter().filter(|v| !is_absent(**v)).count() as u64
}
