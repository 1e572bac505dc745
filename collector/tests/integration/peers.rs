//! Two collectors of the same agents: each answers with the merged samples of both, and alone if the other is down.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Collector, now_ms, peer, series};
use fabriclens_config::{Config, Endpoint};

/// Two collectors that are peers.
async fn pair() -> [Collector; 2] {
    let free = || SocketAddr::from(([127, 0, 0, 1], fabriclens_testing::free_port().unwrap()));
    let [a, b] = [free(), free()];
    let with = |own: SocketAddr, other: SocketAddr| {
        move |config: &mut Config| {
            config.listen.http = own;
            config.peers = vec![peer(other)];
        }
    };
    [Collector::with(with(a, b)).await, Collector::with(with(b, a)).await]
}

/// One sample per second of this range.
async fn tell(c: &Collector, host: &str, begin: i64, seconds: impl Iterator<Item = i64>) {
    let samples: Vec<(i64, f64)> = seconds.map(|s| (begin + s * 1000, s as f64)).collect();
    let labels = [("__name__", "told"), ("host", host)];
    assert_eq!(c.remote_write(vec![series(&labels, &samples)]).await.0, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_merge_without_duplicates() {
    let [a, b] = pair().await;
    let begin = now_ms() - 200_000;
    // Failover: each has a part, and both have the last request before the change.
    tell(&a, "moved", begin, 0..50).await;
    tell(&b, "moved", begin, 49..100).await;
    // Both receive everything, and each was down for a while.
    tell(&a, "both", begin, (0..20).chain(40..100)).await;
    tell(&b, "both", begin, (0..60).chain(70..100)).await;
    tell(&b, "only-b", begin, 0..10).await;
    for c in [&a, &b] {
        for (host, count) in [("moved", 100.0), ("both", 100.0), ("only-b", 10.0)] {
            let query = format!("count_over_time(told{{host=\"{host}\"}}[5m])");
            assert_eq!(c.value(&query).await, Some(count), "{host}");
        }
        // The growth of a counter that both have counts once.
        assert_eq!(c.value("max_over_time(told{host=\"both\"}[5m])").await, Some(99.0));
        assert_eq!(c.value("resets(told{host=\"both\"}[5m])").await, Some(0.0));
        let (_, hosts) = c.json("/api/v1/label/host/values").await;
        assert_eq!(hosts["data"], serde_json::json!(["both", "moved", "only-b"]));
        let (_, found) = c.json("/api/v1/series?match[]=told").await;
        assert_eq!(found["data"].as_array().unwrap().len(), 3);
        assert!(found.get("warnings").is_none(), "{found}");
    }
    let (_, own) = a.json("/api/v1/query?query=count(last_over_time(told[5m]))&local=true").await;
    assert_eq!(own["data"]["result"][0]["value"][1], "2", "what it has itself");
    let (_, export) = a.get("/api/v1/export?match[]=told").await;
    assert!(!export.contains("only-b"), "an export is of one collector: {export}");

    b.running.stop().await;
    for _ in 0..2 {
        let (status, answer) = a.json("/api/v1/query?query=count_over_time(told%7Bhost=%22both%22%7D[5m])").await;
        assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &"80".into()), "{answer}");
        assert!(
            answer["warnings"][0].as_str().unwrap().contains("samples that only a peer has are missing"),
            "{answer}"
        );
    }
    let (status, hosts) = a.json("/api/v1/label/host/values").await;
    assert_eq!((status, &hosts["data"]), (200, &serde_json::json!(["both", "moved"])));
    assert_eq!(hosts["warnings"].as_array().unwrap().len(), 1);
    let (status, text) = a.get("/readyz").await;
    assert!(status == 200 && text.contains("samples that only a peer has are missing"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_peer_is_skipped() {
    let hole = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hole.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in hole.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    let a = Collector::with(|config| {
        config.peers = vec![Endpoint { timeout: Duration::from_millis(300), ..peer(address) }];
    })
    .await;
    tell(&a, "h", now_ms() - 20_000, 0..10).await;
    for _ in 0..5 {
        let (status, answer) = a.json("/api/v1/query?query=count_over_time(told[5m])").await;
        assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &"10".into()), "{answer}");
        assert!(answer["warnings"][0].as_str().unwrap().contains(&address.to_string()), "{answer}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
