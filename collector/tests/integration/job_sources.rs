//! Job sources other than requests and files: agents' samples, slurmrestd, Kubernetes, and Slurm's hooks.

use crate::common;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Collector;
use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use fabriclens_config::{Config, Endpoint, Kubernetes, Pods, Slurmrestd};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// All jobs, once one of them fits.
async fn until(c: &Collector, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let patience = Instant::now() + Duration::from_secs(40);
    loop {
        let (_, answer) = c.json("/api/v1/jobs").await;
        let jobs = answer["data"].as_array().unwrap().clone();
        if jobs.iter().any(&wanted) {
            return jobs;
        }
        assert!(Instant::now() < patience, "{jobs:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server with one page.
async fn serve(router: Router) -> String {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(socket, router).await });
    format!("http://{address}")
}

fn endpoint(url: String) -> Endpoint {
    let (timeout, headers) = (Duration::from_secs(10), [].into());
    Endpoint { url, username: None, password_file: None, bearer_token_file: None, ca: None, headers, timeout }
}

#[tokio::test]
async fn agent_and_slurm_jobs_merge() {
    let c = Collector::start().await;
    let now = common::now_ms();
    let every = |from: i64, to: i64| -> Vec<(i64, f64)> {
        (from..=to).step_by(10).map(|s| (now - 600_000 + s * 1000, 1.0)).collect()
    };
    let (whole, gone) = (every(400, 600), every(400, 520));
    let processes = |host, job, samples: &[(i64, f64)]| {
        let labels = [
            ("__name__", "fabric_job_processes"),
            ("cluster", ""),
            ("host", host),
            ("job", job),
            ("scheduler", "slurm"),
        ];
        common::series(&labels, samples)
    };
    let zero: Vec<(i64, f64)> = whole.iter().map(|(at, _)| (*at, 0.0)).collect();
    let looks = |host| common::series(&[("__name__", "fabric_job_omitted"), ("host", host)], &zero);
    let info = |host| common::series(&[("__name__", "fabriclens_agent_info"), ("host", host)], &whole);
    let port = [
        ("__name__", "fabric_port_info"),
        ("device", "mlx5_0"),
        ("host", "n1.example"),
        ("pci_address", "0000:18:00.0"),
    ];
    let pairs = [
        ("__name__", "fabric_job_queue_pairs"),
        ("cluster", ""),
        ("device", "mlx5_0"),
        ("host", "n1.example"),
        ("job", "703"),
        ("port", "1"),
        ("scheduler", "slurm"),
    ];
    let sent = vec![
        processes("n1.example", "703", &whole),
        processes("n2.example", "703", &gone),
        processes("n2.example", "704", &gone),
        common::series(&pairs, &whole),
        common::series(&port, &whole),
        looks("n1.example"),
        looks("n2.example"),
        info("n1.example"),
        info("n2.example"),
    ];
    let (status, why) = c.remote_write(sent).await;
    assert_eq!(status, 204, "{why}");
    // The first evaluation looks back furthest, and may have been before the samples arrived.
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, |_| {}).await;
    // Known from agents only: one job runs on the host that still has its processes, the other has ended.
    let jobs = until(&c, |j| j["id"] == "704" && j["state"] == "ended").await;
    let of = |jobs: &[Value], id: &str| jobs.iter().find(|j| j["id"] == id).unwrap().clone();
    let (runs, over) = (of(&jobs, "703"), of(&jobs, "704"));
    assert_eq!((&runs["state"], &runs["sources"]), (&json!("running"), &json!(["agent"])));
    assert_eq!(runs["hosts"], json!({"n1.example": {"devices": ["mlx5_0"]}, "n2.example": {}}));
    assert_eq!(over["end_ns"], json!((now - 80_000) * 1_000_000), "when its last process was seen");

    // Slurm has another name for it, and for the host.
    let Collector { running, dir } = c;
    running.stop().await;
    let queue = dir.path().join("queue.txt");
    let start = now / 1000 - 250;
    let text = format!(
        "JobId=703 ArrayJobId=700 ArrayTaskId=3 JobName=sweep\n   UserId=ann(1) JobState=RUNNING\n   StartTime={start} NodeList=n[1,9]\n"
    );
    std::fs::write(&queue, text).unwrap();
    let line = format!("cat {}", queue.display());
    let c = Collector::over(dir, move |config: &mut Config| config.jobs.squeue = Some(line)).await;
    let jobs = until(&c, |j| j["id"] == "700_3" && j["hosts"].get("n1.example").is_some()).await;
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let task = of(&jobs, "700_3");
    assert_eq!((&task["sources"], &task["aliases"]), (&json!(["agent", "slurm"]), &json!(["703"])));
    assert_eq!(
        (&task["user"], &task["run"], &task["start_ns"]),
        (&json!("ann"), &json!(1), &json!(start * 1_000_000_000))
    );
    assert_eq!(task["hosts"]["n1.example"]["devices"], json!(["mlx5_0"]));
    let said = task["disagreements"].as_array().unwrap();
    assert!(said.contains(&json!("no agent is called n9")), "{said:?}");
    assert!(said.contains(&json!("seen on n2.example, which slurm does not name: not part of the job")), "{said:?}");
    // The job number finds it too.
    assert_eq!(c.json("/api/v1/jobs/703").await.1["data"]["id"], "700_3");
}

#[tokio::test]
async fn slurmrestd_requests_carry_user_and_token() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "SLURM_JWT=abc\n").unwrap();
    let list = json!({"errors": [], "jobs": [{"job_id": 12, "job_state": ["RUNNING"], "nodes": "n[1-2]", "cluster": "hpc",
        "user_name": "ann", "name": "train", "start_time": {"set": true, "infinite": false, "number": 1_700_000_000}}]});
    let answer = move |headers: HeaderMap| {
        let told = |name: &str| headers.get(name).map(|v| v.to_str().unwrap().to_owned());
        let known = told("x-slurm-user-name").as_deref() == Some("root")
            && told("x-slurm-user-token").as_deref() == Some("abc");
        let answer = if known { (StatusCode::OK, list.to_string()) } else { (StatusCode::UNAUTHORIZED, String::new()) };
        async move { answer }
    };
    let base = serve(Router::new().route("/slurm/v0.0.40/jobs", get(answer))).await;
    let mut endpoint = endpoint(format!("{base}/slurm/v0.0.40/jobs"));
    endpoint.headers.insert("X-SLURM-USER-NAME".into(), "root".into());
    let rest = Slurmrestd { endpoint, token_file: Some(token) };
    let c = Collector::with(|config| config.jobs.slurmrestd = Some(rest)).await;
    let jobs = until(&c, |j| j["id"] == "12").await;
    assert_eq!((&jobs[0]["cluster"], &jobs[0]["hosts"]), (&json!("hpc"), &json!({"n1": {}, "n2": {}})));
    assert_eq!(jobs[0]["sources"], json!(["slurm"]));
    c.running.stop().await;
}

#[tokio::test]
async fn kubernetes_lists_are_paged() {
    let pod = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "ml", "uid": format!("uid-{name}"),
                "ownerReferences": [{"kind": "PyTorchJob", "name": "llama", "uid": "u", "controller": true}]},
            "spec": {"nodeName": format!("node-{name}")},
            "status": {"phase": "Running", "startTime": "2026-01-31T12:00:00Z"}})
    };
    let part = |name: &str, next: &str| {
        json!({"kind": "PodList", "metadata": {"continue": next}, "items": [pod(name)]}).to_string()
    };
    let (first, second) = (part("a", "next+part"), part("b", ""));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let answer = move |Query(form): Query<HashMap<String, String>>, headers: HeaderMap| {
        let body =
            if form.get("continue").is_some_and(|next| next == "next+part") { second.clone() } else { first.clone() };
        let known = headers.get("authorization").is_some_and(|v| v == "Bearer abc");
        log.lock().push((form["limit"].clone(), known));
        async move { body }
    };
    let base = serve(Router::new().route("/api/v1/pods", get(answer))).await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "abc").unwrap();
    let mut endpoint = endpoint(format!("{base}/api/v1/pods"));
    endpoint.bearer_token_file = Some(dir.path().join("token"));
    let kubernetes = Kubernetes { pods: Pods::Url(endpoint), cluster: "west".into() };
    let c = Collector::with(|config| config.jobs.kubernetes = Some(kubernetes)).await;
    let jobs = until(&c, |j| j["id"] == "ml/pytorchjob/llama").await;
    assert_eq!((&jobs[0]["hosts"], &jobs[0]["cluster"]), (&json!({"node-a": {}, "node-b": {}}), &json!("west")));
    assert_eq!(asked.lock()[..2], [("500".to_owned(), true), ("500".to_owned(), true)]);
    // It has slashes in its name, and its pods are names of it.
    let (status, one) = c.json("/api/v1/jobs/ml%2Fpytorchjob%2Fllama?cluster=west").await;
    assert_eq!((status, &one["data"]["aliases"]), (200, &json!(["uid-a", "uid-b"])));
}

/// Runs the hook as Slurm does.
fn hook(url: &str, spool: &std::path::Path, context: &str, env: &[(&str, &str)]) {
    let script = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/slurm/fabriclens-hook"));
    let began = Instant::now();
    let mut command = Command::new(script);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("FABRICLENS_URL", url).env("FABRICLENS_SPOOL", spool).env("FABRICLENS_HOOK_CONFIG", "/nonexistent");
    command.env("SLURM_CLUSTER_NAME", "lab").env("SLURM_SCRIPT_CONTEXT", context);
    let done = command.envs(env.iter().copied()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert!(done.stdout.is_empty() && done.stderr.is_empty(), "Slurm reads what a prolog prints: {done:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

fn events(spool: &std::path::Path) -> usize {
    let all = std::fs::read_dir(spool).unwrap().filter_map(Result::ok);
    all.filter(|e| e.file_name().to_string_lossy().contains(".event")).count()
}

#[tokio::test]
#[ignore = "needs: curl"]
async fn hooks_report_jobs_and_retry() {
    let c = Collector::start().await;
    let spool = tempfile::tempdir().unwrap();
    let (url, path) = (format!("http://{}", c.running.http), spool.path().to_owned());
    let begin: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "4703"),
        ("SLURM_ARRAY_JOB_ID", "4700"),
        ("SLURM_ARRAY_TASK_ID", "3"),
        ("SLURM_JOB_NAME", "a \"b\" \\c\n'$(touch /tmp/no)"),
        ("SLURM_JOB_USER", "ann"),
        ("SLURM_JOB_ACCOUNT", "(null)"),
        ("SLURM_JOB_PARTITION", "gpu"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
    ];
    let node: &[(&str, &str)] = &[("SLURM_JOB_ID", "4710"), ("SLURM_HET_JOB_ID", "4709")];
    let part: &[(&str, &str)] = &[("SLURM_HET_JOB_OFFSET", "1"), ("SLURM_JOB_NODELIST", "n3")];
    let part = [node, part].concat();
    let of_node = move |name: &'static str| [node, &[("SLURMD_NODENAME", name)][..]].concat();
    let (u, p) = (url.clone(), path.clone());
    tokio::task::spawn_blocking(move || {
        hook(&u, &p, "prolog_slurmctld", begin);
        // A node knows only the number of its task; the controller knows the array index, and may report later.
        hook(&u, &p, "prolog_slurmd", &of_node("n3"));
        hook(&u, &p, "prolog_slurmctld", &part);
        hook(&u, &p, "prolog_slurmd", &of_node("n4"));
        hook(&u, &p, "epilog_slurmd", &of_node("n3"));
        // An epilog of an unknown job is no error and is not kept.
        hook(&u, &p, "epilog_slurmctld", &[("SLURM_JOB_ID", "1")]);
    })
    .await
    .unwrap();
    let (_, answer) = c.json("/api/v1/jobs").await;
    let of = |id: &str| answer["data"].as_array().unwrap().iter().find(|j| j["id"] == id).unwrap().clone();
    let (task, part) = (of("4700_3"), of("4709+1"));
    assert_eq!((&task["name"], &task["user"]), (&json!("a \"b\" \\c'$(touch /tmp/no)"), &json!("ann")));
    assert_eq!((&task["hosts"], &task["labels"]), (&json!({"n1": {}, "n2": {}}), &json!({"partition": "gpu"})));
    assert_eq!(
        (&task["cluster"], &task["aliases"], &task["state"]),
        (&json!("lab"), &json!(["4703"]), &json!("running"))
    );
    assert_eq!(
        (&part["hosts"], &part["run"], &part["state"]),
        (&json!({"n3": {}, "n4": {}}), &json!(1), &json!("ended"))
    );
    assert_eq!(events(&path), 0);

    // The collector is down: hooks succeed and keep their events.
    let Collector { running, dir } = c;
    let address = running.http;
    running.stop().await;
    let (u, p) = (url.clone(), path.clone());
    let later: &[(&str, &str)] = &[("SLURM_JOB_ID", "5"), ("SLURM_JOB_NODELIST", "n7")];
    tokio::task::spawn_blocking(move || {
        hook(&u, &p, "epilog_slurmctld", begin);
        hook(&u, &p, "prolog_slurmctld", later);
        // A node does not know the start time, so a late event would begin another run.
        hook(&u, &p, "prolog_slurmd", &of_node("n3"));
    })
    .await
    .unwrap();
    assert_eq!(events(&path), 2);
    let ended = common::now_ms();
    let c = Collector::over(dir, move |config| config.listen.http = address).await;
    // Times of events are whole seconds: the delivery must be later than `ended`.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    // The mark delays the next attempt by half a minute; without it the hook tries at once.
    std::fs::remove_file(path.join("away")).unwrap();
    let (u, p) = (url, path.clone());
    tokio::task::spawn_blocking(move || hook(&u, &p, "epilog_slurmctld", later)).await.unwrap();
    assert_eq!(events(&path), 0);
    let task = c.json("/api/v1/jobs/4700_3?cluster=lab").await.1;
    let other = c.json("/api/v1/jobs/5?cluster=lab").await.1;
    let end = task["data"]["end_ns"].as_i64().unwrap() / 1_000_000;
    assert!(end <= ended, "the end is when it was, not when it was told: {end} {ended}");
    assert_eq!((&other["data"]["state"], &other["data"]["hosts"]), (&json!("ended"), &json!({"n7": {}})));
}
