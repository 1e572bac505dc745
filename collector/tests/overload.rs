//! Heavy queries delay neither ingest nor light queries. Its own process, because it occupies every CPU.
#![allow(clippy::unwrap_used, reason = "a test says no more by failing politely")]

mod common;

use std::time::Duration;

use common::{Collector, now_ms, now_ns, otlp, series};

/// Takes minutes: a window of an hour in steps of a millisecond at each of ten thousand steps.
const ENDLESS: &str = "/api/v1/query_range?query=quantile_over_time(0.5,sum(m)[1h:10ms])&start=-3h&end=0h&step=1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_queries_block_no_ingest() {
    let c = Collector::with(|config| config.query.concurrency = 8).await;
    let now = now_ms();
    let samples: Vec<(i64, f64)> = (0..3600).map(|i| (now - 3_600_000 + i * 1000, i as f64)).collect();
    assert_eq!(c.remote_write(vec![series(&[("__name__", "m")], &samples)]).await.0, 204);
    let url = format!("http://{}{}", c.running.http, ENDLESS)
        .replace("-3h", &((now - 10_000_000) / 1000).to_string())
        .replace("0h", &(now / 1000).to_string());
    // As Grafana does: all at once, and none is canceled.
    let heavy: Vec<_> = (0..7)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || {
                let agent = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).build();
                _ = agent.new_agent().get(&url).call();
            })
        })
        .collect();
    let mut running = 0.0;
    while running < 7.0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (_, metrics) = c.get("/metrics").await;
        let line = metrics.lines().find(|l| l.starts_with("fabriclens_queries_in_flight ")).unwrap();
        running = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(!heavy.iter().any(std::thread::JoinHandle::is_finished), "they were not heavy at all");
    }
    let (mut client, begin) = (c.grpc().await, now_ns());
    for tick in 0..50_u64 {
        // Times that differ by milliseconds, however fast the answers are.
        let request = otlp("h", "fabric.test", &[(1, begin - 1_000_000_000 + tick * 10_000_000, tick as i64)]);
        assert_eq!(client.export(request).await.unwrap().into_inner().partial_success, None);
    }
    assert_eq!(c.value("count_over_time(fabric_test_total[1m])").await, Some(50.0));
    assert!(!heavy.iter().any(std::thread::JoinHandle::is_finished), "all of it while they ran");
}
