//! Messages about ended jobs: a webhook by user, programs (shipped ones with fake commands), a program that hangs, and a restart.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::routing::post;
use fabriclens_config::{Config, JobNotification, Overrides, load};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::common;
use crate::common::Collector;

/// Path, idempotency key and body of each message.
type Messages = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A receiver of webhooks on a free port.
async fn receiver() -> (String, Messages) {
    let messages = Messages::default();
    let take = async |State(messages): State<Messages>, headers: HeaderMap, uri: Uri, body: String| {
        let key = headers["idempotency-key"].to_str().unwrap().to_owned();
        messages.lock().push((uri.path().to_owned(), key, serde_json::from_str(&body).unwrap()));
    };
    let router = Router::new().route("/{*path}", post(take)).with_state(messages.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, messages)
}

/// Receivers as a configuration file has them.
fn receivers(toml: &str) -> Vec<JobNotification> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, toml).unwrap();
    load(Some(&path), [], &Overrides::default()).unwrap().job_notification
}

fn script(path: PathBuf, text: &str) -> String {
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// A wrapper of a shipped program that finds a fake command, which writes its arguments and its input to `out`.
fn shipped(dir: &Path, program: &str, variable: &str, out: &Path) -> String {
    let out = out.display();
    let fake = format!("{{ for word; do echo \"<$word>\"; done; cat; }} >> {out}");
    let fake = script(dir.join(format!("fake-{variable}")), &fake);
    let program = format!("{}/../deploy/{program}", env!("CARGO_MANIFEST_DIR"));
    script(dir.join(variable), &format!("{variable}={fake} exec {program}"))
}

/// Reports a job of five minutes that ends now, with samples up to its end.
async fn run_job(c: &Collector, id: &str, user: &str) {
    let now = common::now_ms();
    let labels = [
        ("__name__", "fabric_port_io_bytes_total"),
        ("host", "n1"),
        ("device", "mlx5_0"),
        ("port", "1"),
        ("direction", "transmit"),
    ];
    let points: Vec<(i64, f64)> = (0..=31).map(|n| (now - 310_000 + n * 10_000, n as f64 * 1e9)).collect();
    assert_eq!(c.remote_write(vec![common::series(&labels, &points)]).await.0, 204);
    let base = format!("http://{}/api/v1/jobs", c.running.http);
    let json = [("content-type", "application/json")];
    let start = (now - 300_000) / 1000;
    let job = json!({"id": id, "user": user, "hosts": ["n1"], "start": start}).to_string();
    let (status, answer) = common::post(base.clone(), &json, job.into_bytes()).await;
    assert!(status < 300, "{answer}");
    let (status, answer) = common::post(format!("{base}/{id}/end"), &json, b"{}".to_vec()).await;
    assert!(status < 300, "{answer}");
}

async fn metric(c: &Collector, receiver: &str, outcome: &str) -> u64 {
    let text = c.get("/metrics").await.1;
    let name =
        format!("fabriclens_notifications_total{{outcome=\"{outcome}\",receiver=\"job_notification {receiver}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

#[tokio::test]
async fn owners_are_told_once() {
    let (url, messages) = receiver().await;
    let dir = tempfile::tempdir().unwrap();
    let (comments, mails) = (dir.path().join("comments"), dir.path().join("mails"));
    let comment = shipped(dir.path(), "slurm/fabriclens-job-comment", "FABRICLENS_SCONTROL", &comments);
    let mail = shipped(dir.path(), "mail/fabriclens-job-mail", "FABRICLENS_SENDMAIL", &mails);
    let hangs = script(dir.path().join("hangs"), "sleep 600");
    let common = "min_run_time = '1m'\ndelay = '0s'\n";
    let toml = format!(
        "[[job_notification]]\nname = 'chat'\nurl = '{url}/hooks/{{user}}'\n{common}
         template = '{{\"text\": \"job {{id}}: {{cost}} {{url}}\"}}'\n
         [[job_notification]]\nname = 'all'\nurl = '{url}/all'\n{common}
         [[job_notification]]\nname = 'lost'\nurl = '{url}/lost'\nonly = 'lost'\n{common}
         [[job_notification]]\nname = 'long'\nurl = '{url}/long'\ndelay = '0s'\n
         [[job_notification]]\nname = 'slurm'\nprogram = '{comment}'\n{common}
         [[job_notification]]\nname = 'mail'\nprogram = '{mail}'\n{common}
         [[job_notification]]\nname = 'hangs'\nprogram = '{hangs}'\ntimeout = '500ms'\n{common}"
    );
    let receivers = receivers(&toml);
    let change = |config: &mut Config| {
        config.job_notification.clone_from(&receivers);
        config.external_url = Some("https://fabric.example".to_owned());
    };
    let c = Collector::with(change).await;
    run_job(&c, "4711", "an\"n/x").await;
    for receiver in ["chat", "all"] {
        common::until("it is sent", async || metric(&c, receiver, "sent").await == 1).await;
    }
    // A name of a user stays one segment of the path, and inside its string.
    let got = messages.lock().clone();
    let of = |path: &str| got.iter().filter(|(at, ..)| at == path).collect::<Vec<_>>();
    let [(_, key, body)] = of("/hooks/an%22n%2Fx")[..] else { panic!("{got:?}") };
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("job 4711: Whether the network held this job back"), "{text}");
    assert!(text.ends_with(" https://fabric.example/api/v1/jobs/4711/report?run=1"), "{text}");
    assert!(key.starts_with("chat--4711-1-"), "{key}");
    let [(_, _, body)] = of("/all")[..] else { panic!("{got:?}") };
    assert_eq!(
        (&body["event"], &body["job"]["user"], &body["has_lost"]),
        (&json!("job_ended"), &json!("an\"n/x"), &Value::Null)
    );
    assert_eq!(body["earlier"], "There is no earlier job of this user and size to compare with.");
    common::until("it is left out", async || metric(&c, "lost", "omitted").await == 1).await;

    // The shipped programs: nobody is called so.
    common::until("a comment is written", async || metric(&c, "slurm", "sent").await == 1).await;
    common::until("a mail is refused", async || metric(&c, "mail", "refused").await == 1).await;
    let said = std::fs::read_to_string(&comments).unwrap();
    let start = "<update>\n<JobId=4711>\n<AdminComment=Whether the network held this job back";
    assert!(said.starts_with(start) && said.lines().count() == 3, "{said}");
    assert!(!mails.exists());
    common::until("a program is killed", async || metric(&c, "hangs", "failed").await > 0).await;
    assert_eq!(metric(&c, "long", "sent").await, 0);

    // After a restart only the next job is told.
    let Collector { running, dir: data } = c;
    running.stop().await;
    let c = Collector::over(data, change).await;
    run_job(&c, "4712", "ann").await;
    common::until("the next is sent", async || metric(&c, "all", "sent").await == 1).await;
    common::until("the next is mailed", async || metric(&c, "mail", "sent").await == 1).await;
    let all = messages
        .lock()
        .iter()
        .filter(|(at, ..)| at == "/all")
        .map(|(.., body)| body["job"]["id"].clone())
        .collect::<Vec<_>>();
    assert_eq!(all, [json!("4711"), json!("4712")]);
    assert!(messages.lock().iter().all(|(at, ..)| at != "/lost" && at != "/long"));
    let mailed = std::fs::read_to_string(&mails).unwrap();
    assert!(mailed.starts_with("<-i>\n<-->\n<ann>\nTo: ann\nSubject: Job 4712: what the network cost\n"), "{mailed}");
    assert!(
        mailed.contains("\n\nWhether the network held") && mailed.ends_with("jobs/4712/report?run=1\n"),
        "{mailed}"
    );
    c.running.stop().await;
}

#[tokio::test]
async fn a_receiver_that_is_away_is_told_later_and_a_missing_host_waits() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let toml =
        format!("[[job_notification]]\nname = 'w'\nurl = 'http://{address}/x'\nmin_run_time = '0s'\ndelay = '0s'\n");
    let receivers = receivers(&toml);
    let c = Collector::with(|config| config.job_notification = receivers).await;
    // Samples of this host may still come, so its report waits.
    let base = format!("http://{}/api/v1/jobs", c.running.http);
    let json = [("content-type", "application/json")];
    let job = json!({"id": "unseen", "hosts": ["nowhere"]}).to_string();
    assert!(common::post(base.clone(), &json, job.into_bytes()).await.0 < 300);
    assert!(common::post(format!("{base}/unseen/end"), &json, b"{}".to_vec()).await.0 < 300);
    run_job(&c, "7", "ann").await;
    common::until("it fails", async || metric(&c, "w", "failed").await > 0).await;
    let messages = Messages::default();
    let take = async |State(messages): State<Messages>, body: String| {
        messages.lock().push((String::new(), String::new(), serde_json::from_str(&body).unwrap()));
    };
    let router = Router::new().route("/x", post(take)).with_state(messages.clone());
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    common::until("it is sent", async || metric(&c, "w", "sent").await == 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let ids: Vec<Value> = messages.lock().iter().map(|(.., body)| body["job"]["id"].clone()).collect();
    assert_eq!(ids, [json!("7")]);
    c.running.stop().await;
}
