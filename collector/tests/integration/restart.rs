//! A collector restarts under live senders, by SIGTERM and by SIGKILL: each tick of each sender is stored once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::process::{Server, agent};
use crate::common::{now_ns, otlp, until};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tonic::transport::Endpoint;

const SENDERS: u64 = 4;
const TICK_NS: u64 = 100_000_000;

/// Sends ticks as an agent does, each until it is acknowledged. Returns the number of ticks.
async fn send(url: String, host: String, begin: u64, acked: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> u64 {
    let channel = Endpoint::from_shared(url).unwrap().connect_timeout(Duration::from_secs(1)).connect_lazy();
    let mut client = MetricsServiceClient::new(channel);
    for tick in 0.. {
        if stop.load(Ordering::Relaxed) {
            return tick;
        }
        let request = otlp(&host, "fabric.test", &[(1, begin + tick * TICK_NS, tick as i64)]);
        loop {
            match client.export(request.clone()).await {
                Ok(answer) => {
                    assert_eq!(answer.into_inner().partial_success, None);
                    acked.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                // A restart must look to a sender like something that OTLP senders try again. An internal error with a source
                // is the transport's (a GOAWAY that overtakes a new stream), not the collector's answer; agents retry it.
                Err(e) => {
                    let transport = e.code() == tonic::Code::Internal && std::error::Error::source(&e).is_some();
                    let again = [tonic::Code::Unavailable, tonic::Code::Cancelled, tonic::Code::Unknown];
                    assert!(transport || again.contains(&e.code()), "{e:?}");
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_under_load_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let free = format!("127.0.0.1:{}", fabriclens_testing::free_port().unwrap());
    let more = ["--otlp-grpc", free.as_str()];
    let mut server = Server::start(&data, &more);
    let begin = now_ns() - 600 * 1_000_000_000;
    let (acked, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let senders: Vec<_> = (0..SENDERS)
        .map(|n| {
            let url = format!("http://{free}");
            tokio::spawn(send(url, format!("h{n}"), begin, acked.clone(), stop.clone()))
        })
        .collect();
    let progress = async |more: u64| {
        let wanted = acked.load(Ordering::SeqCst) + more;
        until("senders make progress", async || acked.load(Ordering::SeqCst) >= wanted).await;
    };
    for signal in [15, 9, 15, 9] {
        progress(40).await;
        let (code, log) = tokio::task::spawn_blocking(move || server.end(signal)).await.unwrap();
        assert!(signal == 9 || code == Some(0), "{log}");
        assert!(!log.contains("cut off"), "nothing that was under way is dropped: {log}");
        server = Server::start(&data, &more);
    }
    progress(40).await;
    stop.store(true, Ordering::Relaxed);
    let mut sent = Vec::new();
    for sender in senders {
        sent.push(sender.await.unwrap());
    }
    for (n, ticks) in sent.iter().enumerate() {
        let query = format!("count_over_time(fabric_test_total{{host=\"h{n}\"}}[20m])");
        let url = format!("{}/api/v1/query", server.url);
        let mut answer = agent().get(url).query("query", query).call().unwrap();
        let json: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        assert_eq!(json["data"]["result"][0]["value"][1], ticks.to_string(), "h{n}: {json}");
    }
    eprintln!("{} restarts, {} ticks, none lost", 4, sent.iter().sum::<u64>());
}
