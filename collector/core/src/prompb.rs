//! Prometheus remote write 1.0 messages, as far as a receiver of float samples needs them.

use prost::Message;

/// `prometheus.WriteRequest`
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// Series with their samples.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
    /// What metrics are.
    #[prost(message, repeated, tag = "3")]
    pub metadata: Vec<MetricMetadata>,
}

/// `prometheus.TimeSeries`
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// With `__name__`.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Ascending by time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// Native histograms; counted and rejected, so their contents are not read.
    #[prost(message, repeated, tag = "4")]
    pub histograms: Vec<Unread>,
}

/// `prometheus.Label`
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Label {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `prometheus.Sample`
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    /// May be the staleness marker.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Unix milliseconds.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// `prometheus.MetricMetadata`
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MetricMetadata {
    /// 1 counter, 2 gauge, 3 histogram, 4 gauge histogram, 5 summary, 6 info, 7 state set.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Metric name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// One sentence.
    #[prost(string, tag = "4")]
    pub help: String,
    /// Unit.
    #[prost(string, tag = "5")]
    pub unit: String,
}

/// Words for the kinds, by their numbers.
const KINDS: [&str; 8] = ["unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"];

impl MetricMetadata {
    /// The word that `/api/v1/metadata` uses.
    pub fn kind_word(&self) -> &'static str {
        usize::try_from(self.kind).ok().and_then(|i| KINDS.get(i)).unwrap_or(&"unknown")
    }

    /// The number of such a word.
    pub fn kind_number(word: &str) -> i32 {
        KINDS.iter().position(|k| *k == word).map_or(0, |i| i as i32)
    }
}

/// A message that is only counted.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Unread {}
