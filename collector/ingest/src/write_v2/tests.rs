//! Tests of remote write 2.0: requests are encoded by messages of the specification.

use super::*;
use crate::remote::Decoder;
use fabriclens_core::prompb::{Histogram, Sample};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, repeated, tag = "4")]
    symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(uint32, repeated, tag = "1")]
    labels_refs: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    histograms: Vec<Histogram>,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Described>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Described {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(uint32, tag = "3")]
    help_ref: u32,
    #[prost(uint32, tag = "4")]
    unit_ref: u32,
}

const LIMIT: usize = 1 << 20;

fn request(symbols: &[&str], timeseries: Vec<TimeSeries>) -> Vec<u8> {
    Request { symbols: symbols.iter().map(|s| (*s).to_owned()).collect(), timeseries }.encode_to_vec()
}

fn series(labels_refs: &[u32], samples: &[(i64, f64)]) -> TimeSeries {
    let samples = samples.iter().map(|(timestamp, value)| Sample { value: *value, timestamp: *timestamp }).collect();
    TimeSeries { labels_refs: labels_refs.to_vec(), samples, ..TimeSeries::default() }
}

fn message(error: &IngestError) -> String {
    error.to_string()
}

#[test]
fn series_samples_histograms_and_metadata_are_those_of_version_1() {
    let symbols = ["", "__name__", "bytes_total", "host", "h1", "h2", "Bytes sent.", "bytes", "latency"];
    let described = Some(Described { kind: 1, help_ref: 6, unit_ref: 7 });
    let counter = |host: u32| TimeSeries { metadata: described, ..series(&[1, 2, 3, host], &[(1, 4.0), (2, 5.0)]) };
    let empty = Histogram { count_int: Some(0), timestamp: 3, ..Histogram::default() };
    let latency = TimeSeries { histograms: vec![empty.clone(), empty], ..series(&[1, 8], &[]) };
    let body = to_version_1(&request(&symbols, vec![counter(4), counter(5), latency]), LIMIT).unwrap();
    let rows = Decoder::default().decode(&body).unwrap();
    assert_eq!(rows.report.rejected(), 0, "{}", rows.report.message());
    let [h1, h2, histograms @ ..] = &rows.groups[..] else { panic!("{:?}", rows.groups) };
    assert_eq!((&h1.times[..], &h1.values[..], h2.times.len()), (&[1, 2][..], &[4.0, 5.0][..], 2));
    assert_eq!((h1.series[0].metric(), h1.series[0].get("host")), ("bytes_total", "h1"));
    assert_eq!(histograms.iter().map(fabriclens_model::samples_in).sum::<u64>(), 2);
    let [meta] = &rows.metadata[..] else { panic!("once for each metric: {}", rows.metadata.len()) };
    assert_eq!((&*meta.name, meta.kind, &*meta.unit, &*meta.help), ("bytes_total", "counter", "bytes", "Bytes sent."));
}

#[test]
fn references_that_lead_nowhere_refuse_the_request() {
    let one = |refs: &[u32]| to_version_1(&request(&["", "__name__", "m"], vec![series(refs, &[(1, 1.0)])]), LIMIT);
    assert!(one(&[1, 2]).is_ok());
    assert!(message(&one(&[1, 3]).unwrap_err()).contains("names symbol 3 of a table of 3"));
    assert!(message(&one(&[1, 2, 1]).unwrap_err()).contains("a label without a value"));
    assert!(message(&to_version_1(&[0xff, 1], LIMIT).unwrap_err()).contains("remote write 2.0"));
}

#[test]
fn texts_and_labels_beyond_what_is_admitted_refuse_their_series_alone() {
    let long = "x".repeat(1 << 20);
    let many: Vec<u32> = [1, 2].into_iter().chain((0..10_000).flat_map(|_| [3, 2])).collect();
    let all = vec![series(&[1, 2, 3, 4], &[(1, 1.0)]), series(&many, &[(1, 1.0)]), series(&[1, 2], &[(1, 1.0)])];
    let body = to_version_1(&request(&["", "__name__", "m", "l", &long], all), LIMIT).unwrap();
    assert!(body.len() < 10_000, "{} bytes", body.len());
    let rows = Decoder::default().decode(&body).unwrap();
    assert_eq!((rows.groups.len(), rows.report.rejected()), (1, 2));
}

#[test]
fn a_short_request_cannot_become_a_long_one() {
    let text = "x".repeat(VALUE_BYTES);
    let all = (0..100_000).map(|_| series(&[1, 2, 3, 3], &[(1, 1.0)])).collect();
    let error = to_version_1(&request(&["", "__name__", "m", &text], all), LIMIT).unwrap_err();
    assert!(matches!(error, IngestError::Body(BodyError::TooLarge { limit: LIMIT, .. })), "{error}");
    let symbols = vec![""; SYMBOLS + 1];
    assert!(message(&to_version_1(&request(&symbols, vec![]), LIMIT).unwrap_err()).contains("symbols"));
}
