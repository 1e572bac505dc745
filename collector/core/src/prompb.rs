//! Messages of Prometheus remote write 1.0, reduced to what a receiver of float samples needs.

use prost::Message;

/// `prometheus.WriteRequest`
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// Series with their samples.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
    /// Type, unit and help of metrics.
    #[prost(message, repeated, tag = "3")]
    pub metadata: Vec<MetricMetadata>,
}

/// `prometheus.TimeSeries`
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// All labels, `__name__` included.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Samples in ascending order of time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// Native histograms, which are counted and rejected; their contents are not decoded.
    #[prost(message, repeated, tag = "4")]
    pub histograms: Vec<OpaqueMessage>,
}

/// `prometheus.Label`
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Label {
    /// Label name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Label value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `prometheus.Sample`
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    /// Value; may be the staleness marker.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Unix ms.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// `prometheus.MetricMetadata`
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MetricMetadata {
    /// Type: 1 counter, 2 gauge, 3 histogram, 4 gauge histogram, 5 summary, 6 info, 7 state set.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Metric name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Help text.
    #[prost(string, tag = "4")]
    pub help: String,
    /// Unit of the values.
    #[prost(string, tag = "5")]
    pub unit: String,
}

/// Names of the types, by number.
const KINDS: [&str; 8] = ["unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"];

impl MetricMetadata {
    /// Type as named by `/api/v1/metadata`.
    pub fn kind_word(&self) -> &'static str {
        usize::try_from(self.kind).ok().and_then(|i| KINDS.get(i)).unwrap_or(&"unknown")
    }

    /// Number of a type name; 0 (unknown) for any other word.
    pub fn kind_number(word: &str) -> i32 {
        KINDS.iter().position(|k| *k == word).map_or(0, |i| i as i32)
    }
}

/// A message whose contents are not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct OpaqueMessage {}
