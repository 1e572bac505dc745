//! What senders and clients may send: metrics, compressed bodies, certificates.

use crate::paths::host_fixtures;
use fabriclens_agent::schedule;
use fabriclens_agent_host::roots::Roots;
use fabriclens_core::prompb::{Label, MetricMetadata, Sample, TimeSeries, WriteRequest};
use prost::Message as _;
use std::io::Write as _;
use std::sync::Arc;

/// Samples of recorded hosts.
pub(crate) fn otlp() -> Vec<Vec<u8>> {
    let sample = |name: &str| {
        let settings = schedule::Settings { host: name.into(), ..schedule::Settings::default() };
        schedule::once(Arc::new(Roots::new(Some(host_fixtures().join(name)))), &settings).0
    };
    ["mlx5-roce", "rxe", "slurm", "mana"]
        .iter()
        .map(|name| fabriclens_wire::encode::request_bytes(&sample(name)))
        .collect()
}

pub(crate) fn otlp_json() -> Vec<Vec<u8>> {
    let point = r#"{"startTimeUnixNano":"1","timeUnixNano":"2000000000","asDouble":1.5,"attributes":[{"key":"port","value":{"stringValue":"1"}}]}"#;
    let sum = format!(
        r#"{{"dataPoints":[{point},{{"timeUnixNano":"7","asInt":"3"}}],"aggregationTemporality":2,"isMonotonic":true}}"#
    );
    let buckets = r#"{"timeUnixNano":"9","count":"3","sum":4.5,"bucketCounts":["1","2"],"explicitBounds":[0.5]}"#;
    let metrics = format!(
        r#"{{"name":"fabric.a","unit":"By","sum":{sum}}},{{"name":"b","gauge":{{"dataPoints":[{point}]}}}},{{"name":"c","histogram":{{"dataPoints":[{buckets}],"aggregationTemporality":2}}}}"#
    );
    let resource = r#"{"attributes":[{"key":"host.name","value":{"stringValue":"h1"}}]}"#;
    vec![
        format!(r#"{{"resourceMetrics":[{{"resource":{resource},"scopeMetrics":[{{"metrics":[{metrics}]}}]}}]}}"#)
            .into_bytes(),
    ]
}

pub(crate) fn remote_write() -> Vec<Vec<u8>> {
    let label = |(name, value): (&str, &str)| Label { name: name.into(), value: value.into() };
    let series = |name: &str| TimeSeries {
        labels: [("__name__", name), ("host", "h1"), ("device", "mlx5_0")].map(label).into(),
        samples: (0..4).map(|t| Sample { value: t as f64, timestamp: t * 1000 }).collect(),
        histograms: Vec::new(),
    };
    let kind = MetricMetadata::kind_number("counter");
    let metadata = vec![MetricMetadata { kind, name: "a".into(), ..MetricMetadata::default() }];
    let plain = WriteRequest { timeseries: ["a", "b_total"].map(series).into(), metadata }.encode_to_vec();
    let packed = snap::raw::Encoder::new().compress_vec(&plain).expect("bytes can be compressed");
    vec![plain, packed]
}

pub(crate) fn gzip() -> Vec<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(&[7; 5000]).expect("memory takes bytes");
    vec![out.finish().expect("memory takes bytes")]
}

pub(crate) fn zstd() -> Vec<Vec<u8>> {
    let level = |level| zstd::bulk::compress(&[[7; 5000], [9; 5000]].concat(), level).expect("memory takes bytes");
    let two = [level(1), level(3)].concat();
    vec![level(1), level(19), two, zstd::stream::encode_all(&[3; 70_000][..], 1).expect("memory takes bytes")]
}

/// Certificates with names of every supported kind, and one without names.
pub(crate) fn certificates() -> Vec<Vec<u8>> {
    let ia5 = |text: &str| rcgen::string::Ia5String::try_from(text).expect("ASCII");
    let uri = rcgen::SanType::URI(ia5("spiffe://example.org/host/gpu-01"));
    let dns = ["gpu-01.example", "*.example"].map(|name| rcgen::SanType::DnsName(ia5(name)));
    let address = rcgen::SanType::IpAddress([10, 0, 0, 1].into());
    let names = [vec![], vec![uri.clone()], dns.to_vec(), [vec![uri, address], dns.to_vec()].concat()];
    let certificate = |subject_alt_names| {
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names = subject_alt_names;
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    };
    names.map(certificate).into()
}
