//! A collector on a remote engine answers like one with its own store, and loses no sample while the engine is down.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::engine::{Engine, Kind};
use crate::common::{Collector, fetch, now_ms, series};
use fabriclens_core::prompb::TimeSeries;
use fabriclens_promql::Version;
use serde_json::Value;

const STALE: u64 = 0x7ff0_0000_0000_0002;

/// Ten minutes of counters with a reset, a series that has ended, one that is old, and odd labels. Whole numbers:
/// VictoriaMetrics keeps decimals, rounded.
fn samples(end: i64) -> Vec<TimeSeries> {
    let ago = |s: i64| end - s * 1000;
    let counter = |i: i64, job: &str| {
        let points: Vec<(i64, f64)> = (0..60).map(|k| (ago(600 - 10 * k), ((k % 40) * i) as f64)).collect();
        series(&[("__name__", "m_total"), ("i", &i.to_string()), ("job", job)], &points)
    };
    let mut all = vec![counter(0, "x"), counter(1, "a\"b\\c\nd"), counter(2, "é")];
    all.push(series(&[("__name__", "old")], &[(ago(400), 1.0)]));
    all.push(series(&[("__name__", "ended")], &[(ago(20), 1.0), (ago(10), f64::from_bits(STALE))]));
    all.push(series(&[("__name__", "inf")], &[(ago(9), f64::INFINITY), (ago(5), f64::NEG_INFINITY)]));
    all.extend((0..5).map(|i| {
        let le = if i == 4 { "+Inf".to_owned() } else { format!("{}", 1 << i) };
        let points: Vec<(i64, f64)> = (0..60).map(|k| (ago(600 - 10 * k), (k * i * i) as f64)).collect();
        series(&[("__name__", "h_bucket"), ("le", &le)], &points)
    }));
    all
}

/// Aggregations that some engine computes.
const COMPUTED: [&str; 21] = [
    "sum(m_total)",
    "sum by (job) (m_total) / 2",
    "sum without (i) (m_total offset 100s)",
    "avg by (i) (max_over_time(m_total[2m]))",
    "min by (i) (min_over_time(m_total[45s] offset 30s))",
    "count by (job) (count_over_time(m_total[1m]))",
    "sum(ended)",
    "sum(last_over_time(ended[1m]))",
    "group(old)",
    "max(inf)",
    "max by (le) (sum_over_time(h_bucket[1m]))",
    "stddev(avg_over_time(m_total[1m]))",
    "group by (job) (present_over_time(m_total[30s]))",
    "max_over_time(sum by (i) (m_total)[2m:30s])",
    "sum by (i) (rate(m_total[1m]))",
    "sum by (i) (increase(m_total[100s]))",
    "max(irate(m_total[1m]))",
    "sum(changes(m_total[3m]))",
    "sum(resets(m_total[10m]))",
    "avg(delta(h_bucket[2m]))",
    "sum(nothing)",
];

/// A query at an instant and over ten minutes.
fn asked(query: &str, end: i64) -> [String; 2] {
    let (now, ago) = (end / 1000, end / 1000 - 600);
    let query = serde_urlencoded::to_string([("query", query)]).unwrap();
    let range = format!("/api/v1/query_range?{query}&start={ago}&end={now}&step=17");
    [format!("/api/v1/query?{query}&time={now}"), range]
}

fn requests(end: i64) -> Vec<String> {
    let mut all: Vec<String> = [
        "m_total",
        "m_total[2m]",
        "rate(m_total[1m])",
        "sum by (job) (increase(m_total[5m]))",
        "ended",
        "count_over_time(ended[1m])",
        "old",
        "old offset 2m",
        "last_over_time(old[10m])",
        "inf",
        "m_total{job=~\"x|é\"}",
        "m_total{job!=\"x\",i!~\"2|3\"}",
        "m_total{job=\"a\\\"b\\\\c\\nd\"}",
        "absent(nothing)",
        "histogram_quantile(0.9, rate(h_bucket[5m]))",
        "max_over_time(rate(m_total[1m])[5m:30s])",
        "m_total @ end() - m_total @ start()",
        "topk(1, m_total) * on (job) group_left m_total",
        "count({__name__=~\".+\"})",
        "resets(m_total[10m])",
    ]
    .iter()
    .flat_map(|query| asked(query, end))
    .collect();
    let range = format!("start={}&end={}", end / 1000 - 600, end / 1000);
    all.extend(
        [
            "/api/v1/series?match[]=m_total&R",
            "/api/v1/series?match[]=m_total&match[]=%7Bi=%222%22%7D&R",
            "/api/v1/series?match[]=%7B__name__=~%22.%2B%22%7D",
            "/api/v1/labels?R",
            "/api/v1/labels",
            "/api/v1/labels?match[]=h_bucket&R",
            "/api/v1/label/job/values?R",
            "/api/v1/label/__name__/values",
            "/api/v1/label/le/values?match[]=h_bucket&R",
            "/federate?match[]=m_total&match[]=ended",
            "/api/v1/export?match[]=m_total",
            "/api/v1/query?query=m_total[&time=1",
        ]
        .map(|p| p.replace('R', &range).replace('[', "%5B").replace(']', "%5D")),
    );
    all
}

async fn settled(collector: &Collector) {
    let pending = "fabriclens_forward_pending_samples{queue=\"far\"} 0\n";
    common::until("everything is forwarded", async || collector.get("/metrics").await.1.contains(pending)).await;
}

/// Whether two answers differ at most by rounding and by the order of groups: engines add in another order, and list groups in theirs.
fn same(here: &str, there: &str) -> bool {
    match (serde_json::from_str(here), serde_json::from_str(there)) {
        (Ok(here), Ok(there)) => same_value(&in_order(here), &in_order(there)),
        _ => here == there,
    }
}

/// Sorts the groups of an answer.
fn in_order(mut answer: Value) -> Value {
    if let Some(groups) = answer.pointer_mut("/data/result").and_then(Value::as_array_mut) {
        groups.sort_by_key(|group| group["metric"].to_string());
    }
    answer
}

fn same_value(here: &Value, there: &Value) -> bool {
    match (here, there) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_value(a, b)))
        }
        (Value::String(a), Value::String(b)) if a != b => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 1e-12 * a.abs(),
            _ => false,
        },
        _ => here == there,
    }
}

/// Queries that the engine has evaluated.
async fn evaluated(engine: &Engine) -> f64 {
    let count = |line: &str| {
        let queries = line.contains("http_requests_total{") && line.contains("/api/v1/query_range\"");
        queries.then(|| line.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    };
    fetch(&engine.base, "/metrics").await.2.lines().filter_map(count).sum()
}

/// Compares a collector on an engine with one that has a store: answers are identical, and alike where the engine computes them. It
/// evaluates so many range queries.
async fn answers_are_the_same(kind: Kind, version: Version, computed: usize) {
    let engine = Engine::start(kind).await;
    let near = Collector::with(|c| c.query.promql = version).await;
    let far = Collector::with(|c| {
        c.query.promql = version;
        c.store = Some(engine.remote());
    })
    .await;
    let end = now_ms() / 1000 * 1000;
    for c in [&near, &far] {
        assert_eq!(c.remote_write(samples(end)).await.0, 204);
    }
    settled(&far).await;
    // VictoriaMetrics shows accepted samples with a delay.
    let began = Instant::now();
    let all = "/api/v1/export?match%5B%5D=%7B__name__=~%22.%2B%22%7D";
    let want = near.get(all).await.1;
    loop {
        let got = far.get(all).await.1;
        if got == want {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{got}\ninstead of\n{want}");
        fetch(&engine.base, "/internal/force_flush").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut wrong = Vec::new();
    let exact = requests(end).into_iter().map(|path| (path, true));
    let aggregations = COMPUTED.iter().flat_map(|query| asked(query, end)).map(|path| (path, computed == 0));
    for (path, exact) in exact.chain(aggregations) {
        let (want, got) = (near.get(&path).await, far.get(&path).await);
        if want != got && (exact || want.0 != got.0 || !same(&want.1, &got.1)) {
            wrong.push(format!("{path}\n   here   {} {}\n   there  {} {}", want.0, want.1, got.0, got.1));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(evaluated(&engine).await, computed as f64, "range queries that the engine evaluated");
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn prometheus_engine_answers_match() {
    answers_are_the_same(Kind::Prometheus, Version::V3, 0).await;
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn prometheus_computes_what_means_the_same() {
    answers_are_the_same(Kind::Prometheus, Version::V2, 22).await;
}

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn victoria_metrics_engine_answers_match() {
    answers_are_the_same(Kind::Victoria, Version::V3, 15).await;
}

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn victoria_metrics_computes_nothing_with_closed_ranges() {
    answers_are_the_same(Kind::Victoria, Version::V2, 0).await;
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn killed_engine_receives_everything() {
    let mut engine = Engine::start(Kind::Prometheus).await;
    let mut collector = Collector::with(|c| c.store = Some(engine.remote())).await;
    let begin = now_ms() - 60_000;
    let tick = |t: i64| vec![series(&[("__name__", "m"), ("host", "h")], &[(begin + 100 * t, t as f64)])];
    for t in 0..200 {
        match t {
            50 => engine.kill(),
            100 => {
                let (status, text) = collector.get("/api/v1/query?query=m").await;
                assert!(status == 500 && text.contains("remote engine http://"), "{status} {text}");
                // The collector restarts while the engine is down.
                let Collector { running, dir } = collector;
                running.stop().await;
                collector = Collector::over(dir, |c| c.store = Some(engine.remote())).await;
            }
            150 => engine.restart().await,
            _ => {}
        }
        assert_eq!(collector.remote_write(tick(t)).await.0, 204, "whoever sends notices nothing");
    }
    settled(&collector).await;
    let text = "count_over_time(m[2m]) + 1000 * sum_over_time(m[2m])";
    assert_eq!(collector.value(text).await, Some(200.0 + 1000.0 * 19_900.0));
    // Samples in the future are rejected as by a store; the others are accepted.
    let ahead = series(&[("__name__", "m"), ("host", "h")], &[(now_ms(), 7.0), (now_ms() + 3_600_000, 8.0)]);
    let (status, text) = collector.remote_write(vec![ahead]).await;
    assert!(status == 400 && text.starts_with("1 points rejected"), "{status} {text}");
    settled(&collector).await;
    assert_eq!(collector.value("m").await, Some(7.0));
    assert_eq!(collector.get("/api/v1/status/tsdb").await.0, 404);
}
