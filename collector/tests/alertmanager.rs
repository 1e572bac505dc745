//! Incidents reach a real Alertmanager, and people behind it; and a webhook that is down at first, over a restart.
//!
//! The first is skipped, loudly, where `prometheus-alertmanager` is not installed.
#![allow(clippy::unwrap_used, reason = "a test says no more by failing politely")]

mod common;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use common::{Collector, fetch, now_ns};
use fabriclens::config::{Endpoint, Webhook};
use fabriclens_correlate::Kind;
use fabriclens_correlate::incident::{Incident, Place, Severity};
use parking_lot::Mutex;
use serde_json::{Value, json};

const S: i64 = 1_000_000_000;

fn incident(id: &str) -> Incident {
    let start_ns = now_ns() as i64 - 10 * S;
    Incident {
        id: id.to_owned(),
        kind: Kind::LossyLink,
        start_ns,
        detected_ns: start_ns + S,
        end_ns: None,
        merged_into: None,
        severity: Severity::Critical,
        confidence: 0.9,
        root: Place::Link {
            a: "leaf1".to_owned(),
            a_port: "5".to_owned(),
            b: "spine2".to_owned(),
            b_port: String::new(),
        },
        culprit_jobs: vec![],
        victim_jobs: vec!["4711".to_owned()],
        low_before: Default::default(),
        victim_ports: vec![],
        evidence: vec![],
        explanation: "leaf1 - spine2 corrupts \"frames\".".to_owned(),
        action: "Replace the cable.".to_owned(),
    }
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        url: url.to_owned(),
        username: None,
        password_file: None,
        bearer_token_file: None,
        ca: None,
        headers: [].into(),
        timeout: Duration::from_secs(10),
    }
}

/// Takes what is posted, unless it is down.
#[derive(Clone, Default)]
struct Phone {
    down: Arc<AtomicBool>,
    came: Arc<Mutex<Vec<Value>>>,
}

impl Phone {
    async fn start(&self) -> String {
        let take = |State(phone): State<Self>, body: String| async move {
            if phone.down.load(Ordering::Relaxed) {
                return StatusCode::BAD_GATEWAY;
            }
            phone.came.lock().push(serde_json::from_str(&body).unwrap());
            StatusCode::OK
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().route("/", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        url
    }

    async fn until(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            if let Some(found) = self.came.lock().iter().find(|m| fits(m)) {
                return found.clone();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", self.came.lock());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_real_alertmanager_hears_of_an_incident_and_of_its_end() {
    let program = "prometheus-alertmanager";
    let quiet = |c: &mut Command| c.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if quiet(Command::new(program).arg("--version")).map(|mut c| c.wait().unwrap()).is_err() {
        println!("SKIPPED: {program} not found; install it (apt-get install {program})");
        return;
    }
    let (dir, phone) = (tempfile::tempdir().unwrap(), Phone::default());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "route: {{receiver: phone, group_by: [incident], group_wait: 0s, group_interval: 1s}}\n\
         receivers: [{{name: phone, webhook_configs: [{{url: '{}'}}]}}]\n",
        phone.start().await
    );
    std::fs::write(dir.path().join("am.yml"), config).unwrap();
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", dir.path().join("am.yml").display()))
        .arg(format!("--storage.path={}", dir.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=");
    let _alertmanager = Killed(quiet(&mut command).unwrap());

    // It may still be starting: what cannot be told is told later.
    let base = format!("http://127.0.0.1:{port}");
    let c = Collector::with(|config| {
        config.external_url = Some("https://fabric.example".to_owned());
        config.alertmanager.endpoints = vec![endpoint(&base)];
    })
    .await;
    let book = c.running.incidents().clone();
    let one = incident("a");
    book.update(now_ns() as i64, std::slice::from_ref(&one));
    let firing = phone.until(|m| m["status"] == "firing").await;
    let alert = &firing["alerts"][0];
    assert_eq!(
        alert["labels"],
        json!({"alertname": "FabriclensLossyLink", "incident": "a", "kind": "lossy_link", "severity": "critical",
            "root_type": "link", "node": "leaf1", "port": "5", "peer": "spine2"})
    );
    assert_eq!(alert["annotations"]["description"], "lossy_link: leaf1 - spine2 corrupts \"frames\".");
    assert_eq!(alert["generatorURL"], "https://fabric.example/api/v1/incidents/a");
    let (_, _, listed) = fetch(&base, "/api/v2/alerts").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["status"]["state"]), (1, &json!("active")));

    book.update(now_ns() as i64, &[Incident { end_ns: Some(now_ns() as i64), ..one }]);
    phone.until(|m| m["status"] == "resolved").await;
    assert_eq!(fetch(&base, "/api/v2/alerts").await.2.trim(), "[]");
    let sent = c.get("/metrics").await.1;
    let line = format!("fabriclens_notifications_total{{outcome=\"sent\",receiver=\"alertmanager {base}\"}} 2");
    assert!(sent.contains(&line), "{}", sent.lines().filter(|l| l.contains("notif")).collect::<Vec<_>>().join("\n"));
    c.running.stop().await;
}

#[tokio::test]
async fn a_webhook_that_was_down_is_told_after_a_restart_and_not_twice() {
    let phone = Phone::default();
    let url = phone.start().await;
    let hooked = |config: &mut fabriclens::config::Config| {
        config.webhook = vec![Webhook { name: "w".into(), endpoint: endpoint(&url), repeat: Duration::ZERO }];
    };
    phone.down.store(true, Ordering::Relaxed);
    let c = Collector::with(hooked).await;
    c.running.incidents().update(now_ns() as i64, &[incident("a")]);
    let failed = "fabriclens_notifications_total{outcome=\"failed\",receiver=\"webhook w\"} 1";
    let began = Instant::now();
    while !c.get("/metrics").await.1.contains(failed) {
        assert!(began.elapsed() < Duration::from_secs(30), "nothing was tried");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let Collector { running, dir } = c;
    running.stop().await;
    phone.down.store(false, Ordering::Relaxed);
    let c = Collector::over(dir, hooked).await;
    let opened = phone.until(|m| m["event"] == "opened").await;
    assert_eq!((&opened["key"], &opened["incident"]["root"]["a"]), (&json!("a-1"), &json!("leaf1")));
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, hooked).await;
    c.running.incidents().give_up(now_ns() as i64, &["a"]);
    let resolved = phone.until(|m| m["event"] == "resolved").await;
    assert_eq!(resolved["key"], "a-2");
    assert_eq!(phone.came.lock().len(), 2);
    c.running.stop().await;
}
