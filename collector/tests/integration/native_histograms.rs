//! Native histograms against a real Prometheus: the same answers, wherever a collector has them from.

use crate::common;
use crate::common::engine::{Engine, Kind};
use crate::common::{Collector, fetch, now_ms, series};
use crate::prometheus::shown;
use fabriclens_config::{Config, Endpoint, Remote};
use fabriclens_core::prompb::{BucketSpan, Histogram, TimeSeries, WriteRequest};
use fabriclens_promql::Version;
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of observations after `n` steps, in schema 0: zero bucket, up to 1, 2, 4, and -1.
fn histogram(n: i64, timestamp: i64) -> Histogram {
    let counts = [500 + 5 * n, 300 + 3 * n, 190 + 2 * n];
    let (negative, zero) = (7 + n, 3 + n);
    Histogram {
        count_int: u64::try_from(counts.iter().sum::<i64>() + negative + zero).ok(),
        sum: 1250.5 + 20.25 * n as f64,
        zero_threshold: 0.001,
        zero_count_int: u64::try_from(zero).ok(),
        negative_spans: vec![BucketSpan { offset: 0, length: 1 }],
        negative_deltas: vec![negative],
        positive_spans: vec![BucketSpan { offset: 0, length: 2 }, BucketSpan { offset: 3, length: 1 }],
        positive_deltas: vec![counts[0], counts[1] - counts[0], counts[2] - counts[1]],
        timestamp,
        ..Histogram::default()
    }
}

/// Ten minutes of the histograms of two hosts, of which the second begins anew after half of the time, and a counter of floats.
pub(super) fn histograms(end: i64) -> Vec<TimeSeries> {
    let at = |k: i64| end - 10_000 * (60 - k);
    let of = |host: &str, steps: &dyn Fn(i64) -> i64| TimeSeries {
        histograms: (0..60).map(|k| histogram(steps(k), at(k))).collect(),
        ..series(&[("__name__", "latency_seconds"), ("host", host)], &[])
    };
    let floats: Vec<(i64, f64)> = (0..60).map(|k| (at(k), k as f64)).collect();
    vec![
        of("a", &|k| 2 * k),
        of("b", &|k| if k < 30 { 100 + k } else { k - 30 }),
        series(&[("__name__", "requests_total"), ("host", "a")], &floats),
    ]
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn answers_match_prometheus_wherever_the_histograms_are() {
    let [sent, forwarded] = [Engine::start(Kind::Prometheus).await, Engine::start(Kind::Prometheus).await];
    let to = common::forward(&format!("{}/api/v1/write", forwarded.base));
    let ours = Collector::with(|config| {
        config.query.promql = Version::V2;
        config.forward = vec![to];
    })
    .await;
    let v2 = |config: &mut Config| config.query.promql = Version::V2;
    let beside = Collector::with(|config| {
        v2(config);
        config.peers = vec![common::peer(ours.running.http)];
    })
    .await;
    let imported = Collector::with(v2).await;
    let end = now_ms() / 1000 * 1000;
    let (status, why) = ours.remote_write(histograms(end)).await;
    assert_eq!(status, 204, "{why}");
    assert_eq!(common::remote_write(&format!("{}/api/v1/write", sent.base), histograms(end)).await.0, 204);
    let (now, ago) = (end / 1000, end / 1000 - 600);
    let (_, lines) = ours.get("/api/v1/export?match[]=%7Bhost=~%22.%2B%22%7D&histograms=true").await;
    assert_eq!(lines.lines().count(), 3, "{lines}");
    let import = format!("http://{}/api/v1/import", imported.running.http);
    assert_eq!(common::post(import, &[], lines.into_bytes()).await, (204, String::new()));
    let (_, floats) = ours.get("/api/v1/export?match[]=%7Bhost=~%22.%2B%22%7D").await;
    assert_eq!(floats.lines().count(), 1, "other programs do not read lines of histograms: {floats}");
    let mut paths: Vec<String> = [
        "latency_seconds",
        "sum(latency_seconds)",
        "rate(latency_seconds[2m])",
        "sum by (host) (increase(latency_seconds[9m]))",
        "histogram_count(rate(latency_seconds[5m]))",
        "histogram_sum(sum(rate(latency_seconds[5m])))",
        "histogram_quantile(1,sum(rate(latency_seconds[5m])))",
        "count(latency_seconds)",
        "latency_seconds{host=~\"b|c\"}",
        "count({host=\"a\"})",
        "latency_seconds[25s]",
    ]
    .iter()
    .map(|query| format!("/api/v1/query?query={query}&time={now}"))
    .collect();
    paths.push(format!("/api/v1/query_range?query=rate(latency_seconds[2m])&start={ago}&end={now}&step=45"));
    paths.push(format!("/api/v1/series?match[]={{host=~\".%2B\"}}&start={ago}&end={now}"));
    paths.push(format!("/api/v1/labels?start={ago}&end={now}&match[]=latency_seconds"));
    paths.push(format!("/api/v1/label/__name__/values?start={ago}&end={now}&match[]={{host=\"b\"}}"));
    let encode = |path: &String| {
        let escaped =
            [('[', "%5B"), (']', "%5D"), ('{', "%7B"), ('}', "%7D"), ('"', "%22"), (' ', "%20"), ('|', "%7C")];
        escaped.iter().fold(path.clone(), |path, (plain, escape)| path.replace(*plain, escape))
    };
    common::until("the histograms are forwarded", async || {
        let count = fetch(&forwarded.base, &format!("/api/v1/query?query=count(latency_seconds)&time={now}")).await.2;
        count.contains("\"2\"")
    })
    .await;
    let here = |collector: &Collector| format!("http://{}", collector.running.http);
    let places = [
        ("stored", here(&ours)),
        ("forwarded to Prometheus", forwarded.base.clone()),
        ("at a peer", here(&beside)),
        ("imported", here(&imported)),
    ];
    for path in paths.iter().map(encode) {
        let want = fetch(&sent.base, &path).await;
        assert!(want.0 == 200 && !want.2.contains("[]"), "{path}: {want:?}");
        for (place, base) in &places {
            let got = fetch(base, &path).await;
            assert_eq!(shown(&got), shown(&want), "{path}, {place}");
        }
    }
}

/// Debian's Prometheus does not return histograms by remote read; later versions and Mimir do, in this way.
#[tokio::test]
async fn histograms_of_a_remote_engine_are_read_with_its_floats() {
    let end = now_ms();
    // A `prometheus.QueryResult` is encoded as a request of these series, and the answer is a list of such results.
    let result = WriteRequest { timeseries: histograms(end), metadata: vec![] };
    let answer = [vec![10], result.encode_length_delimited_to_vec()].concat();
    let packed = snap::raw::Encoder::new().compress_vec(&answer).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let handler = move |body: axum::body::Bytes| {
        let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        // The collector has questions of its own.
        if String::from_utf8_lossy(&plain).contains("latency_seconds") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        std::future::ready(packed.clone())
    };
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", socket.local_addr().unwrap());
    let router = axum::Router::new().route("/api/v1/read", axum::routing::post(handler));
    tokio::spawn(async move { axum::serve(socket, router).await });
    let write = common::forward(&format!("{base}/api/v1/write"));
    let read = Endpoint { url: base, ..write.endpoint.clone() };
    let collector = Collector::with(|config| config.store = Some(Remote { read, write })).await;
    let count = async |query: &str| collector.value(&format!("count({query})")).await;
    let all = "{__name__=~\"latency_seconds|requests_total\"}";
    assert_eq!(count(all).await, Some(3.0));
    assert_eq!(calls.load(Ordering::SeqCst), 1, "one request gives both");
    assert_eq!(count(&format!("histogram_count({all})")).await, Some(2.0));
}
