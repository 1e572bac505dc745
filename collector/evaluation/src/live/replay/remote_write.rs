//! Remote write of exporters' series, as Prometheus sends what it has scraped.

use fabriclens_core::prompb::{Label, Sample, TimeSeries, WriteRequest};
use prost::Message as _;

/// A scraped series: its name, its other labels and its value.
pub type Scraped = (String, Vec<(&'static str, String)>, f64);

/// A compressed request with one sample per series.
pub fn request(time_ms: i64, series: impl Iterator<Item = Scraped>) -> Vec<u8> {
    let label = |(name, value): (&'static str, String)| Label { name: name.to_owned(), value };
    let one = |(name, labels, value): Scraped| TimeSeries {
        labels: [("__name__", name)].into_iter().chain(labels).map(label).collect(),
        samples: vec![Sample { value, timestamp: time_ms }],
        histograms: Vec::new(),
    };
    let request = WriteRequest { timeseries: series.map(one).collect(), metadata: Vec::new() }.encode_to_vec();
    snap::raw::Encoder::new().compress_vec(&request).expect("it is small")
}
