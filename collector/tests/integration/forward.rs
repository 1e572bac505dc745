//! Forwarding by remote write: to real engines that are killed and restarted, and to a receiver that rejects requests in
//! every way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::engine::{Engine, Kind, Samples};
use crate::common::process::Server;
use crate::common::{Collector, fetch, forward, now_ms, series, until};
use crate::native_histograms::histograms;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use fabriclens_config::{Forward, WriteMessage};
use fabriclens_core::prompb::{MetricMetadata, TimeSeries, WriteRequest};
use fabriclens_model::names::is_plain_metric;
use parking_lot::Mutex;
use prost::Message as _;

/// Ten series with one sample each, at `tick`.
fn tick(begin: i64, tick: i64) -> Vec<TimeSeries> {
    (0..10)
        .map(|i| {
            let host = format!("h{i}");
            series(&[("__name__", "fabric_x_total"), ("host", &host)], &[(begin + tick * 100, (tick * 10 + i) as f64)])
        })
        .collect()
}

/// These samples as a receiver returns them.
fn expected(begin: i64, ticks: i64) -> Samples {
    (0..10)
        .map(|i| {
            let key = format!(r#"{{"__name__":"fabric_x_total","host":"h{i}"}}"#);
            (key, (0..ticks).map(|t| (begin + t * 100, ((t * 10 + i) as f64).to_bits())).collect())
        })
        .collect()
}

async fn metric(collector: &Collector, name: &str) -> f64 {
    let (_, text) = collector.get("/metrics").await;
    let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name} is not in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn drained(collector: &Collector) {
    until("everything is sent", async || metric(collector, "fabriclens_forward_pending_samples").await == 0.0).await;
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn killed_prometheus_receives_every_sample() {
    let mut prometheus = Engine::start(Kind::Prometheus).await;
    let url = format!("{}/api/v1/write", prometheus.base);
    let collector = Collector::with(|c| c.forward = vec![forward(&url)]).await;
    let begin = now_ms() - 60_000;
    for t in 0..300 {
        // Its log holds every acknowledged sample, so it may be killed at any moment.
        match t {
            60 | 180 => prometheus.kill(),
            120 | 240 => prometheus.restart().await,
            _ => {}
        }
        assert_eq!(collector.remote_write(tick(begin, t)).await.0, 204, "who sends notices nothing");
    }
    drained(&collector).await;
    assert_eq!(prometheus.samples("fabric_x_total", begin, begin + 60_000).await, expected(begin, 300));
    assert!(metric(&collector, "fabriclens_forward_failed_total").await > 0.0, "it was away");
}

/// Fails unless VictoriaMetrics has each sample. It may have one twice: a request whose answer is lost when it stops is sent
/// again, and it keeps both copies.
async fn every(victoria: &Engine, begin: i64, ticks: i64) {
    let mut got = victoria.samples("fabric_x_total", begin, begin + 60_000).await;
    got.values_mut().for_each(Vec::dedup);
    assert_eq!(got, expected(begin, ticks));
}

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn victoria_metrics_receives_every_sample() {
    let mut victoria = Engine::start(Kind::Victoria).await;
    let url = format!("{}/api/v1/write", victoria.base);
    let collector = Collector::with(|c| {
        c.forward = vec![Forward { parallel: 3, ..forward(&url) }];
    })
    .await;
    let begin = now_ms() - 60_000;
    for t in 0..300 {
        match t {
            // It acknowledges before it writes, so it is stopped cleanly; it must keep all that it accepts.
            60 => victoria.end(),
            120 => victoria.restart().await,
            _ => {}
        }
        assert_eq!(collector.remote_write(tick(begin, t)).await.0, 204);
    }
    drained(&collector).await;
    every(&victoria, begin, 300).await;
    // Killed while idle, with a backlog on disk.
    victoria.end();
    assert_eq!(collector.remote_write(tick(begin, 300)).await.0, 204);
    victoria.restart().await;
    drained(&collector).await;
    every(&victoria, begin, 301).await;
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn killed_collector_forwards_after_restart() {
    let prometheus = Engine::start(Kind::Prometheus).await;
    let dir = tempfile::tempdir().unwrap();
    let (config, data) = (dir.path().join("c.toml"), dir.path().join("data"));
    let text = format!("[[forward]]\nname = 'far'\nurl = '{}/api/v1/write'\nbatch = 7\n", prometheus.base);
    std::fs::write(&config, text).unwrap();
    let (config, begin, mut acknowledged) = (config.to_str().unwrap(), now_ms() - 60_000, 0);
    for _ in 0..4 {
        let server = Server::start(&data, &["--config", config]);
        for _ in 0..37 {
            assert_eq!(server.write(&[(begin + acknowledged * 100, acknowledged as f64)]), 204);
            acknowledged += 1;
        }
        // While the sender is active.
        assert_eq!(server.end(9).0, None);
    }
    let server = Server::start(&data, &["--config", config]);
    let pending = "fabriclens_forward_pending_samples{queue=\"far\"} 0\n";
    until("everything is sent", async || fetch(&server.url, "/metrics").await.2.contains(pending)).await;
    let want = (0..acknowledged).map(|n| (begin + n * 100, (n as f64).to_bits())).collect();
    let got = prometheus.samples("durable", begin, begin + 60_000).await;
    assert_eq!(got, [(r#"{"__name__":"durable","host":"h"}"#.to_owned(), want)].into());
}

/// A receiver with scripted answers, then 204; keeps accepted samples.
#[derive(Clone, Default)]
struct Receiver {
    answers: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
    /// Rejects requests with a series of this host.
    refuses: Arc<Mutex<Option<String>>>,
    /// Rejects requests with a metric name of other characters than letters, digits, `_` and `:`.
    plain_names: Arc<Mutex<bool>>,
    taken: Arc<Mutex<Vec<(HeaderMap, WriteRequest)>>>,
}

impl Receiver {
    async fn start(&self) -> String {
        let this = self.clone();
        let handler = move |headers: HeaderMap, body: axum::body::Bytes| async move { this.take(headers, &body) };
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/push", socket.local_addr().unwrap());
        let router = axum::Router::new().route("/push", axum::routing::post(handler));
        tokio::spawn(async move { axum::serve(socket, router).await });
        url
    }

    fn take(&self, headers: HeaderMap, body: &[u8]) -> axum::response::Response {
        if let Some((status, after)) = self.answers.lock().pop_front() {
            let headers = if after.is_empty() { vec![] } else { vec![("retry-after", after)] };
            return (StatusCode::from_u16(status).unwrap(), axum::response::AppendHeaders(headers), "no")
                .into_response();
        }
        let request = WriteRequest::decode(&snap::raw::Decoder::new().decompress_vec(body).unwrap()[..]).unwrap();
        let refused = self.refuses.lock().clone();
        let plain_names = *self.plain_names.lock();
        let odd = |s: &TimeSeries| s.labels.iter().any(|l| l.name == "__name__" && !is_plain_metric(&l.value));
        let bad =
            |s: &TimeSeries| s.labels.iter().any(|l| Some(&l.value) == refused.as_ref()) || (plain_names && odd(s));
        if request.timeseries.iter().any(bad) {
            return (StatusCode::BAD_REQUEST, "that host again").into_response();
        }
        self.taken.lock().push((headers, request));
        StatusCode::NO_CONTENT.into_response()
    }

    /// Host, time and bits of accepted samples, in order of arrival.
    fn samples(&self) -> Vec<(String, i64, u64)> {
        let taken = self.taken.lock();
        let series = taken.iter().flat_map(|(_, r)| &r.timeseries);
        let host = |s: &TimeSeries| s.labels.iter().find(|l| l.name == "host").unwrap().value.clone();
        series.flat_map(|s| s.samples.iter().map(move |p| (host(s), p.timestamp, p.value.to_bits()))).collect()
    }
}

#[tokio::test]
async fn forwarding_retries_and_counts_rejections() {
    let receiver = Receiver::default();
    receiver.answers.lock().extend([(503, ""), (429, "1"), (500, ""), (401, ""), (404, "")]);
    let url = receiver.start().await;
    let collector = Collector::with(|c| c.forward = vec![forward(&url)]).await;
    let begin = now_ms() - 60_000;
    let sent = Instant::now();
    collector.remote_write(tick(begin, 0)).await;
    drained(&collector).await;
    assert!(sent.elapsed() >= Duration::from_secs(1), "Retry-After is honoured");
    assert_eq!(metric(&collector, "fabriclens_forward_failed_total").await, 5.0);
    assert_eq!(receiver.samples().len(), 10);

    // A series that is always rejected costs no other series a sample.
    *receiver.refuses.lock() = Some("h3".to_owned());
    collector.remote_write(tick(begin, 1)).await;
    collector.remote_write(tick(begin, 2)).await;
    drained(&collector).await;
    let got = receiver.samples();
    assert_eq!((got.len(), got.iter().filter(|s| s.0 == "h3").count()), (10 + 18, 1));
    let dropped = r#"fabriclens_forward_dropped_total{queue="far",reason="rejected"}"#;
    assert_eq!(metric(&collector, dropped).await, 2.0);
    assert_eq!(metric(&collector, "fabriclens_forward_samples_total").await, 28.0);
    let (headers, _) = receiver.taken.lock()[0].clone();
    let of = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(of("content-encoding"), "snappy");
    assert_eq!(of("x-prometheus-remote-write-version"), "0.1.0");
    assert_eq!(of("x-scope-orgid"), "fabric");
}

#[tokio::test]
async fn names_of_one_host_cost_another_no_sample() {
    let receiver = Receiver::default();
    *receiver.plain_names.lock() = true;
    // Until it answers, the requests become one, in which good and odd series alternate.
    receiver.answers.lock().push_back((503, "2"));
    let url = receiver.start().await;
    let target = Forward { batch: 10_000, ..forward(&url) };
    let collector = Collector::with(|c| c.forward = vec![target]).await;
    let begin = now_ms() - 60_000;
    let good = |n: i64| {
        let name = format!("fabric_x{n}_total");
        series(&[("__name__", &name), ("host", "good")], &[(begin, 1.0), (begin + 100, 2.0)])
    };
    let odd = |n: i64| {
        let name = format!("odd name {n}");
        series(&[("__name__", &name), ("host", "bad")], &[(begin, 1.0)])
    };
    assert_eq!(collector.remote_write(vec![good(3000)]).await.0, 204);
    for round in 0..100 {
        let mut sent: Vec<TimeSeries> = (round * 3..(round + 1) * 3).map(odd).collect();
        sent.extend((round * 30..(round + 1) * 30).map(good));
        assert_eq!(collector.remote_write(sent).await.0, 204);
    }
    drained(&collector).await;
    assert_eq!(receiver.samples().iter().filter(|s| s.0 == "good").count(), 6002);
}

#[tokio::test]
async fn selection_is_forwarded_in_order() {
    let receiver = Receiver::default();
    receiver.answers.lock().push_back((503, "1"));
    let url = receiver.start().await;
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "hunter2\n").unwrap();
    let collector = Collector::with(|c| {
        let mut one = forward(&url);
        one.select = vec![r#"{__name__=~"fabric_.*",host!="h9"}"#.to_owned(), "other".to_owned()];
        one.endpoint.username = Some("me".to_owned());
        one.endpoint.password_file = Some(secret.path().to_owned());
        c.forward = vec![one];
    })
    .await;
    let begin = now_ms() - 60_000;
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let one = |name: &str, host: &str, points: &[(i64, f64)]| series(&[("__name__", name), ("host", host)], points);
    let future = now_ms() + 3_600_000;
    // Out of order between requests, and outside the accepted time range.
    let meta =
        |name: &str| MetricMetadata { kind: 1, name: name.into(), help: "What it is.".into(), unit: String::new() };
    let metadata =
        WriteRequest { timeseries: vec![], metadata: vec![meta("fabric_a"), meta("node_b")] }.encode_to_vec();
    let metadata = snap::raw::Encoder::new().compress_vec(&metadata).unwrap();
    assert_eq!(collector.raw_write(metadata).await.0, 204);
    let requests = [
        vec![one("fabric_a", "h1", &[(begin + 20, 2.0)]), one("node_b", "h1", &[(begin + 20, 9.0)])],
        vec![one("fabric_a", "h1", &[(begin + 10, 1.0)]), one("fabric_a", "h9", &[(begin + 10, 9.0)])],
        vec![one("other", "h2", &[(begin, f64::INFINITY), (begin + 30, stale), (future, 5.0)])],
        vec![one("fabric_a", "h1", &[(begin + 10, 7.0), (begin + 40, 4.0)])],
    ];
    for (request, status) in requests.into_iter().zip([204, 204, 400, 400]) {
        assert_eq!(collector.remote_write(request).await.0, status);
    }
    drained(&collector).await;
    // Metadata of selected metrics is forwarded too.
    let told = || receiver.taken.lock().iter().flat_map(|(_, r)| r.metadata.clone()).collect::<Vec<_>>();
    until("metadata is told", async || !told().is_empty()).await;
    let kinds: Vec<_> = told().iter().map(|m| (m.name.clone(), m.kind_word(), m.help.clone())).collect();
    assert_eq!(kinds, [("fabric_a".to_owned(), "counter", "What it is.".to_owned())]);
    let mut got = receiver.samples();
    let h1: Vec<i64> = got.iter().filter(|s| s.0 == "h1").map(|s| s.1 - begin).collect();
    assert!(h1 == [10, 20, 40] || h1 == [20, 10, 40], "in order within a request: {h1:?}");
    got.sort();
    let want = |host: &str, at: i64, v: f64| (host.to_owned(), begin + at, v.to_bits());
    let all = [
        want("h1", 10, 1.0),
        want("h1", 20, 2.0),
        want("h1", 40, 4.0),
        want("h2", 0, f64::INFINITY),
        want("h2", 30, stale),
    ];
    assert_eq!(got, all);
    let (headers, _) = receiver.taken.lock()[0].clone();
    assert_eq!(headers.get("authorization").unwrap(), "Basic bWU6aHVudGVyMg==");
}

/// A target by remote write 2.0.
fn by_version_2(url: &str) -> Forward {
    Forward { message: WriteMessage::Version2, ..forward(url) }
}

#[tokio::test]
async fn version_2_carries_histograms_and_metadata() {
    let far = Collector::start().await;
    let url = format!("http://{}/api/v1/write", far.running.http);
    let near = Collector::with(|c| c.forward = vec![by_version_2(&url)]).await;
    let (name, help, unit) = ("latency_seconds".to_owned(), "Time of a request.".to_owned(), "seconds".to_owned());
    let metadata = vec![MetricMetadata { kind: 3, name, help, unit }];
    let body = WriteRequest { timeseries: histograms(now_ms()), metadata }.encode_to_vec();
    assert_eq!(near.raw_write(snap::raw::Encoder::new().compress_vec(&body).unwrap()).await.0, 204);
    drained(&near).await;
    let time = now_ms() / 1000;
    for query in ["sum(latency_seconds)", "sum(count_over_time(latency_seconds[1h]))", "max(requests_total)"] {
        let query = query.replace('[', "%5B").replace(']', "%5D");
        let path = format!("/api/v1/query?query={query}&time={time}");
        let [sent, got] = [near.json(&path).await.1, far.json(&path).await.1].map(|answer| answer["data"].clone());
        assert!(sent["result"][0].is_object() && sent == got, "{query}: {sent} {got}");
    }
    let (_, told) = far.json("/api/v1/metadata?metric=latency_seconds").await;
    let told = &told["data"]["latency_seconds"][0];
    assert_eq!(
        (&told["type"], &told["help"], &told["unit"]),
        (&"histogram".into(), &"Time of a request.".into(), &"seconds".into())
    );
}

#[tokio::test]
async fn receiver_of_version_1_costs_no_sample_of_version_2() {
    let receiver = Receiver::default();
    receiver.answers.lock().extend([(415, ""), (204, "")]);
    let url = receiver.start().await;
    let begin = now_ms() - 60_000;
    let collector = Collector::with(|c| c.forward = vec![by_version_2(&url)]).await;
    collector.remote_write(tick(begin, 0)).await;
    until("it has failed twice", async || metric(&collector, "fabriclens_forward_failed_total").await >= 2.0).await;
    assert_eq!(metric(&collector, "fabriclens_forward_pending_samples").await, 10.0);
    collector.running.stop().await;
    let collector = Collector::over(collector.dir, |c| c.forward = vec![forward(&url)]).await;
    drained(&collector).await;
    assert_eq!(receiver.samples().len(), 10, "they waited");
}
