//! Tests of the remote-write decoder.

use super::*;
use fabriclens_core::prompb::{Label, OpaqueMessage, Sample, TimeSeries, WriteRequest};

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
    histogram.histograms.push(OpaqueMessage {});
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
