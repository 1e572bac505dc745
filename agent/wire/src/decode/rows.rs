//! The result of decoding a request: rows, rejected points, metadata.

use fabriclens_rows::{Labels, RowGroup, is_absent};

/// The contents of one request, ready to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Series that share time stamps.
    pub groups: Vec<RowGroup>,
    /// Samples of exponential histograms.
    pub histograms: Vec<ExponentialPoint>,
    /// Rejected points with reasons, for OTLP's partial success.
    pub rejected: Vec<Rejected>,
    /// Metadata of metrics that are new to this decoder, or whose metadata changed.
    pub metadata: Vec<Meta>,
}

/// A sample of an exponential histogram, as sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExponentialPoint {
    /// Labels of the series.
    pub labels: Labels,
    /// Unix ms.
    pub time: i64,
    /// Whether it marks the end of the series.
    pub stale: bool,
    /// Bucket `i` counts values above `2^(i/2^scale)`, up to the bound of the next one.
    pub scale: i32,
    /// Observations.
    pub count: u64,
    /// Their sum, if they have one.
    pub sum: Option<f64>,
    /// Largest absolute value in the zero bucket.
    pub zero_threshold: f64,
    /// Observations in the zero bucket.
    pub zero_count: u64,
    /// Index of the first bucket above the zero bucket, and the observations in it and those after it.
    pub positive: (i32, Vec<u64>),
    /// The same below the zero bucket.
    pub negative: (i32, Vec<u64>),
}

/// Points that were rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Metric name as sent.
    pub metric: String,
    /// Number of points.
    pub points: usize,
    /// Reason and remedy.
    pub reason: String,
}

/// Metadata of a metric, for `/api/v1/metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Prometheus name; for a histogram or summary without suffix.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub kind: &'static str,
    /// UCUM unit, as sent.
    pub unit: String,
    /// Description, as sent.
    pub help: String,
}

impl Rows {
    /// Number of samples in all groups.
    pub fn samples(&self) -> usize {
        self.groups.iter().flat_map(|g| &g.values).filter(|v| !is_absent(**v)).count()
    }

    /// Number of rejection entries and of rejected points so far.
    pub(super) fn refused(&self) -> (usize, usize) {
        (self.rejected.len(), self.rejected.iter().map(|r| r.points).sum())
    }

    /// Counts rejected points; there are few reasons, so a list is sufficient.
    pub(super) fn reject(&mut self, metric: &str, points: usize, reason: &str) {
        /// Further entries are merged into the last one, so that a hostile request cannot grow the list.
        const LINES: usize = 100;
        let name: String = metric.chars().take(200).collect();
        let same = |r: &&mut Rejected| r.reason == reason && r.metric == name;
        if let Some(r) = self.rejected.iter_mut().find(same) {
            r.points += points;
        } else if self.rejected.len() < LINES {
            self.rejected.push(Rejected { metric: name, points, reason: reason.to_owned() });
        } else if let Some(r) = self.rejected.last_mut() {
            r.points += points;
        }
    }
}
