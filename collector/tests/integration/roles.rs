//! Roles of a collector: an ingest collector passes samples and requests of agents on to the judge, and says where the rest is.
//! No engine answers here; `failover` has one.

mod failover;
mod lease;
mod site;

use std::time::Duration;

use crate::common::unary::unary;
use crate::common::{Collector, now_ms, now_ns, otlp, series, until};
use crate::switches::{cumulus, post};
use fabriclens_config::{Config, Endpoint, Forward, Judge, Remote, ServeRole};
use fabriclens_forward::JUDGE_WRITE;
use fabriclens_reader_lease::{ASK, AskReply, AskRequest};
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

/// A second, ns.
const S: u64 = 1_000_000_000;

/// An engine that does not answer.
fn engine() -> Remote {
    let write = crate::common::forward("http://127.0.0.1:9/api/v1/write");
    let write = Forward { name: "store.remote".into(), ..write };
    Remote { read: Endpoint { url: "http://127.0.0.1:9".into(), ..write.endpoint.clone() }, write }
}

async fn judge() -> Collector {
    judge_with(|_| {}).await
}

async fn judge_with(change: impl FnOnce(&mut Config)) -> Collector {
    Collector::with(|c| {
        (c.role, c.store) = (ServeRole::Judge, Some(engine()));
        change(c);
    })
    .await
}

async fn ingest_of(judges: &[&str]) -> Collector {
    let endpoint = engine().read;
    let endpoints = judges.iter().map(|url| Endpoint { url: (*url).to_owned(), ..endpoint.clone() }).collect();
    Collector::with(|c| {
        (c.role, c.store) = (ServeRole::Ingest, Some(engine()));
        c.judge = Judge { endpoints, ..Judge::default() };
    })
    .await
}

fn url(c: &Collector) -> String {
    format!("http://{}", c.running.http)
}

async fn channel(c: &Collector) -> Channel {
    Channel::from_shared(format!("http://{}", c.running.otlp_grpc)).unwrap().connect().await.unwrap()
}

async fn metric(c: &Collector, series: &str) -> f64 {
    let text = c.get("/metrics").await.1;
    let line = text.lines().find(|line| line.starts_with(series));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn judged_series_reach_the_judge_and_all_series_the_queue_of_the_engine() {
    let judge = judge().await;
    let ingest = ingest_of(&[&url(&judge)]).await;
    let now = now_ns();
    let mut grpc = ingest.grpc().await;
    // The judge never has three samples if it gets all series.
    for (metric, seconds) in [("fabric_rdma_read_requests_total", 2), ("fabric_port_io_bytes_total", 3)] {
        let points: Vec<_> = (0..seconds).map(|ago| (now - 9 * S, now - ago * S, 1)).collect();
        let request = otlp("h1", metric, &points);
        assert_eq!(grpc.export(request).await.unwrap().into_inner().partial_success, None);
    }
    until("the judge has what it judges", async || {
        metric(&judge, r#"fabriclens_ingest_samples_total{source="remote_write"}"#).await == 3.0
    })
    .await;
    assert_eq!(metric(&ingest, r#"fabriclens_forward_pending_samples{queue="store.remote"}"#).await, 5.0);
    assert_eq!(metric(&ingest, r#"fabriclens_forward_samples_total{queue="judge.samples"}"#).await, 3.0);
    assert_eq!(
        metric(&judge, r#"fabriclens_forward_pending_samples{queue="store.remote"}"#).await,
        0.0,
        "the judge does not write them to the engine again"
    );
    assert_eq!(metric(&ingest, "fabriclens_verdict_seconds_count").await, 0.0, "an ingest collector judges nothing");
    until("the judge judges", async || metric(&judge, r#"fabriclens_verdict_seconds_count{part="judge"}"#).await > 0.0)
        .await;
}

#[tokio::test]
async fn requests_of_agents_are_answered_by_the_judge() {
    let judge = judge().await;
    let (first, second) = (ingest_of(&[&url(&judge)]).await, ingest_of(&[&url(&judge)]).await);
    let ask = |host: &str| AskRequest { host: host.into(), agent: 1, switches: vec![7], reading: true };
    let granted: AskReply = unary(&channel(&first).await, ASK, ask("mgmt-1")).await.unwrap();
    assert!(granted.granted);
    let other: AskReply = unary(&channel(&second).await, ASK, ask("mgmt-2")).await.unwrap();
    assert_eq!((other.granted, other.holder.as_str()), (false, "mgmt-1"), "one judge decides for both");
    // The judge's refusals are the agent's.
    let refused = unary::<_, AskReply>(&channel(&first).await, ASK, ask("")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let answered = r#"fabriclens_judge_relayed_requests_total{method="reader_lease",result="answered"}"#;
    assert_eq!((metric(&first, answered).await, metric(&second, answered).await), (2.0, 1.0));
    let Collector { running, dir: _dir } = judge;
    running.stop().await;
    let away = unary::<_, AskReply>(&channel(&first).await, ASK, ask("mgmt-1")).await.unwrap_err();
    assert_eq!(away.code(), Code::Unavailable, "{away}");
    assert!(away.message().contains("no judge answers: http://127.0.0.1:") && !away.details().is_empty(), "{away}");
}

#[tokio::test]
async fn the_judge_lists_the_switches_of_its_ingest_collectors() {
    let judge = judge().await;
    let ingest = ingest_of(&[&url(&judge)]).await;
    let listed = async |of: &Collector| of.json("/api/v1/switches").await.1["data"]["switches"].take();
    assert_eq!(listed(&judge).await, json!([]));
    post(&ingest, cumulus("leaf1", &[("nvswitch_interface_if_out_octets", 1.0), ("nvswitch_new", 1.0)])).await;
    let own = listed(&ingest).await;
    assert_eq!((&own[0]["switch"], &own[0]["unknown"][0]["name"]), (&json!("leaf1"), &json!("nvswitch_new")), "{own}");
    until("the judge lists it, too", async || listed(&judge).await == own).await;
    for wrong in ["", "{}", r#"{"collector": 1, "switches": [{"switch": 7}]}"#] {
        let to = format!("{}{}", url(&judge), fabriclens_ingest::judge::COLLECTOR);
        let (status, text) = crate::common::post(to, &[], wrong.into()).await;
        assert!(status == 400 && text.contains("no report of a collector"), "{status} {text}");
    }
    assert_eq!(listed(&judge).await, own);
}

#[tokio::test]
async fn agents_learn_from_an_ingest_collector_which_jobs_are_in_trouble() {
    let told = json!({"switch_names": [], "troubled_jobs": [{"names": ["7"], "hosts": ["h1"]}]}).to_string();
    let judge = axum::Router::new().route(fabriclens_ingest::judge::COLLECTOR, axum::routing::post(|| async { told }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, judge).await });
    let ingest = ingest_of(&[&url]).await;
    let mut grpc = ingest.grpc().await;
    until("it answers with the judge's jobs", async || {
        let reply = grpc.export(otlp("h1", "fabric_port_io_bytes_total", &[])).await.unwrap();
        reply.metadata().get("fabriclens-troubled-jobs").is_some_and(|jobs| jobs == "7")
    })
    .await;
}

#[tokio::test]
async fn an_ingest_collector_names_the_judge_for_everything_else() {
    let judge = judge().await;
    let ingest = ingest_of(&[&url(&judge), "http://127.0.0.1:9"]).await;
    for path in ["/api/v1/query?query=up", "/api/v1/incidents", "/", "/api/v1/jobs"] {
        let (status, text) = ingest.get(path).await;
        assert_eq!(status, 421, "{path}: {text}");
        assert!(text.contains(&format!("are at the judge: {} or http://127.0.0.1:9", url(&judge))), "{text}");
    }
    for path in ["/healthz", "/metrics", "/api/v1/status/config", "/api/v1/switches"] {
        assert_eq!(ingest.get(path).await.0, 200, "{path}");
    }
    let (status, text) = ingest.get("/readyz").await;
    assert_eq!((status, text.lines().count()), (200, 1), "{text}");
    until("it found the judge", async || metric(&ingest, "fabriclens_judge_active").await == 1.0).await;
    assert_eq!(judge.get("/api/v1/incidents").await.0, 200);
}

#[tokio::test]
async fn a_judge_refuses_samples_that_come_directly_and_their_senders_keep_them() {
    let judge = judge().await;
    let now = now_ns();
    let direct = otlp("h1", "fabric_port_io_bytes_total", &[(now - 1000, now, 1)]);
    let status = judge.grpc().await.export(direct).await.unwrap_err();
    assert!(status.code() == Code::Unavailable && !status.details().is_empty(), "{status}");
    assert!(status.message().contains("send to one of them"), "{status}");
    let (status, text) = judge.remote_write(vec![series(&[("__name__", "m")], &[(now_ms(), 1.0)])]).await;
    assert!(status == 503 && text.contains("role = \"judge\""), "{status} {text}");
    let json = [("content-type", "application/json")];
    assert_eq!(judge.otlp_http(&json, b"{}".to_vec()).await.0, 503);
    // What only an ingest collector sends is no route of another role.
    let all = Collector::start().await;
    for path in [JUDGE_WRITE, "/api/v1/judge/probe_plan"] {
        assert_eq!(crate::common::post(format!("{}{path}", url(&all)), &[], vec![]).await.0, 404, "{path}");
    }
    let (status, text) = crate::common::post(format!("{}/api/v1/judge/reader_lease", url(&judge)), &[], vec![]).await;
    assert_eq!(
        (status, text.as_str()),
        (200, ""),
        "a gRPC status in the headers: the header with the agent is missing"
    );
}

#[tokio::test]
async fn two_active_judges_are_noticed() {
    let (first, second) = (judge().await, judge().await);
    let ingest = ingest_of(&[&url(&first), &url(&second)]).await;
    until("both are found", async || metric(&ingest, "fabriclens_judge_active").await == 2.0).await;
    let (status, text) = ingest.get("/readyz").await;
    assert!(status == 200 && text.contains("2 judges are active") && text.contains("judge.lease"), "{text}");
    assert!(text.contains(&format!("{}, {}", url(&first), url(&second))), "{text}");
}

#[tokio::test]
async fn only_credentials_with_the_role_write_speak_for_agents() {
    let tokens = tempfile::tempdir().unwrap();
    let file = tokens.path().join("tokens");
    let (mut lines, mut secrets) = (String::new(), Vec::new());
    for (name, role, host) in [("ingest-1", "write", None), ("agents", "ingest", None), ("h1", "write", Some("h1"))] {
        let (secret, line) = fabriclens_server::auth::new_token(name, &role.parse().unwrap(), host, None).unwrap();
        lines += &line;
        lines.push('\n');
        secrets.push(secret);
    }
    std::fs::write(&file, lines).unwrap();
    let judge = judge_with(|c| c.auth.tokens = Some(file.clone())).await;
    for (secret, want) in secrets.iter().zip([204, 403, 403]) {
        let header: &'static str = Box::leak(format!("Bearer {secret}").into_boxed_str());
        let body = snap::raw::Encoder::new().compress_vec(&[]).unwrap();
        let headers = [("authorization", header), ("content-encoding", "snappy")];
        let (status, text) = crate::common::post(format!("{}{JUDGE_WRITE}", url(&judge)), &headers, body).await;
        assert_eq!(status, want, "{text}");
        assert!(want == 204 || text.contains("give its credential the role write and no host"), "{text}");
        let report = format!("{}{}", url(&judge), fabriclens_ingest::judge::COLLECTOR);
        let told = br#"{"collector": 1, "switches": []}"#.to_vec();
        let (status, _) = crate::common::post(report, &[("authorization", header)], told).await;
        assert_eq!(status, if want == 204 { 200 } else { 403 });
    }
}

/// Longest time for a judge to take over in a test: 8 s without a renewal, the start, and a slow machine.
const TAKE_OVER: Duration = Duration::from_secs(60);
