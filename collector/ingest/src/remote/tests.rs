//! Tests of the remote-write decoder.

use super::*;
use fabriclens_core::prompb::{BucketSpan, Histogram, Label, Sample, TimeSeries, WriteRequest};

fn series(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> TimeSeries {
    TimeSeries {
        labels: labels.iter().map(|(n, v)| Label { name: (*n).into(), value: (*v).into() }).collect(),
        samples: samples.iter().map(|(t, v)| Sample { value: *v, timestamp: *t }).collect(),
        histograms: vec![],
    }
}

fn decode(d: &mut Decoder, timeseries: Vec<TimeSeries>) -> Rows {
    d.decode(&WriteRequest { timeseries, metadata: vec![] }.encode_to_vec()).unwrap()
}

#[test]
fn series_of_one_source_and_time_share_a_group() {
    let request = |t| {
        vec![
            series(&[("__name__", "a"), ("host", "h1")], &[(t, 1.0)]),
            series(&[("__name__", "b"), ("host", "h1")], &[(t, 2.0)]),
            series(&[("__name__", "a"), ("host", "h2")], &[(t, 3.0)]),
            series(&[("__name__", "c"), ("host", "h1")], &[(t, 4.0)]),
        ]
    };
    let mut d = Decoder::default();
    let first = decode(&mut d, request(1)).groups;
    assert_eq!(first.iter().map(|g| g.series.len()).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(first[0].values, [1.0, 2.0, 4.0]);
    let second = decode(&mut d, request(2)).groups;
    assert!(first.iter().zip(&second).all(|(a, b)| a.series.id() == b.series.id()));
}

/// Senders may encode a series in any order of fields; what begins like the expected one may be longer.
#[test]
fn series_are_told_apart_by_all_their_labels() {
    let message = |labels: &[(&str, &str)], value| series(labels, &[(1, value)]).encode_to_vec();
    let (a, b, job) = (("__name__", "a"), ("__name__", "b"), ("job", "x"));
    // Labels before and behind the sample.
    let split = |first, second| [message(&[first], 1.0), series(&[second], &[]).encode_to_vec()].concat();
    let request = |all: &[Vec<u8>]| {
        let mut body = Vec::new();
        for message in all {
            encode_key(1, WireType::LengthDelimited, &mut body);
            encode_varint(message.len() as u64, &mut body);
            body.extend(message);
        }
        body
    };
    let mut d = Decoder::default();
    let rounds: [&[Vec<u8>]; 6] = [
        &[message(&[a], 1.0), message(&[b], 2.0)],
        &[message(&[a], 1.0), message(&[b], 2.0)],
        &[message(&[a, job], 1.0), message(&[b], 2.0)],
        &[split(a, job), message(&[b, job], 2.0)],
        &[split(a, job), split(b, job)],
        &[message(&[b], 1.0), message(&[a], 2.0)],
    ];
    let names = |rows: Rows| -> Vec<String> {
        rows.groups.iter().flat_map(|group| group.series.iter().map(ToString::to_string)).collect()
    };
    let found: Vec<Vec<String>> = rounds.iter().map(|all| names(d.decode(&request(all)).unwrap())).collect();
    let (long_a, long_b) = ("a{job=\"x\"}", "b{job=\"x\"}");
    assert_eq!(found, [["a", "b"], ["a", "b"], [long_a, "b"], [long_a, long_b], [long_a, long_b], ["b", "a"]]);
    assert_eq!(d.series.len(), 4, "one entry for each series, however it is encoded");
}

#[test]
fn unordered_and_repeated_samples_are_merged() {
    let a = || [("__name__", "a")];
    let rows = decode(
        &mut Decoder::default(),
        vec![series(&a(), &[(2, 2.0), (1, 1.0), (2, 9.0), (1, 1.0)]), series(&a(), &[(1, 1.0), (2, 2.0)])],
    );
    assert_eq!(rows.groups.len(), 2, "a group contains a series at most once");
    assert_eq!((&rows.groups[0].times[..], &rows.groups[0].values[..]), (&[1, 2][..], &[1.0, 2.0][..]));
    assert_eq!(rows.report.rejected(), 1);
}

#[test]
fn unusable_series_are_rejected_alone() {
    let long = "x".repeat(5000);
    let mut histogram = series(&[("__name__", "h")], &[]);
    histogram.histograms.push(Histogram { schema: 9, ..Histogram::default() });
    let many: Vec<(String, String)> = (0..65).map(|i| (format!("l{i}"), "v".into())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let rows = decode(
        &mut Decoder::default(),
        vec![
            series(&[("job", "x")], &[(1, 1.0)]),
            series(&[("__name__", "a"), ("x", "1"), ("x", "2")], &[(1, 1.0)]),
            series(&[("__name__", "a"), ("l", &long)], &[(1, 1.0)]),
            series(&[("__name__", "a"), ("", "v")], &[(1, 1.0)]),
            series(&many, &[(1, 1.0)]),
            histogram,
            series(&[("__name__", "good")], &[(1, 1.0)]),
        ],
    );
    assert_eq!((rows.groups.len(), rows.report.rejected()), (1, 6));
    assert!(rows.report.message().contains("no metric name"), "{}", rows.report.message());
}

#[test]
fn refused_series_are_not_remembered() {
    let mut d = Decoder::default();
    let long = "x".repeat(5000);
    let request =
        || vec![series(&[("__name__", "a"), ("l", &long)], &[(1, 1.0)]), series(&[("__name__", "b")], &[(1, 1.0)])];
    for _ in 0..3 {
        assert_eq!(decode(&mut d, request()).report.rejected(), 1);
        assert!((d.series.len(), d.by_key.len()) == (1, 1) && d.bytes < 1000, "{}", d.bytes);
    }
    d.forget_idle();
    d.forget_idle();
    assert_eq!((d.series.len(), d.bytes), (0, 0));
}

#[test]
fn new_series_of_a_request_are_bounded_and_forgotten() {
    let budget = CacheBudget::new(200_000, 2);
    let mut d = Decoder::new(budget.clone());
    let request = |from: usize| (from..from + 1000).map(|n| series(&[("__name__", &format!("m{n}"))], &[(1, 1.0)]));
    let rows = decode(&mut d, request(0).collect());
    assert!(rows.report.message().contains("too many new series"), "{}", rows.report.message());
    assert!(rows.report.rejected() > 700 && budget.used() <= 100_000, "{} {}", rows.report.rejected(), budget.used());
    let known = d.series.len();
    let refused = decode(&mut d, request(5000).collect());
    assert!(d.series.len() > known);
    d.forget(refused.request);
    assert_eq!((d.series.len(), d.by_key.len()), (known, known));
    d.forget(rows.request);
    assert_eq!(budget.used(), 0);
}

#[test]
fn samples_and_metadata_of_a_request_are_bounded() {
    let empty_samples = [vec![0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, b'a'], vec![]].concat();
    assert!(Decoder::default().decode(&empty_samples).is_ok());
    let rows = Decoder::default().decode(&[0x1a, 0x00].repeat(METADATA + 10)).unwrap();
    assert_eq!(rows.metadata.len(), METADATA);
    let mut one = vec![0x0a, 0x0d];
    one.extend([0x0a, 0x08]);
    one.extend(b"__name__");
    one.extend([0x12, 0x01, b'm']);
    let samples = [0x12, 0x00].repeat(SAMPLES + 5);
    let mut body = vec![0x0a];
    let mut length = one.len() + samples.len();
    while length >= 0x80 {
        body.push(length as u8 | 0x80);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend([one, samples].concat());
    let rows = Decoder::default().decode(&body).unwrap();
    assert_eq!((rows.groups.len(), rows.report.rejected()), (1, 5), "{}", rows.report.message());
}

#[test]
fn staleness_markers_pass_and_damage_fails() {
    let rows = decode(&mut Decoder::default(), vec![series(&[("__name__", "a")], &[(1, fabriclens_model::stale())])]);
    assert!(fabriclens_model::is_stale(rows.groups[0].values[0]));
    let error = Decoder::default().decode(b"\x0a\xff\x01oops").err().unwrap().to_string();
    assert!(error.starts_with("malformed remote write request") && error.contains("WriteRequest"), "{error}");
}

#[test]
fn histograms_become_rows_of_their_components() {
    let message = |time, deltas: &[i64]| Histogram {
        count_int: Some(3),
        sum: 1.5,
        schema: 3,
        positive_spans: vec![BucketSpan { offset: 2, length: deltas.len() as u32 }],
        positive_deltas: deltas.to_vec(),
        timestamp: time,
        ..Histogram::default()
    };
    let mut d = Decoder::default();
    let request = |histograms: Vec<Histogram>, samples: &[(i64, f64)]| {
        let mut one = series(&[("__name__", "h"), ("host", "a")], samples);
        one.histograms = histograms;
        one
    };
    let many = message(4, &[0; 2000]);
    let bad = Histogram { positive_deltas: vec![-1, 0], ..message(5, &[1, 1]) };
    let rows = decode(
        &mut d,
        vec![
            request(vec![], &[(1, 1.0)]),
            request(vec![message(2, &[1, 1]), message(3, &[2, 1]), many, bad], &[]),
            request(vec![], &[(1, 2.0)]),
        ],
    );
    assert_eq!(rows.groups.iter().map(|g| g.series.len()).collect::<Vec<_>>()[..2], [1, 1], "{:?}", rows.groups);
    let histograms: Vec<_> = rows.groups[2..].iter().flat_map(fabriclens_model::histograms_in).collect();
    let counts = histograms.iter().map(|(labels, time, h)| (labels.metric(), *time, h.parts().positive.counts));
    assert_eq!(counts.collect::<Vec<_>>(), [("h", 2, vec![1.0, 2.0]), ("h", 3, vec![2.0, 3.0])]);
    assert_eq!(rows.groups[2].series.id(), rows.groups[3].series.id());
    let message = rows.report.message();
    assert!(
        rows.report.rejected() == 2 && message.contains("2000 buckets") && message.contains("negative"),
        "{message}"
    );
    let component = series(&[("__name__", "h"), (fabriclens_model::names::COMPONENT, "count")], &[(1, 1.0)]);
    let refused = decode(&mut d, vec![component]);
    assert!(refused.groups.is_empty() && refused.report.message().contains("reserved"), "{}", refused.report.message());
}
