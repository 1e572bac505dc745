//! Clients that hold what others need: connections with half a request, answers that are not read.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::common::{Collector, now_ms, series, until};

/// A connection with these bytes sent.
fn sent(at: SocketAddr, text: &str) -> TcpStream {
    let mut client = TcpStream::connect(at).unwrap();
    client.write_all(text.as_bytes()).unwrap();
    client
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_requests_keep_nobody_out() {
    let c = Collector::with(|config| config.listen.connections.all = 8).await;
    let mut half = Vec::new();
    for _ in 0..5 {
        half.extend((0..8).map(|n| sent(c.running.http, ["", "GET", "GET /healthz HTTP/1.1\r\nX:"][n % 3])));
        for path in ["/healthz", "/api/v1/query?query=1"] {
            assert_eq!(c.get(path).await.0, 200, "{path}");
        }
    }
    // Idle connections make way, too.
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut one = sent(c.running.http, &get("/healthz"));
        _ = one.read(&mut [0; 1000]).unwrap();
        idle.push(one);
    }
    assert_eq!(c.get("/api/v1/query?query=1").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn health_has_places_of_its_own() {
    let c = Collector::with(|config| config.listen.connections.all = 4).await;
    let streams: Vec<_> = (0..4).map(|_| sent(c.running.http, &get("/api/v1/incidents/stream"))).collect();
    for mut stream in &streams {
        _ = stream.read(&mut [0; 1000]).unwrap();
    }
    for _ in 0..50 {
        assert_eq!((c.get("/healthz").await.0, c.get("/readyz").await.0), (200, 200));
    }
    let (status, text) = c.get("/api/v1/query?query=1").await;
    assert!(status == 503 && text.contains("listen.connections"), "{status} {text}");
    drop(streams);
    until("places are free again", async || c.get("/api/v1/query?query=1").await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn event_streams_of_one_address_are_bounded() {
    let c = Collector::start().await;
    let ask = || {
        let mut client = sent(c.running.http, &get("/api/v1/incidents/stream"));
        let mut head = [0; 12];
        client.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head).into_owned(), client)
    };
    let mut open: Vec<_> = (0..64).map(|_| ask()).collect();
    assert!(open.iter().all(|(head, _)| head == "HTTP/1.1 200"), "{:?}", open.last());
    assert_eq!(ask().0, "HTTP/1.1 503");
    assert_eq!(c.get("/api/v1/incidents").await.0, 200, "the list can be polled");
    open.pop();
    until("a closed stream makes room", async || ask().0 == "HTTP/1.1 200").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_that_nobody_reads_are_bounded() {
    const MEMORY: usize = 64 << 20;
    let c = Collector::with(|config| config.query.memory = MEMORY).await;
    let (now, long) = (now_ms(), "x".repeat(1000));
    for part in 0..4 {
        let host = |i: usize| series(&[("__name__", "m"), ("i", &format!("{long}{part}-{i}"))], &[(now, 1.0)]);
        assert_eq!(c.remote_write((0..3000).map(host).collect()).await.0, 204);
    }
    // Each answer has 12 MiB, more than sockets hold.
    let readers: Vec<_> = (0..30).map(|_| sent(c.running.http, &get("/api/v1/series?match[]=m"))).collect();
    until("answers wait", async || own(&c, "fabriclens_query_memory_bytes").await > 10 << 20).await;
    until("all are answered", async || own(&c, "fabriclens_queries_in_flight").await == 0).await;
    until("half of the memory is free", async || own(&c, "fabriclens_query_memory_bytes").await <= MEMORY / 2).await;
    assert_eq!(c.get("/api/v1/query?query=1").await.0, 200);
    drop(readers);
    until("nothing is held", async || own(&c, "fabriclens_query_memory_bytes").await == 0).await;
}

/// One of the collector's own metrics.
async fn own(c: &Collector, name: &str) -> usize {
    let (_, text) = c.get("/metrics").await;
    let line = text.lines().find(|l| l.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no {name}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}
