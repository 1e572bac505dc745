//! The agent's HTTP server: its answers and formats. It never reads a device.

use fabriclens_agent::config::Http;
use fabriclens_agent::http::{App, Counters, Server, View};
use fabriclens_agent::schedule::{Outcome, SourceStatus};
use fabriclens_agent_samplers::microburst::{Dump, Window};
use fabriclens_catalog::metrics::traffic;
use fabriclens_testing::eventually_async;
use fabriclens_wire::{Column, Resource, Section, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

struct Fixed(Vec<SourceStatus>);

impl View for Fixed {
    fn sections(&self) -> Vec<Section> {
        vec![Section {
            resource: Arc::new(Resource { host: "h".into(), device: Some("mlx5_0".into()), port: Some(1) }),
            columns: [Column { metric: &traffic::PORT_IO, labels: vec![("direction".into(), "receive".into())] }]
                .into(),
            begin_ns: 1,
            end_ns: 2,
            starts: [1].into(),
            values: vec![Value::Int(7)],
            urgent: false,
        }]
    }

    fn sources(&self) -> Vec<SourceStatus> {
        self.0.clone()
    }

    fn ring(&self) -> (usize, u64) {
        (4, 17)
    }

    fn troubles(&self) -> Vec<String> {
        let stuck = |s: &SourceStatus| matches!(s.outcome, Outcome::Stalled(_));
        if self.0.iter().any(stuck) { vec!["the search for devices has been stuck".into()] } else { vec![] }
    }

    fn bursts(&self, netdev: Option<&str>) -> Vec<Arc<Dump>> {
        let window = Window { first: 0, bins: vec![[7; 8]], trigger: 0, direction: 1, threshold: 7 };
        let dump = Dump { netdev: "eth0".into(), begin_ns: 5, window };
        if netdev.is_none_or(|netdev| netdev == "eth0") { vec![Arc::new(dump)] } else { vec![] }
    }
}

fn status(outcome: Outcome, reads: u64) -> SourceStatus {
    SourceStatus {
        sampler: "ethtool",
        target: "<eth0>".into(),
        outcome,
        last_read: None,
        reads,
        errors: 0,
        note: String::new(),
    }
}

/// Counts its reads.
#[derive(Default)]
struct Counted(AtomicU64);

impl View for Counted {
    fn sections(&self) -> Vec<Section> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Fixed(vec![]).sections()
    }

    fn sources(&self) -> Vec<SourceStatus> {
        vec![]
    }

    fn ring(&self) -> (usize, u64) {
        (0, 0)
    }
}

fn app(view: impl View + 'static) -> App {
    App { view: Arc::new(view), uplinks: vec![], counters: Arc::new(Counters::default()), host: "h".into() }
}

async fn server(sources: Vec<SourceStatus>) -> SocketAddr {
    serve(app(Fixed(sources))).await
}

async fn serve(app: App) -> SocketAddr {
    let http = Http { listen: ([127, 0, 0, 1], 0).into(), identity: None, insecure: false, names: vec![] };
    let server = Server::bind(&http, app).await.expect("bound");
    let address = server.address().expect("an address");
    tokio::spawn(server.serve(std::future::pending()));
    address
}

async fn get(address: SocketAddr, path: &str, accept: &str) -> String {
    asked_as("localhost", address, path, accept).await
}

async fn asked_as(name: &str, address: SocketAddr, path: &str, accept: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    answer
}

#[tokio::test]
async fn both_formats_include_http_metrics() {
    let address = server(vec![]).await;
    let plain = get(address, "/metrics", "text/plain").await;
    assert!(plain.starts_with("HTTP/1.1 200") && plain.contains("content-type: text/plain; version=0.0.4"), "{plain}");
    assert!(
        plain.contains("fabric_port_io_bytes_total{host=\"h\",device=\"mlx5_0\",port=\"1\",direction=\"receive\"} 7\n")
    );
    let open = get(address, "/metrics", "application/openmetrics-text; version=1.0.0").await;
    assert!(open.contains("content-type: application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    assert!(
        open.contains("fabriclens_agent_http_requests_total{host=\"h\",path=\"/metrics\",status=\"200\"} 1"),
        "{open}"
    );
    assert!(get(address, "/nothing", "*/*").await.starts_with("HTTP/1.1 404"));
    eventually_async("unknown paths share one series", Duration::from_secs(10), async || {
        get(address, "/metrics", "*/*").await.contains("path=\"other\",status=\"404\"} 1")
    })
    .await;
}

/// Frequent requests cost no more processor time than one page per second.
#[tokio::test]
async fn metrics_page_is_cached_for_a_second() {
    let view = Arc::new(Counted::default());
    let address = serve(App { view: view.clone(), ..app(Fixed(vec![])) }).await;
    let begin = std::time::Instant::now();
    for _ in 0..200 {
        assert!(get(address, "/metrics", "*/*").await.starts_with("HTTP/1.1 200"));
    }
    let most = begin.elapsed().as_secs() + 1;
    let made = view.0.load(Ordering::Relaxed);
    assert!((1..=most).contains(&made), "{made} in {most} s");
}

#[tokio::test]
async fn burst_recordings_are_json() {
    let address = server(vec![]).await;
    for path in ["/debug/microburst", "/debug/microburst?netdev=eth0"] {
        let text = get(address, path, "*/*").await;
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("application/json"), "{text}");
        assert!(text.contains("\"bins\":[[0,7,7,7,7,7,7,7,7]]") && text.contains("\"begin_unix_ns\":5"), "{text}");
    }
    assert!(get(address, "/debug/microburst?netdev=eth1", "*/*").await.ends_with("{\"dumps\":[]}"));
}

#[tokio::test]
async fn health_lists_failures_not_absences() {
    let absent = status(Outcome::Absent("no such driver".into()), 0);
    let good = server(vec![absent.clone(), status(Outcome::Data { counters: 3 }, 5)]).await;
    let text = get(good, "/healthz", "*/*").await;
    assert!(text.contains("\"status\":\"ok\"") && text.contains("\"reasons\":[]"), "{text}");
    assert!(text.contains("\"ring\":{\"dropped\":17,\"waiting\":4}"), "{text}");
    assert!(get(good, "/readyz", "*/*").await.starts_with("HTTP/1.1 200"));

    let stalled = status(Outcome::Stalled(Duration::from_secs(9)), 0);
    let bad = server(vec![absent, stalled, status(Outcome::Error("permission denied".into()), 0)]).await;
    let text = get(bad, "/healthz", "*/*").await;
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"status\":\"degraded\""), "{text}");
    assert!(text.contains("stuck for 9.0 s") && text.contains("permission denied"), "{text}");
    assert!(text.contains("the search for devices has been stuck"), "{text}");
    assert!(get(bad, "/readyz", "*/*").await.starts_with("HTTP/1.1 503"));
    let page = get(bad, "/", "*/*").await;
    assert!(page.contains("content-security-policy: default-src 'none'; style-src 'unsafe-inline'"), "{page}");
    assert!(page.contains("&lt;eth0&gt;") && page.contains("href=/metrics") && !page.contains("<eth0>"), "{page}");
}

/// DNS rebinding: a web page can point its own name at 127.0.0.1, but the browser still sends that name.
#[tokio::test]
async fn foreign_host_names_are_rejected() {
    let address = server(vec![status(Outcome::Data { counters: 1 }, 1)]).await;
    for path in ["/", "/metrics", "/healthz", "/readyz", "/debug/microburst", "/nothing"] {
        let text = asked_as(&format!("evil.example:{}", address.port()), address, path, "*/*").await;
        assert!(text.starts_with("HTTP/1.1 421") && text.contains("http.names"), "{path}: {text}");
        for name in [address.to_string(), format!("h:{}", address.port()), "LOCALHOST".to_owned()] {
            let text = asked_as(&name, address, path, "*/*").await;
            assert_eq!(text.starts_with("HTTP/1.1 200"), path != "/nothing", "{name}{path}: {text}");
        }
    }
    eventually_async("rejections are counted", Duration::from_secs(10), async || {
        get(address, "/metrics", "*/*").await.contains("path=\"/metrics\",status=\"421\"} 1")
    })
    .await;
}

#[tokio::test]
async fn address_in_use_names_the_remedy() {
    let taken = server(vec![]).await;
    let app = app(Fixed(vec![]));
    let http = Http { listen: taken, identity: None, insecure: false, names: vec![] };
    let error = Server::bind(&http, app).await.err().expect("refused").to_string();
    assert!(error.contains(&taken.to_string()) && error.contains("--http"), "{error}");
}

#[tokio::test]
async fn metrics_are_compressed_on_request() {
    let address = server(vec![]).await;
    for (asked, compressed) in [("gzip", true), ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("br", false)] {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        let request = format!(
            "GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept-Encoding: {asked}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("answered");
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("headers");
        let (head, body) = (String::from_utf8_lossy(&answer[..end]).into_owned(), &answer[end + 4..]);
        assert_eq!(head.contains("content-encoding: gzip"), compressed, "{asked}: {head}");
        let mut text = String::new();
        if compressed {
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(body), &mut text).expect("gzip");
        } else {
            text.push_str(std::str::from_utf8(body).expect("text"));
        }
        assert!(text.contains("fabric_port_io_bytes_total{"), "{asked}: {text}");
    }
}
