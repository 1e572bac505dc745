//! Messages of Prometheus remote write 1.0, reduced to what a receiver of samples and histograms needs.

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
    /// Native histograms in ascending order of time.
    #[prost(message, repeated, tag = "4")]
    pub histograms: Vec<Histogram>,
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

/// `prometheus.Histogram`; the same message in remote write 2.0.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// Observations, of integers.
    #[prost(uint64, optional, tag = "1")]
    pub count_int: Option<u64>,
    /// Observations, of floats.
    #[prost(double, optional, tag = "2")]
    pub count_float: Option<f64>,
    /// Sum of observations, or the staleness marker.
    #[prost(double, tag = "3")]
    pub sum: f64,
    /// Schema.
    #[prost(sint32, tag = "4")]
    pub schema: i32,
    /// Largest absolute value in the zero bucket.
    #[prost(double, tag = "5")]
    pub zero_threshold: f64,
    /// Observations in the zero bucket, of integers.
    #[prost(uint64, optional, tag = "6")]
    pub zero_count_int: Option<u64>,
    /// Observations in the zero bucket, of floats.
    #[prost(double, optional, tag = "7")]
    pub zero_count_float: Option<f64>,
    /// Negative buckets.
    #[prost(message, repeated, tag = "8")]
    pub negative_spans: Vec<BucketSpan>,
    /// Their counts, of integers, as differences.
    #[prost(sint64, repeated, tag = "9")]
    pub negative_deltas: Vec<i64>,
    /// Their counts, of floats.
    #[prost(double, repeated, tag = "10")]
    pub negative_counts: Vec<f64>,
    /// Positive buckets.
    #[prost(message, repeated, tag = "11")]
    pub positive_spans: Vec<BucketSpan>,
    /// Their counts, of integers, as differences.
    #[prost(sint64, repeated, tag = "12")]
    pub positive_deltas: Vec<i64>,
    /// Their counts, of floats.
    #[prost(double, repeated, tag = "13")]
    pub positive_counts: Vec<f64>,
    /// 0 unknown, 1 reset, 2 no reset, 3 gauge.
    #[prost(int32, tag = "14")]
    pub reset_hint: i32,
    /// Unix ms.
    #[prost(int64, tag = "15")]
    pub timestamp: i64,
    /// Upper bounds of the custom schema.
    #[prost(double, repeated, tag = "16")]
    pub custom_values: Vec<f64>,
}

/// `prometheus.BucketSpan`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct BucketSpan {
    /// Gap to the previous span, or index of the first bucket.
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// Number of adjacent buckets.
    #[prost(uint32, tag = "2")]
    pub length: u32,
}
