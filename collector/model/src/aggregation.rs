//! An aggregation that a reader may compute where the samples are, instead of returning them.

use crate::{Labels, Matcher};

/// `operator by (labels) (function(selector[range] offset …))` of floats at equal steps.
#[derive(Clone, Copy, Debug)]
pub struct Aggregation<'a> {
    /// Name of a PromQL aggregation without a parameter, such as `sum`.
    pub operator: &'a str,
    /// `by`: groups keep `labels`; else `without`: they drop them.
    pub by: bool,
    /// Labels of the grouping.
    pub labels: &'a [String],
    /// Name of a PromQL function of a range and nothing else, such as `max_over_time`. `None`: the latest sample of the range, unless it
    /// is a staleness marker.
    pub function: Option<&'a str>,
    /// The series, of one metric.
    pub matchers: &'a [Matcher],
    /// Length of the range, ms.
    pub range_ms: i64,
    /// How far the end of the range lies before its step, ms; negative: behind it.
    pub offset_ms: i64,
    /// Whether a sample at the start of the range counts, as in Prometheus 2.
    pub closed: bool,
    /// Unix milliseconds of the first step.
    pub start_ms: i64,
    /// Milliseconds between steps.
    pub step_ms: i64,
    /// Number of steps, at least one.
    pub steps: usize,
}

impl Aggregation<'_> {
    /// Unix milliseconds of a step.
    pub fn time(&self, step: usize) -> i64 {
        self.start_ms.saturating_add(self.step_ms.saturating_mul(i64::try_from(step).unwrap_or(i64::MAX)))
    }
}

/// Results at the first steps of an [`Aggregation`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregated {
    /// Number of steps that are computed, at least one.
    pub steps: usize,
    /// Each group with a value for each of these steps, [`crate::STALE_NAN`] where it has none.
    pub groups: Vec<(Labels, Vec<f64>)>,
}
