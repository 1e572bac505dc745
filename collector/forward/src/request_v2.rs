//! Encodes remote write 2.0 requests: texts are named once, and series say type, unit and help of their metric.

use std::collections::HashMap;

use fabriclens_core::prompb::{MetricMetadata, Sample, TimeSeries as Labelled};
use fabriclens_core::prompb_v2::{Metadata, Request, TimeSeries};
use prost::Message as _;

use super::request::Point;

/// Type, unit and help by metric.
pub(super) type ByMetric = HashMap<String, MetricMetadata>;

/// Encodes points that are sorted by series, uncompressed; `series` are encoded labels, `histograms` encoded messages.
pub(super) fn encode<L: AsRef<[u8]>>(
    points: &[Point],
    series: &[L],
    histograms: &[Vec<u8>],
    metadata: &ByMetric,
) -> Vec<u8> {
    let mut symbols = Symbols::new();
    let of = |of_one: &[Point]| {
        // Encoded labels are a series without samples.
        let labels = Labelled::decode(series[of_one[0].series as usize].as_ref()).unwrap_or_default().labels;
        let metric = labels.iter().find(|label| label.name == "__name__").map(|label| label.value.as_str());
        let metadata = metric.and_then(|metric| metadata.get(metric)).map(|m| Metadata {
            kind: m.kind,
            help_reference: symbols.place(&m.help),
            unit_reference: symbols.place(&m.unit),
        });
        let mut one = TimeSeries { metadata, ..TimeSeries::default() };
        one.label_references = labels.iter().flat_map(|l| [symbols.place(&l.name), symbols.place(&l.value)]).collect();
        for point in of_one {
            match point.histogram.and_then(|index| histograms.get(index as usize)) {
                Some(histogram) => one.histograms.push(histogram.clone()),
                None => one.samples.push(Sample { value: point.value, timestamp: point.time }),
            }
        }
        one
    };
    let timeseries = points.chunk_by(|a, b| a.series == b.series).map(of).collect();
    Request { timeseries, symbols: symbols.texts }.encode_to_vec()
}

/// The table of texts.
struct Symbols {
    places: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Symbols {
    fn new() -> Self {
        Self { places: HashMap::from([(String::new(), 0)]), texts: vec![String::new()] }
    }

    /// Place of a text, which is added if it is new.
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.texts.len() as u32;
        self.places.insert(text.to_owned(), place);
        self.texts.push(text.to_owned());
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request;
    use fabriclens_model::Labels;

    #[test]
    fn texts_are_written_once() {
        let sets =
            [Labels::new([("__name__", "a_total"), ("host", "h")]), Labels::new([("__name__", "b"), ("x", "h")])];
        let encoded: Vec<Vec<u8>> = sets.iter().map(request::labels).collect();
        let point = |series, time, histogram| Point { series, time, value: 1.5, histogram };
        let points = [point(0, 5, None), point(0, 7, Some(0)), point(1, -9, None)];
        let meta = MetricMetadata { kind: 1, name: "a_total".into(), help: "h".into(), unit: String::new() };
        let metadata = ByMetric::from([(meta.name.clone(), meta)]);
        let read = Request::decode(&encode(&points, &encoded, &[b"a histogram".to_vec()], &metadata)[..]).unwrap();
        assert_eq!(read.symbols, ["", "h", "__name__", "a_total", "host", "b", "x"]);
        let [a, b] = &read.timeseries[..] else { panic!("{read:?}") };
        assert_eq!((&a.label_references[..], &b.label_references[..]), (&[2, 3, 4, 1][..], &[2, 5, 6, 1][..]));
        assert_eq!(a.metadata, Some(Metadata { kind: 1, help_reference: 1, unit_reference: 0 }));
        assert_eq!((a.samples.len(), &a.histograms[..], b.metadata), (1, &[b"a histogram".to_vec()][..], None));
        assert_eq!(b.samples, [Sample { value: 1.5, timestamp: -9 }]);
    }
}
