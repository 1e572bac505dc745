//! Harness of the collector's tests: a collector in this process on free ports, senders, and an HTTP client.
#![allow(clippy::unwrap_used, reason = "a test says no more by failing politely")]
#![allow(dead_code, reason = "each test file uses its own part of the harness")]

pub mod engine;
pub mod process;
pub mod unary;

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabriclens::serve::{self, Running};
use fabriclens_config::{Config, Endpoint, Forward, WriteMessage};
use fabriclens_core::prompb::{Label, Sample, TimeSeries, WriteRequest};
use fabriclens_correlate::{Evidence, IncidentKind};
use fabriclens_correlate::{Incident, Location, Severity};
use fabriclens_testing::eventually_async;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use serde_json::Value;
use tonic::transport::Channel;

/// A collector on free ports over a directory of its own.
pub struct Collector {
    pub running: Running,
    pub dir: tempfile::TempDir,
}

impl Collector {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::over(tempfile::tempdir().unwrap(), change).await
    }

    /// Over the directory of one that has stopped.
    pub async fn over(dir: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { data: dir.path().join("data"), ..Config::default() };
        config.listen.http.set_port(0);
        config.listen.otlp_grpc.set_port(0);
        config.listen.otlp_http.set_port(0);
        config.self_metrics_interval = Duration::ZERO;
        change(&mut config);
        Self { running: serve::start(config).await.unwrap(), dir }
    }

    pub async fn grpc(&self) -> MetricsServiceClient<Channel> {
        MetricsServiceClient::connect(format!("http://{}", self.running.otlp_grpc)).await.unwrap()
    }

    /// Status and body of a GET on the main address.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.running.http);
        call(move |agent| agent.get(&url).call()).await
    }

    /// The same, as JSON.
    pub async fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.get(path).await;
        (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}")))
    }

    /// POST of a form.
    pub async fn form(&self, path: &str, form: &[(&str, &str)]) -> (u16, Value) {
        let url = format!("http://{}{path}", self.running.http);
        let form: Vec<(String, String)> = form.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let (status, body) =
            call(move |agent| agent.post(&url).send_form(form.iter().map(|(k, v)| (k.as_str(), v.as_str())))).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Value of the only series of an instant query, if there is exactly one.
    pub async fn value(&self, query: &str) -> Option<f64> {
        let (status, answer) = self.form("/api/v1/query", &[("query", query)]).await;
        assert_eq!(status, 200, "{query}: {answer}");
        match answer["data"]["result"].as_array().unwrap().as_slice() {
            [one] => Some(one["value"][1].as_str().unwrap().parse().unwrap()),
            _ => None,
        }
    }

    /// Status and text of a remote write, compressed as it should be.
    pub async fn remote_write(&self, timeseries: Vec<TimeSeries>) -> (u16, String) {
        remote_write(&format!("http://{}/api/v1/write", self.running.http), timeseries).await
    }

    /// As another collector forwards them, which may have names that only collectors write.
    pub async fn forwarded_write(&self, timeseries: Vec<TimeSeries>) -> (u16, String) {
        let plain = WriteRequest { timeseries, metadata: vec![] }.encode_to_vec();
        let body = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        let headers = [("content-encoding", "snappy"), ("x-fabriclens-forward", "1")];
        post(format!("http://{}/api/v1/write", self.running.http), &headers, body).await
    }

    pub async fn raw_write(&self, body: Vec<u8>) -> (u16, String) {
        raw_write(&format!("http://{}/api/v1/write", self.running.http), body).await
    }

    /// OTLP over HTTP.
    pub async fn otlp_http(&self, headers: &[(&'static str, &'static str)], body: Vec<u8>) -> (u16, String) {
        post(format!("http://{}/v1/metrics", self.running.otlp_http), headers, body).await
    }
}

/// The same to any server.
pub async fn remote_write(url: &str, timeseries: Vec<TimeSeries>) -> (u16, String) {
    let body = WriteRequest { timeseries, metadata: vec![] }.encode_to_vec();
    raw_write(url, snap::raw::Encoder::new().compress_vec(&body).unwrap()).await
}

async fn raw_write(url: &str, body: Vec<u8>) -> (u16, String) {
    let headers = [("content-encoding", "snappy"), ("content-type", "application/x-protobuf")];
    post(url.to_owned(), &headers, body).await
}

/// Status, content type and body of a GET from any server.
pub async fn fetch(base: &str, path: &str) -> (u16, String, String) {
    let url = format!("{base}{path}");
    answer(move |agent| agent.get(&url).call()).await
}

/// Waits up to a minute until a condition holds; `what` names it.
pub async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_async(what, Duration::from_secs(60), holds).await;
}

pub async fn post(url: String, headers: &[(&'static str, &'static str)], body: Vec<u8>) -> (u16, String) {
    let headers = headers.to_vec();
    call(move |agent| {
        let mut request = agent.post(&url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send(&body[..])
    })
    .await
}

async fn call(
    send: impl FnOnce(&ureq::Agent) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> + Send + 'static,
) -> (u16, String) {
    let (status, _, body) = answer(send).await;
    (status, body)
}

/// Status, content type and body.
async fn answer(
    send: impl FnOnce(&ureq::Agent) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> + Send + 'static,
) -> (u16, String, String) {
    let job = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut response = send(&agent).unwrap();
        let kind = response.headers().get("content-type").map_or("", |v| v.to_str().unwrap()).to_owned();
        let body = response.body_mut().read_to_vec().unwrap();
        (response.status().as_u16(), kind, String::from_utf8_lossy(&body).into_owned())
    });
    job.await.unwrap()
}

pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

pub fn now_ms() -> i64 {
    (now_ns() / 1_000_000) as i64
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// One counter of one host: points of (start, time, value).
pub fn otlp(host: &str, metric: &str, points: &[(u64, u64, i64)]) -> ExportMetricsServiceRequest {
    let data_points = points
        .iter()
        .map(|(start, time, value)| NumberDataPoint {
            start_time_unix_nano: *start,
            time_unix_nano: *time,
            value: Some(number_data_point::Value::AsInt(*value)),
            ..NumberDataPoint::default()
        })
        .collect();
    let sum = Sum { data_points, aggregation_temporality: 2, is_monotonic: true };
    let metric = Metric {
        name: metric.to_owned(),
        description: "for a test".to_owned(),
        data: Some(metric::Data::Sum(sum)),
        ..Metric::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: vec![text("host", host), text("device", "mlx5_0"), text("port", "1")],
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

/// Another collector, as a peer.
pub fn peer(address: SocketAddr) -> Endpoint {
    Endpoint { headers: [].into(), ..forward(&format!("http://{address}")).endpoint }
}

/// A target of everything, named `far`, in small requests.
pub fn forward(url: &str) -> Forward {
    let endpoint = Endpoint {
        url: url.to_owned(),
        username: None,
        password_file: None,
        bearer_token_file: None,
        ca: None,
        headers: [("X-Scope-OrgID".to_owned(), "fabric".to_owned())].into(),
        timeout: Duration::from_secs(5),
    };
    Forward {
        name: "far".to_owned(),
        endpoint,
        select: vec![],
        size: 64 << 20,
        age: Duration::from_secs(3600),
        batch: 50,
        parallel: 1,
        message: WriteMessage::default(),
    }
}

pub fn series(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> TimeSeries {
    TimeSeries {
        labels: labels.iter().map(|(n, v)| Label { name: (*n).into(), value: (*v).into() }).collect(),
        samples: samples.iter().map(|(t, v)| Sample { value: *v, timestamp: *t }).collect(),
        histograms: vec![],
    }
}

/// A storm that goes on, as detectors tell it.
pub fn incident(id: &str, start_ns: i64) -> Incident {
    Incident {
        id: id.to_owned(),
        kind: IncidentKind::PfcStorm,
        start_ns,
        detected_ns: start_ns + 1_000_000_000,
        end_ns: None,
        merged_into: None,
        split_from: None,
        severity: Severity::Critical,
        confidence: 0.93,
        root: Location::Port { node: "h3".to_owned(), port: "1".to_owned() },
        priorities: Default::default(),
        culprit_jobs: vec![],
        victim_jobs: vec!["4711".to_owned()],
        low_before: Default::default(),
        victim_ports: vec![],
        senders: vec![],
        path: None,
        considered: vec![],
        evidence: vec![Evidence {
            metric: "fabric_pfc_pause_seconds_total".to_owned(),
            at: "h3 port 1".to_owned(),
            value: 0.97,
            threshold: 0.01,
            window_ns: [start_ns, start_ns + 1_000_000_000],
        }],
        explanation: "h3 port 1 pauses its switch 97 % of the time.".to_owned(),
        action: "Reset its NIC.".to_owned(),
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}
