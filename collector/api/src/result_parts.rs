//! Results of a range query in parts: the samples of some steps, and parts joined again.

use std::collections::BTreeSet;

use fabriclens_model::{HistogramSeries, Labels, Series};
use fabriclens_promql::{Outcome, Stats, Value};

/// Bytes of a series without its points, about.
const SERIES: usize = 256;
/// Bytes of a point.
const POINT: usize = size_of::<(i64, f64)>();

/// Instants at which a query is evaluated: `start`, `start + step`, … up to `end`, Unix ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub start: i64,
    pub end: i64,
    pub step: i64,
}

impl Steps {
    /// How many there are.
    pub(super) fn count(self) -> i64 {
        (self.end - self.start) / self.step + 1
    }

    /// The last one, Unix ms.
    pub(super) fn last(self) -> i64 {
        self.start + (self.count() - 1) * self.step
    }
}

/// Memory of a result, about.
pub(super) fn bytes(outcome: &Outcome) -> usize {
    let floats = match &outcome.value {
        Value::Matrix(series) => series.iter().map(|s| SERIES + POINT * s.times.len()).sum(),
        Value::Scalar { .. } | Value::String { .. } | Value::Vector(_) => SERIES,
    };
    let histogram = |s: &HistogramSeries| SERIES + s.values.iter().map(|h| POINT + h.bytes()).sum::<usize>();
    floats + outcome.histograms.iter().map(histogram).sum::<usize>()
}

/// Series of samples, as [`Series`] and [`HistogramSeries`] are.
trait Samples: Sized {
    fn labels(&self) -> &Labels;
    /// The samples from one time to another, inclusive; `None` if there are none.
    fn within(&self, start: i64, end: i64) -> Option<Self>;
    /// Appends later samples.
    fn extend(&mut self, later: Self);
}

macro_rules! samples {
    ($series:ty) => {
        impl Samples for $series {
            fn labels(&self) -> &Labels {
                &self.labels
            }

            fn within(&self, start: i64, end: i64) -> Option<Self> {
                let first = self.times.partition_point(|time| *time < start);
                let last = self.times.partition_point(|time| *time <= end);
                let (times, values) = (self.times[first..last].to_vec(), self.values[first..last].to_vec());
                (first < last).then(|| Self { labels: self.labels.clone(), times, values })
            }

            fn extend(&mut self, later: Self) {
                self.times.extend(later.times);
                self.values.extend(later.values);
            }
        }
    };
}

samples!(Series);
samples!(HistogramSeries);

/// The results from one step to another, inclusive.
pub(super) fn part(outcome: &Outcome, start: i64, end: i64) -> Outcome {
    let floats = match &outcome.value {
        Value::Matrix(series) => series.iter().filter_map(|s| s.within(start, end)).collect(),
        Value::Scalar { .. } | Value::String { .. } | Value::Vector(_) => Vec::new(),
    };
    let histograms = outcome.histograms.iter().filter_map(|s| s.within(start, end)).collect();
    Outcome { value: Value::Matrix(floats), histograms, stats: Stats::default(), warnings: vec![], infos: vec![] }
}

/// Results at some steps, and at later ones.
pub(super) fn joined(earlier: Outcome, later: Outcome) -> Outcome {
    let value = match (earlier.value, later.value) {
        (Value::Matrix(earlier), Value::Matrix(later)) => Value::Matrix(merged(earlier, later)),
        (_, later) => later,
    };
    let both = |one: Vec<String>, other: Vec<String>| {
        one.into_iter().chain(other).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let (one, other) = (earlier.stats, later.stats);
    Outcome {
        value,
        histograms: merged(earlier.histograms, later.histograms),
        warnings: both(earlier.warnings, later.warnings),
        infos: both(earlier.infos, later.infos),
        stats: Stats {
            samples: one.samples + other.samples,
            held: one.held.max(other.held),
            reading: one.reading + other.reading,
        },
    }
}

/// Both sorted by labels, as the result is.
fn merged<S: Samples>(earlier: Vec<S>, later: Vec<S>) -> Vec<S> {
    let mut out = Vec::with_capacity(earlier.len().max(later.len()));
    let mut later = later.into_iter().peekable();
    for mut series in earlier {
        while let Some(new) = later.next_if(|new| new.labels() < series.labels()) {
            out.push(new);
        }
        if let Some(more) = later.next_if(|more| more.labels() == series.labels()) {
            series.extend(more);
        }
        out.push(series);
    }
    out.extend(later);
    out
}
