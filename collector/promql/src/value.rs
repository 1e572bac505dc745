//! Results of a query: the four result types of Prometheus' HTTP API.

use fabriclens_model::{HistogramSeries, Labels, Series};
use std::time::Duration;

/// Type of an expression or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// One number per instant.
    Scalar,
    /// A string; only ever a literal.
    String,
    /// Samples at one instant.
    Vector,
    /// Samples over a range.
    Matrix,
}

impl ValueKind {
    /// Name of the type in Prometheus' parse errors.
    pub(crate) fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::String => "string",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
        }
    }
}

/// One element of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// The value; may be NaN, never a staleness marker.
    pub value: f64,
}

/// Result of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `resultType: scalar`.
    Scalar {
        /// Unix milliseconds.
        time_ms: i64,
        /// The number.
        value: f64,
    },
    /// `resultType: string`.
    String {
        /// Unix milliseconds.
        time_ms: i64,
        /// The text.
        value: String,
    },
    /// `resultType: vector`; order is meaningful when the outermost function sorts.
    Vector(Vec<Sample>),
    /// `resultType: matrix`, sorted by labels; no series is empty or contains staleness markers.
    Matrix(Vec<Series>),
}

/// Cost of a query, as Prometheus counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Samples that selectors passed to the expression, counted per step: `totalQueryableSamples`.
    pub samples: usize,
    /// Samples read plus values computed: an upper bound of the values held in memory at once.
    pub held: usize,
    /// Time spent reading series.
    pub reading: Duration,
}

/// A result with its annotations.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The floats of the result.
    pub value: Value,
    /// Its native histograms, sorted by labels unless the outermost function sorts; those of a vector have one time. A
    /// series of a matrix may have both.
    pub histograms: Vec<HistogramSeries>,
    /// "PromQL warning: …": the result may not be what was intended. Sorted, unique.
    pub warnings: Vec<String>,
    /// "PromQL info: …": hints. Sorted, unique.
    pub infos: Vec<String>,
    /// Cost of the query.
    pub stats: Stats,
}
