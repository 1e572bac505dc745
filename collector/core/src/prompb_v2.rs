//! Messages of Prometheus remote write 2.0, as a sender writes them.
//!
//! Specification: <https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/>.

use super::prompb::Sample;
use prost::Message;

/// Header of answers: number of samples that a receiver has written. One of version 1.0 does not send it.
pub const SAMPLES_WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// `io.prometheus.write.v2.Request`
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// Texts that series refer to by their place; the first is empty.
    #[prost(string, repeated, tag = "4")]
    pub symbols: Vec<String>,
    /// Series with their samples.
    #[prost(message, repeated, tag = "5")]
    pub timeseries: Vec<TimeSeries>,
}

/// `io.prometheus.write.v2.TimeSeries`
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Name and value of each label, as places of symbols.
    #[prost(uint32, repeated, tag = "1")]
    pub label_references: Vec<u32>,
    /// Samples in ascending order of time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// Encoded [`super::prompb::Histogram`]s in ascending order of time.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub histograms: Vec<Vec<u8>>,
    /// Type, help and unit of the metric.
    #[prost(message, optional, tag = "5")]
    pub metadata: Option<Metadata>,
}

/// `io.prometheus.write.v2.Metadata`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Metadata {
    /// Type, numbered as in [`super::prompb::MetricMetadata`].
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Help text, as the place of a symbol.
    #[prost(uint32, tag = "3")]
    pub help_reference: u32,
    /// Unit of the values, likewise.
    #[prost(uint32, tag = "4")]
    pub unit_reference: u32,
}
