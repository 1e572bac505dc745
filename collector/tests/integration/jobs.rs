//! Jobs from requests and files: answers, series, and the state after a restart.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::Collector;
use fabriclens_server::auth::new_token;
use serde_json::{Value, json};

async fn post(c: &Collector, path: &str, body: &str) -> (u16, Value) {
    let url = format!("http://{}{path}", c.running.http);
    let (status, answer) = common::post(url, &[("content-type", "application/json")], body.as_bytes().to_vec()).await;
    (status, serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{path}: {e}: {answer}")))
}

/// Waits until an instant query has this many series.
async fn until(c: &Collector, query: &str, series: usize) -> Vec<Value> {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let (_, answer) = c.form("/api/v1/query", &[("query", query)]).await;
        let found = answer["data"]["result"].as_array().unwrap().clone();
        if found.len() == series {
            return found;
        }
        assert!(Instant::now() < patience, "{query}: {} series, not {series}", found.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn posted_job_appears_in_queries_and_ends() {
    let c = Collector::start().await;
    let job = r#"{"id": 4711, "user": "ann", "name": "bert", "hosts": ["n1", "n2"], "start": 1700000000}"#;
    let (status, first) = post(&c, "/api/v1/jobs", job).await;
    assert_eq!(
        (status, &first["data"]["state"], &first["data"]["start_ns"]),
        (201, &json!("running"), &json!(1_700_000_000_000_000_000_i64))
    );
    assert_eq!(post(&c, "/api/v1/jobs", job).await, (200, first.clone()), "said twice is said once");
    let (status, _) =
        post(&c, "/api/v1/jobs", r#"{"id": "7", "cluster": "west", "user": "bob", "hosts": ["n2"]}"#).await;
    assert_eq!(status, 201);

    let found = until(&c, "fabric_job_info", 3).await;
    let labels: Vec<&Value> = found.iter().map(|s| &s["metric"]).collect();
    let of = |job: &str, host: &str| labels.iter().find(|l| l["job_id"] == job && l["host"] == host).copied().unwrap();
    assert_eq!(
        of("4711", "n1"),
        &json!({"__name__": "fabric_job_info", "attribution": "exclusive", "host": "n1", "job_id": "4711", "job_name": "bert", "user": "ann"})
    );
    assert_eq!((&of("4711", "n2")["attribution"], &of("7", "n2")["cluster"]), (&json!("shared"), &json!("west")));

    // The query of docs/jobs.md: two ports of the host that one job has exclusively.
    let sent = |at: i64, port: &'static str, value: f64| {
        let labels = [("__name__", "fabric_port_io_bytes_total"), ("host", "n1"), ("port", port)];
        common::series(&labels, &[(at - 30_000, 0.0), (at, value)])
    };
    let now = common::now_ms();
    assert_eq!(c.remote_write(vec![sent(now, "1", 600.0), sent(now, "2", 1200.0)]).await.0, 204);
    let by_job = r#"sum by (job_id, job_name) (sum by (host) (rate(fabric_port_io_bytes_total[1m]))
        * on (host) group_right () fabric_job_info{attribution="exclusive"})"#;
    let found = until(&c, by_job, 1).await;
    assert_eq!(found[0]["metric"], json!({"job_id": "4711", "job_name": "bert"}));
    let rate: f64 = found[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert!((rate - 30.0).abs() < 1.0, "{rate}: half a minute's bytes over a minute");

    // After the other job, one job has the host exclusively.
    assert_eq!(post(&c, "/api/v1/jobs/7/end", "").await.0, 404, "the id alone is another cluster's");
    assert_eq!(post(&c, "/api/v1/jobs/7/end?cluster=west", "").await.0, 200);
    until(&c, r#"fabric_job_info{attribution="shared"}"#, 0).await;
    until(&c, r#"fabric_job_info{job_id="4711",attribution="exclusive"}"#, 2).await;

    let (status, all) = c.json("/api/v1/jobs").await;
    let ids: Vec<&Value> = all["data"].as_array().unwrap().iter().map(|j| &j["id"]).collect();
    assert_eq!((status, ids), (200, vec![&json!("7"), &json!("4711")]), "the last one first");
    let some = |query: &str| {
        let path = format!("/api/v1/jobs?{query}");
        let c = &c;
        async move { c.json(&path).await.1["data"].as_array().unwrap().len() }
    };
    assert_eq!([some("state=running").await, some("state=ended").await, some("user=ann&host=n1").await], [1, 1, 1]);
    assert_eq!([some("end=1600000000").await, some("limit=1").await, some("cluster=east").await], [0, 1, 0]);

    // After a restart the job is known and continues.
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, |_| {}).await;
    assert_eq!(c.json("/api/v1/jobs/4711").await.1["data"], first["data"]);
    until(&c, "fabric_job_info", 2).await;
    let (status, ended) = post(&c, "/api/v1/jobs/4711/end", r#"{"end": "2023-11-14T22:13:21Z"}"#).await;
    assert_eq!((status, &ended["data"]["end_ns"]), (200, &json!(1_700_000_001_000_000_000_i64)));
    until(&c, "fabric_job_info", 0).await;
}

#[tokio::test]
async fn invalid_jobs_are_rejected() {
    let c = Collector::start().await;
    let error = |answer: (u16, Value)| (answer.0, answer.1["error"].as_str().unwrap().to_owned());
    let (status, message) = error(post(&c, "/api/v1/jobs", r#"{"id": "1", "node": "n1"}"#).await);
    assert!(status == 400 && message.starts_with("unknown field `node`"), "{status} {message}");
    let (status, message) = error(post(&c, "/api/v1/jobs", r#"{"id": "1", "hosts": [""]}"#).await);
    assert!(status == 400 && message.starts_with("job 1: host \"\" is not a name"), "{status} {message}");
    let (status, message) = error(post(&c, "/api/v1/jobs/1/end", "").await);
    assert!(status == 404 && message.starts_with("there is no job 1; GET /api/v1/jobs"), "{status} {message}");
    let (status, message) = error(c.json("/api/v1/jobs?state=odd").await);
    assert!(status == 400 && message.contains("neither running nor ended"), "{status} {message}");
    assert_eq!(c.json("/api/v1/jobs").await.1["data"], json!([]));
}

#[tokio::test]
async fn job_directory_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("a.json"), r#"{"id": "a", "user": "ann", "hosts": {"n1": {"devices": ["mlx5_0"]}}}"#).unwrap();
    std::fs::write(path("bad.json"), "{").unwrap();
    std::fs::write(path("note.txt"), "not a job").unwrap();
    let jobs = dir.path().to_owned();
    let c = Collector::with(|config| config.jobs.dir = Some(jobs)).await;
    until(&c, "fabric_job_info", 1).await;
    let job = c.json("/api/v1/jobs/a").await.1["data"].clone();
    assert_eq!((&job["sources"], &job["hosts"]), (&json!(["file"]), &json!({"n1": {"devices": ["mlx5_0"]}})));
    // A request overrides the file, and a removed file ends the job.
    let patch = format!("http://{}/api/v1/jobs/a", c.running.http);
    let call = tokio::task::spawn_blocking(move || ureq::patch(&patch).send(r#"{"user": "root"}"#).unwrap().status());
    assert_eq!(call.await.unwrap(), 200);
    std::fs::remove_file(path("a.json")).unwrap();
    std::fs::write(path("bad.json"), r#"{"id": "b", "hosts": ["n2"]}"#).unwrap();
    until(&c, r#"fabric_job_info{job_id="b"}"#, 1).await;
    until(&c, r#"fabric_job_info{job_id="a"}"#, 0).await;
    let job = c.json("/api/v1/jobs/a").await.1["data"].clone();
    assert_eq!((&job["state"], &job["user"]), (&json!("ended"), &json!("root")));
    assert_eq!(job["disagreements"], json!(["user: file says ann, http says root"]));
}

#[tokio::test]
async fn large_jobs_and_foreign_jobs_are_refused_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    let token = |name: &str, roles: &str, host| new_token(name, &roles.parse().unwrap(), host, None).unwrap();
    let (ann, ann_line) = token("ann", "read,write", None);
    let (host, host_line) = token("hook-9", "read,write", Some("n9"));
    let (root, root_line) = token("root", "admin", None);
    std::fs::write(&file, format!("{ann_line}\n{host_line}\n{root_line}\n")).unwrap();
    let c = Collector::over(dir, |config| config.auth.tokens = Some(file)).await;
    let call = async |method: &str, path: &str, token: &str, body: &str| {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", c.running.http))
            .header("authorization", format!("Bearer {token}"))
            .body(body.to_owned())
            .unwrap();
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = common::process::agent().run(request).unwrap();
            (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
        });
        answer.await.unwrap()
    };
    let jobs = "/api/v1/jobs";
    let job = r#"{"id": 4711, "user": "ann", "hosts": ["n1"], "aliases": [4703]}"#;
    assert_eq!(call("POST", jobs, &ann, job).await.0, 201);
    // Short bodies that would expand to much are refused before they do.
    let long = format!(r#"{{"id": 1, "hosts": "{}[1-65536]"}}"#, "x".repeat(240));
    let (status, text) = call("POST", jobs, &ann, &long).await;
    assert!(status == 400 && text.contains("have more than 4194304 bytes in total"), "{status} {text}");
    // A host neither joins a job of others, nor reports jobs elsewhere, nor silences.
    for (method, path, body) in [
        ("POST", jobs, r#"{"id": 4711, "hosts": ["n9"]}"#),
        ("POST", jobs, r#"{"id": 4703, "hosts": ["n9"]}"#),
        ("PATCH", "/api/v1/jobs/4711", r#"{"hosts": ["n9"]}"#),
        ("POST", "/api/v1/jobs/4711/end", ""),
        ("POST", "/api/v1/silences", r#"{"match": {"node": "n1"}, "for": "1h"}"#),
    ] {
        let (status, text) = call(method, path, &host, body).await;
        assert_eq!(status, 403, "{method} {path} {body}: {text}");
    }
    let (status, text) = call("POST", jobs, &host, r#"{"id": 5, "hosts": ["n1"]}"#).await;
    assert!(status == 400 && text.contains("bound to n9 and cannot report a job on n1"), "{status} {text}");
    for id in 1..=3 {
        assert_eq!(call("POST", jobs, &host, &format!(r#"{{"id": {id}, "hosts": ["n9"]}}"#)).await.0, 201);
    }
    // Lists are paged; an administrator deletes one job, or all of a sender.
    let list = async |query: &str| -> Value {
        let (status, text) = call("GET", &format!("{jobs}?{query}"), &ann, "").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    let (mut ids, mut query) = (Vec::new(), "limit=3".to_owned());
    loop {
        let page = list(&query).await;
        ids.extend(page["data"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("limit=3&cursor={}", next.replace(':', "%3A"));
    }
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2", "3", "4711"]);
    assert_eq!(list("sender=host/n9").await["data"][0]["reported_by"], json!(["host/n9"]));
    assert_eq!(call("DELETE", "/api/v1/jobs/1", &ann, "").await.0, 403);
    assert_eq!(call("DELETE", jobs, &root, "").await.0, 400);
    assert_eq!(
        call("DELETE", "/api/v1/jobs/1", &root, "").await,
        (200, r#"{"status":"success","data":{"deleted":1}}"#.into())
    );
    assert_eq!(call("DELETE", "/api/v1/jobs/1", &root, "").await.0, 404);
    assert!(call("DELETE", "/api/v1/jobs?sender=host/n9", &root, "").await.1.contains(r#""deleted":2"#));
    assert_eq!(list("").await["data"].as_array().unwrap().len(), 1);
}
