//! Encodes remote write 1.0 requests by hand: the labels of a series are encoded once and then copied.

use fabriclens_model::Labels;
use fabriclens_store::codec::varint::{put, size};

/// A sample of a numbered series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Index of the series in the request.
    pub series: u32,
    /// Unix ms.
    pub time: i64,
    /// Value of the sample.
    pub value: f64,
    /// Index of the histogram that it is instead of a value.
    pub histogram: Option<u32>,
}

/// Encodes the labels of a `TimeSeries`, each with tag and length, sorted by name as the protocol requires.
pub fn labels(labels: &Labels) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in labels.iter() {
        let field = |text: &str| 1 + size(text.len() as u64) + text.len();
        out.push(0x0a);
        put(&mut out, (field(name) + field(value)) as u64);
        for (tag, text) in [(0x0a, name), (0x12, value)] {
            out.push(tag);
            put(&mut out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Encodes points that are sorted by series as a `WriteRequest`, uncompressed; `histograms` are encoded messages.
pub fn encode<L: AsRef<[u8]>>(points: &[Point], series: &[L], histograms: &[Vec<u8>]) -> Vec<u8> {
    let message = |p: &Point| p.histogram.and_then(|index| histograms.get(index as usize));
    let mut out = Vec::new();
    for of_one in points.chunk_by(|a, b| a.series == b.series) {
        let labels = series[of_one[0].series as usize].as_ref();
        let size_of = |p: &Point| match message(p) {
            None => 2 + sample_size(p),
            Some(histogram) => 1 + size(histogram.len() as u64) + histogram.len(),
        };
        let samples: usize = of_one.iter().map(size_of).sum();
        out.push(0x0a);
        put(&mut out, (labels.len() + samples) as u64);
        out.extend_from_slice(labels);
        for p in of_one {
            if let Some(histogram) = message(p) {
                out.push(0x22);
                put(&mut out, histogram.len() as u64);
                out.extend_from_slice(histogram);
                continue;
            }
            out.push(0x12);
            put(&mut out, sample_size(p) as u64);
            out.push(0x09);
            out.extend(p.value.to_le_bytes());
            out.push(0x10);
            put(&mut out, p.time.cast_unsigned());
        }
    }
    out
}

/// Length of a sample; at most 20, so its own length is one byte.
fn sample_size(p: &Point) -> usize {
    10 + size(p.time.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_core::prompb::{Histogram, WriteRequest};
    use prost::Message as _;

    #[test]
    fn requests_round_trip() {
        let long = "x".repeat(300);
        let sets = [Labels::new([("__name__", "a"), ("host", &long)]), Labels::new([("__name__", "b")])];
        let encoded: Vec<Vec<u8>> = sets.iter().map(labels).collect();
        let point = |series, time, value| Point { series, time, value, histogram: None };
        let points = [point(0, -5, 1.5), point(0, 1_700_000_000_000, 0.0), point(1, 0, fabriclens_model::stale())];
        let histogram = Histogram { sum: 1.5, timestamp: 7, positive_counts: vec![1.0; 40], ..Histogram::default() };
        let with_histogram = [&points[..], &[Point { histogram: Some(0), ..point(1, 7, 0.0) }]].concat();
        let request = encode(&with_histogram, &encoded, &[histogram.encode_to_vec()]);
        let read = WriteRequest::decode(&request[..]).unwrap();
        assert_eq!(read.timeseries.len(), 2);
        assert_eq!(read.timeseries[1].histograms, [histogram]);
        for (got, want) in read.timeseries.iter().zip(&sets) {
            let pairs = got.labels.iter().map(|l| (l.name.as_str(), l.value.as_str()));
            assert!(pairs.eq(want.iter()));
        }
        let got: Vec<(i64, u64)> =
            read.timeseries.iter().flat_map(|s| &s.samples).map(|s| (s.timestamp, s.value.to_bits())).collect();
        assert_eq!(got, points.map(|p| (p.time, p.value.to_bits())));
    }
}
