//! Concurrent queries: shared memory, admission control, and light queries among heavy ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Collector, now_ms, series, until};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;
const SERIES: i64 = 40;
const SAMPLES: i64 = 5_000;

/// Some 200,000 samples, which take 3 to 8 MiB to read.
async fn filled(memory: usize, concurrency: usize) -> Collector {
    let c = Collector::with(|config| {
        config.query.memory = memory;
        config.query.concurrency = concurrency;
    })
    .await;
    let now = now_ms();
    let samples: Vec<(i64, f64)> = (0..SAMPLES).map(|i| (now - (SAMPLES - i) * 1000, i as f64)).collect();
    let many: Vec<_> = (0..SERIES).map(|i| series(&[("__name__", "m"), ("i", &i.to_string())], &samples)).collect();
    assert_eq!(c.remote_write(many).await.0, 204);
    assert_eq!(c.remote_write(vec![series(&[("__name__", "light")], &[(now, 7.0)])]).await.0, 204);
    c
}

async fn ask(c: &Collector, query: &str, timeout: &str) -> (u16, Value) {
    c.form("/api/v1/query", &[("query", query), ("timeout", timeout)]).await
}

/// One of the collector's own metrics.
async fn own(c: &Collector, name: &str) -> usize {
    let (_, text) = c.get("/metrics").await;
    let line = text.lines().find(|l| l.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no {name}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn heavy_queries_share_the_memory() {
    const MEMORY: usize = 16 * MIB;
    let c = Arc::new(filled(MEMORY, 8).await);
    let heavy: Vec<_> = (0..12)
        .map(|_| {
            let c = c.clone();
            tokio::spawn(async move { ask(&c, "sum(sum_over_time(m[2h]))", "100s").await })
        })
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let watch = tokio::spawn({
        let (c, over) = (c.clone(), over.clone());
        async move {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(own(&c, "fabriclens_query_memory_bytes").await);
            }
            most
        }
    });
    let mut beside = 0;
    while heavy.iter().any(|h| !h.is_finished()) {
        let (status, answer) = ask(&c, "light", "20s").await;
        assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &json!("7")), "{answer}");
        beside += 1;
    }
    let want = (SERIES * (SAMPLES * (SAMPLES - 1) / 2)).to_string();
    for h in heavy {
        let (status, answer) = h.await.unwrap();
        assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &json!(want)), "{answer}");
    }
    over.store(true, Ordering::Relaxed);
    let most = watch.await.unwrap();
    assert!(beside > 2 && (MIB..=MEMORY).contains(&most), "{beside} light ones, {most} bytes at most");
    assert!(own(&c, "fabriclens_query_memory_waits_total").await > 0, "nobody had to wait");
    until("memory is given back", async || own(&c, "fabriclens_query_memory_bytes").await == 0).await;
}

#[tokio::test]
async fn oversized_query_names_the_remedy() {
    let c = filled(2 * MIB, 4).await;
    let (status, answer) = ask(&c, "sum(sum_over_time(m[2h]))", "100s").await;
    assert_eq!((status, &answer["errorType"]), (422, &json!("execution")), "{answer}");
    let error = answer["error"].as_str().unwrap();
    assert!(
        error.starts_with("query processing would load too many samples into memory in query execution"),
        "{error}"
    );
    assert!(error.contains("query.memory"), "{error}");
    assert_eq!(ask(&c, "light", "20s").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn long_queue_wait_is_reported() {
    let c = Arc::new(filled(64 * MIB, 1).await);
    let slow = tokio::spawn({
        let c = c.clone();
        async move {
            ask(&c, "sum(quantile_over_time(0.5, m[1h:1s] ))+sum(quantile_over_time(0.5, m[2h:1s]))", "100s").await
        }
    });
    while own(&c, "fabriclens_queries_in_flight").await == 0 {
        assert!(!slow.is_finished(), "the slow query is too fast for this test");
    }
    let (status, answer) = ask(&c, "light", "1ms").await;
    let error = answer["error"].as_str().unwrap_or_default();
    assert_eq!((status, &answer["errorType"]), (503, &json!("timeout")), "{answer}");
    assert!(error.starts_with("query timed out in query queue: 1 queries are running (query.concurrency)"), "{error}");
    assert_eq!(slow.await.unwrap().0, 200);
}

/// 40 series with 5,000 samples each, over 5,000 seconds in steps of 50.
async fn ask_range(c: &Collector, query: &str) -> (u16, Value) {
    let end = c.value("max(timestamp(m))").await.unwrap().round();
    let (start, end) = ((end - 4900.0).to_string(), end.to_string());
    let form = [("query", query), ("start", &start), ("end", &end), ("step", "50"), ("nocache", "1")];
    c.form("/api/v1/query_range", &form).await
}

#[tokio::test]
async fn range_queries_beyond_a_limit_are_evaluated_in_pieces() {
    let beyond_samples = Collector::with(|config| config.query.max_samples = 40_000).await;
    let beyond_memory = Collector::with(|config| config.query.memory = 2 * MIB).await;
    let now = now_ms() / 1000 * 1000;
    let samples: Vec<(i64, f64)> = (0..SAMPLES).map(|i| (now - (SAMPLES - i) * 1000, (i * i % 977) as f64)).collect();
    let own = |i: i64| series(&[("__name__", "m"), ("i", &i.to_string())], &samples);
    let ample = Collector::start().await;
    for c in [&ample, &beyond_samples, &beyond_memory] {
        assert_eq!(c.remote_write((0..SERIES).map(own).collect()).await.0, 204);
    }
    for query in ["sum(sum_over_time(m[2m]))", "max by (i) (m)", "avg_over_time(m[3m:20s])"] {
        let want = ask_range(&ample, query).await;
        assert_eq!(want.0, 200, "{query}: {}", want.1);
        for c in [&beyond_samples, &beyond_memory] {
            let got = ask_range(c, query).await;
            assert_eq!(got, want, "{query}");
        }
    }
    // These cannot be divided, or not enough.
    for query in ["sum(sum_over_time(m[2m])) + sum(count_over_time(m[4900s] @ end()))", "sum(sum_over_time(m[4900s]))"]
    {
        assert_eq!(ask_range(&ample, query).await.0, 200, "{query}");
        for c in [&beyond_samples, &beyond_memory] {
            let (status, answer) = ask_range(c, query).await;
            assert_eq!(status, 422, "{query}: {answer}");
            let error = answer["error"].as_str().unwrap();
            assert!(error.starts_with("query processing would load too many samples into memory"), "{error}");
        }
    }
}
