//! A collector on a remote engine answers like one with its own store, and loses no sample while the engine is down.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::engine::{Engine, Kind};
use crate::common::{Collector, now_ms, series};
use fabriclens_core::prompb::TimeSeries;

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

fn requests(end: i64) -> Vec<String> {
    let (now, ago) = (end / 1000, end / 1000 - 600);
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
    .flat_map(|q| {
        let q = serde_urlencoded::to_string([("query", q)]).unwrap();
        let instant = format!("/api/v1/query?{q}&time={now}");
        [instant, format!("/api/v1/query_range?{q}&start={ago}&end={now}&step=17")]
    })
    .collect();
    let range = format!("start={ago}&end={now}");
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

async fn answers_are_the_same(kind: Kind) {
    let engine = Engine::start(kind).await;
    let near = Collector::start().await;
    let far = Collector::with(|c| c.store = Some(engine.remote())).await;
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
        common::fetch(&engine.base, "/internal/force_flush").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut wrong = Vec::new();
    for path in requests(end) {
        let (want, got) = (near.get(&path).await, far.get(&path).await);
        if want != got {
            wrong.push(format!("{path}\n   here   {} {}\n   there  {} {}", want.0, want.1, got.0, got.1));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn prometheus_engine_answers_match() {
    answers_are_the_same(Kind::Prometheus).await;
}

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn victoria_metrics_engine_answers_match() {
    answers_are_the_same(Kind::Victoria).await;
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
