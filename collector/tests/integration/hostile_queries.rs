//! Queries of somebody who may read and wants to take the collector down: each is refused before it costs memory, ends
//! at its deadline, and ends when its client leaves.

use std::io::Write as _;
use std::net::TcpStream;

use crate::common::{Collector, now_ms, post, series, until};
use serde_json::Value;

/// `{l0=~"pattern",l1=~…}`; the patterns differ.
fn selector(matchers: usize, pattern: &str) -> String {
    let matchers: Vec<String> = (0..matchers).map(|i| format!(r#"l{i}=~"{pattern}x{i}""#)).collect();
    format!("m{{{}}}", matchers.join(","))
}

/// Status and error of a form on each route that takes a selector or a query.
async fn everywhere(c: &Collector, selector: &str) -> Vec<(&'static str, u16, String)> {
    let mut all = Vec::new();
    for (path, parameter) in [
        ("/api/v1/query", "query"),
        ("/api/v1/query_range", "query"),
        ("/api/v1/format_query", "query"),
        ("/api/v1/query_exemplars", "query"),
        ("/api/v1/series", "match[]"),
        ("/api/v1/labels", "match[]"),
        ("/api/v1/export", "match[]"),
    ] {
        let range = [("start", "0"), ("end", "10"), ("step", "10")];
        let (status, answer) = c.form(path, &[&[(parameter, selector)], &range[..]].concat()).await;
        all.push((path, status, answer["error"].as_str().unwrap_or_default().to_owned()));
    }
    for path in ["/federate", "/api/v1/label/host/values"] {
        let query = url(selector);
        let (status, answer) = c.json(&format!("{path}?match[]={query}")).await;
        all.push((path, status, answer["error"].as_str().unwrap_or_default().to_owned()));
    }
    all
}

fn url(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patterns_are_bounded_on_every_route() {
    let c = Collector::with(|config| config.query.memory = 64 << 20).await;
    for (selector, status, error) in [
        (selector(300, r"\\pL{150}"), 400, "more than 128 label matchers in a selector"),
        (selector(1, r"\\pL{150}"), 400, "too complex (compiled, more than 1048576 bytes)"),
        (selector(1, r"(?i)[\\pL\\pN]").replace("x0", &r"[\\x{0}-\\x{10FFFF}]".repeat(101)), 400, "Unicode classes"),
        (selector(128, r"[a-z]{999}"), 422, "query.memory"),
    ] {
        for (path, got, text) in everywhere(&c, &selector).await {
            // URLs are bounded, too.
            if got != 414 && got != 431 {
                assert!(got == status && text.contains(error), "{path}: {got} {text:.300}");
            }
        }
    }
    let many: Vec<(&str, &str)> = vec![("match[]", r#"{a=~"b.*"}"#); 101];
    for path in ["/api/v1/series", "/api/v1/labels", "/api/v1/export"] {
        let (status, answer) = c.form(path, &many).await;
        assert!(status == 400 && answer["error"].as_str().unwrap().contains("more than 100 selectors"), "{answer}");
    }
    let (status, answer) = c.form("/api/v1/series", &many[..100]).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn parameters_and_annotation_requests_are_bounded() {
    let c = Collector::start().await;
    let (status, answer) = c.form("/api/v1/query", &vec![("a", ""); 1001]).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("more than 1000 parameters"), "{answer}");
    let body = |parts: usize| {
        let parts = vec![r#"{"a":1}"#; parts].join(",");
        format!(r#"{{"range":{{"from":"1","to":"2"}},"annotation":[{parts}]}}"#).into_bytes()
    };
    let url = format!("http://{}/api/v1/annotations", c.running.http);
    assert_eq!(post(url.clone(), &[], body(100)).await.0, 200);
    let (status, text) = post(url, &[], body(100_000)).await;
    assert!(status == 400 && text.contains("at most 16384 bytes"), "{status} {text}");
}

#[tokio::test]
async fn queries_take_at_most_a_quarter_of_the_memory() {
    for (configured, limit, used) in [(512_u64 << 20, 256_u64 << 20, 64_u64 << 20), (32 << 20, 1 << 30, 32 << 20)] {
        let c = Collector::with(|config| {
            config.query.memory = usize::try_from(configured).unwrap();
            config.memory = Some(limit);
        })
        .await;
        let (_, answer) = c.json("/api/v1/status/flags").await;
        assert_eq!(answer["data"]["query.memory"], used.to_string(), "{answer}");
    }
}

/// A series whose label takes a while to match, for each host.
async fn slow(hosts: usize) -> Collector {
    let c = Collector::start().await;
    let now = now_ms();
    let host = |i: usize| {
        // Binary numbers, so that each byte leads to another state.
        let long: String = (0..300).map(|n: usize| format!("{:012b}", (n * 2654435761 + i) % 4096)).collect();
        series(&[("__name__", "m"), ("host", &i.to_string()), ("l", &long)], &[(now, 1.0)])
    };
    assert_eq!(c.remote_write((0..hosts).map(host).collect()).await.0, 204);
    c
}

/// Many ways to match, and none does.
const SLOW: &str = r#"{l=~"[01]*1[01]{400}[ab]"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_end_at_their_deadline() {
    let c = slow(2000).await;
    for (path, parameter) in [("/api/v1/query", "query"), ("/api/v1/series", "match[]"), ("/api/v1/labels", "match[]")]
    {
        let (status, answer) = c.form(path, &[(parameter, SLOW), ("timeout", "300ms")]).await;
        assert_eq!((status, &answer["errorType"]), (503, &Value::from("timeout")), "{path}: {answer}");
    }
    until("all have ended", async || in_flight(&c).await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_end_when_their_client_leaves() {
    let c = slow(2000).await;
    for path in ["/api/v1/query?query=", "/api/v1/series?match[]="] {
        let mut client = TcpStream::connect(c.running.http).unwrap();
        write!(client, "GET {path}{} HTTP/1.1\r\nhost: localhost\r\n\r\n", url(SLOW)).unwrap();
        until("it begins", async || in_flight(&c).await == 1).await;
        drop(client);
        until("it ends", async || in_flight(&c).await == 0).await;
    }
}

async fn in_flight(c: &Collector) -> usize {
    let (_, text) = c.get("/metrics").await;
    let line = text.lines().find_map(|l| l.strip_prefix("fabriclens_queries_in_flight "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn ports_and_their_names_count_in_the_memory_of_signals() {
    let c = Collector::with(|config| config.query.memory = 16 << 20).await;
    let long = "x".repeat(1000);
    let port = |i: usize| {
        let (host, port) = (format!("h{}", i % 100), format!("{long}{i}"));
        series(&[("__name__", "fabric_port_up"), ("host", &host), ("port", &port)], &[(now_ms(), 1.0)])
    };
    assert_eq!(c.remote_write((0..10_000).map(port).collect()).await.0, 204);
    let (status, answer) = c.json("/api/v1/query?query=count(fabric_port_up)").await;
    assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &Value::from("10000")), "{answer}");
    for path in ["/api/v1/topology/signals?signals=up", "/api/v1/overview"] {
        // On a busy machine the ports may be sent before the detectors listen, which then read them with the next samples.
        until("it needs more memory", async || {
            assert_eq!(c.remote_write((0..10_000).map(port).collect()).await.0, 204);
            let (status, answer) = c.json(path).await;
            status == 422 && answer["error"].as_str().is_some_and(|error| error.contains("query.memory"))
        })
        .await;
    }
}

#[tokio::test]
async fn jobs_beside_the_one_of_a_report_count_in_the_memory() {
    let c = Collector::with(|config| config.query.memory = 8 << 20).await;
    let told = async |id: &str, hosts: &str| {
        let url = format!("http://{}/api/v1/jobs", c.running.http);
        let job = format!(r#"{{"id": "{id}", "hosts": "{hosts}"}}"#);
        let (status, answer) = post(url, &[("content-type", "application/json")], job.into_bytes()).await;
        assert!(status < 300, "{answer}");
    };
    told("own", "n1").await;
    let report = async || c.json("/api/v1/jobs/own/report?format=json").await;
    assert_eq!(report().await.0, 200);
    for n in 0..3 {
        told(&format!("large-{n}"), &format!("x{n}-[1-65536]")).await;
    }
    let (status, answer) = report().await;
    assert!(status == 422 && answer["error"].as_str().unwrap().contains("query.memory"), "{status} {answer}");
}
