//! Samples of either kind: floats and native histograms.

use fabriclens_model::{Histogram, Labels, SharedSeries};
use std::sync::Arc;

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Point {
    Float(f64),
    Histogram(Arc<Histogram>),
}

impl From<Histogram> for Point {
    fn from(h: Histogram) -> Self {
        Self::Histogram(Arc::new(h))
    }
}

/// A histogram with its time in Unix milliseconds.
pub(crate) type HistogramPoint = (i64, Arc<Histogram>);

/// The samples of a series in a time range. Those of series without histograms stay in columns.
pub(crate) struct Samples {
    pub labels: Labels,
    /// Times of the floats, Unix milliseconds, ascending; shared with the series that were sampled together with it.
    pub times: Arc<[i64]>,
    pub values: Vec<f64>,
    /// Ascending; no time is in `times`.
    pub histograms: Vec<HistogramPoint>,
}

impl Samples {
    /// Number of samples that Prometheus would count: a histogram counts as many as its memory holds.
    pub fn size(&self) -> usize {
        self.values.len() + sampled(&self.histograms)
    }
}

impl From<SharedSeries> for Samples {
    fn from(s: SharedSeries) -> Self {
        Self { labels: s.labels, times: s.times, values: s.values, histograms: vec![] }
    }
}

/// Bytes of a float with its time, by which Prometheus counts histograms.
const FLOAT_POINT: usize = 16;

/// Number of samples that Prometheus would count for histograms.
pub(super) fn sampled(histograms: &[HistogramPoint]) -> usize {
    histograms.iter().map(|(_, h)| h.bytes().div_ceil(FLOAT_POINT)).sum()
}

/// The points of `(start..=end)`, both in Unix milliseconds.
pub(crate) fn between(points: &[HistogramPoint], (start, end): (i64, i64)) -> &[HistogramPoint] {
    let from = points.partition_point(|(t, _)| *t < start);
    let to = points.partition_point(|(t, _)| *t <= end);
    &points[from..to.max(from)]
}

/// The histograms of a column by step. Takes no memory until there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistogramColumn(Vec<Option<Arc<Histogram>>>);

impl HistogramColumn {
    /// Whether there is a histogram at any step.
    pub fn any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// The histogram at a step.
    pub fn at(&self, step: usize) -> Option<&Arc<Histogram>> {
        self.0.get(step)?.as_ref()
    }

    /// Puts a histogram at a step of so many.
    pub fn set(&mut self, step: usize, steps: usize, histogram: Arc<Histogram>) {
        if self.0.is_empty() {
            self.0 = vec![None; steps];
        }
        self.0[step] = Some(histogram);
    }

    /// Removes and returns the histogram at a step.
    pub fn clear(&mut self, step: usize) -> Option<Arc<Histogram>> {
        self.0.get_mut(step)?.take()
    }

    /// Removes all.
    pub fn clear_all(&mut self) {
        self.0 = vec![];
    }

    /// Steps with their histograms.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Histogram>)> {
        self.0.iter().enumerate().filter_map(|(i, h)| Some((i, h.as_ref()?)))
    }

    /// Number of values whose memory the steps take.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}
