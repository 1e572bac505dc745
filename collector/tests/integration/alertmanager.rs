//! Notifications: a real Alertmanager with its own receiver, and a webhook that is down at first, over a restart.

use crate::common;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Collector, fetch, now_ns};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use fabriclens_config::{Endpoint, Webhook};
use fabriclens_correlate::IncidentKind;
use fabriclens_correlate::{Incident, Location, Severity};
use parking_lot::Mutex;
use serde_json::{Value, json};

const S: i64 = 1_000_000_000;

fn incident(id: &str) -> Incident {
    let start_ns = now_ns() as i64 - 10 * S;
    Incident {
        id: id.to_owned(),
        kind: IncidentKind::LossyLink,
        start_ns,
        detected_ns: start_ns + S,
        end_ns: None,
        merged_into: None,
        split_from: None,
        severity: Severity::Critical,
        confidence: 0.9,
        root: Location::Link {
            a: "leaf1".to_owned(),
            a_port: "5".to_owned(),
            b: "spine2".to_owned(),
            b_port: String::new(),
        },
        priorities: Default::default(),
        culprit_jobs: vec![],
        victim_jobs: vec!["4711".to_owned()],
        low_before: Default::default(),
        victim_ports: vec![],
        senders: vec![],
        path: None,
        considered: vec![],
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

/// Accepts posts, unless it is down.
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

/// Debian's Alertmanager, with a directory that survives its restart.
struct Alertmanager {
    child: Child,
    dir: tempfile::TempDir,
    base: String,
}

const PROGRAM: &str = "prometheus-alertmanager";

fn quiet(c: &mut Command) -> std::io::Result<Child> {
    c.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Alertmanager {
    /// An Alertmanager that notifies `phone` of incidents grouped by kind; it must be installed.
    async fn start(phone: &Phone) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = fabriclens_testing::free_port().unwrap();
        let config = format!(
            "route: {{receiver: phone, group_by: [kind], group_wait: 1s, group_interval: 1s}}\n\
             receivers: [{{name: phone, webhook_configs: [{{url: '{}'}}]}}]\n",
            phone.start().await
        );
        std::fs::write(dir.path().join("am.yml"), config).unwrap();
        let base = format!("http://127.0.0.1:{port}");
        Self { child: Self::spawn(&dir, &base), dir, base }
    }

    fn spawn(dir: &tempfile::TempDir, base: &str) -> Child {
        let mut command = Command::new(PROGRAM);
        command
            .arg(format!("--config.file={}", dir.path().join("am.yml").display()))
            .arg(format!("--storage.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={}", base.trim_start_matches("http://")))
            .arg("--cluster.listen-address=");
        quiet(&mut command).unwrap_or_else(|e| panic!("{PROGRAM}: {e}"))
    }

    fn stop(&mut self) {
        common::process::kill(self.child.id(), 15);
        common::process::wait(&mut self.child);
    }

    fn restart(&mut self) {
        self.child = Self::spawn(&self.dir, &self.base);
    }

    /// Active incidents by group, from its API.
    async fn groups(&self) -> Value {
        let groups: Value = serde_json::from_str(&fetch(&self.base, "/api/v2/alerts/groups").await.2).unwrap();
        let group = |g: &Value| json!([g["labels"], named(g)]);
        groups.as_array().unwrap().iter().map(group).collect()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// State of each incident in a notification or group.
fn named(message: &Value) -> Value {
    let state = |a: &Value| a["status"]["state"].as_str().or(a["status"].as_str()).unwrap().to_owned();
    let one = |a: &Value| format!("{} {}", a["labels"]["incident"].as_str().unwrap(), state(a));
    let mut all: Vec<String> = message["alerts"].as_array().unwrap().iter().map(one).collect();
    all.sort();
    json!(all)
}

#[tokio::test]
#[ignore = "needs: alertmanager"]
async fn alertmanager_groups_and_survives_restart() {
    let phone = Phone::default();
    let mut alertmanager = Alertmanager::start(&phone).await;
    // It may still be starting; failed notifications are retried.
    let c = Collector::with(|config| {
        config.external_url = Some("https://fabric.example".to_owned());
        config.alertmanager.endpoints = vec![endpoint(&alertmanager.base)];
    })
    .await;
    let book = c.running.incidents().clone();
    let (one, mut two) = (incident("a"), incident("b"));
    two.root = Location::Port { node: "h7".to_owned(), port: "mlx5_0/1".to_owned() };
    let ended = |incident: &Incident| Incident { end_ns: Some(now_ns() as i64), ..incident.clone() };
    book.update(now_ns() as i64, &[one.clone(), two.clone()]);
    let firing = phone.until(|m| named(m) == json!(["a firing", "b firing"])).await;
    assert_eq!((&firing["status"], &firing["groupLabels"]), (&json!("firing"), &json!({"kind": "lossy_link"})));
    let alert = firing["alerts"].as_array().unwrap().iter().find(|a| a["labels"]["incident"] == "a").unwrap();
    assert_eq!(
        alert["labels"],
        json!({"alertname": "FabriclensLossyLink", "incident": "a", "kind": "lossy_link", "severity": "critical",
            "root_type": "link", "node": "leaf1", "port": "5", "peer": "spine2"})
    );
    assert_eq!(alert["annotations"]["description"], "lossy_link: leaf1 - spine2 corrupts \"frames\".");
    assert_eq!(alert["generatorURL"], "https://fabric.example/incidents/a");
    let kind = json!({"kind": "lossy_link"});
    assert_eq!(alertmanager.groups().await, json!([[kind, ["a active", "b active"]]]));

    // One incident ends while it is down. It keeps its notification log but no alerts, so those are sent again.
    alertmanager.stop();
    book.update(now_ns() as i64, &[ended(&one)]);
    let receiver = format!("receiver=\"alertmanager {}\"", alertmanager.base);
    let count = |outcome: &str| format!("fabriclens_notifications_total{{outcome=\"{outcome}\",{receiver}}} ");
    let failed = async || {
        let text = c.get("/metrics").await.1;
        text.lines().find_map(|l| l.strip_prefix(&count("failed"))?.parse::<u32>().ok()).unwrap()
    };
    let before = failed().await;
    common::until("it is tried", async || failed().await > before).await;
    alertmanager.restart();
    let after = phone.until(|m| named(m).as_array().unwrap().contains(&json!("a resolved"))).await;
    assert_eq!((&after["status"], named(&after)), (&json!("firing"), json!(["a resolved", "b firing"])));
    assert_eq!(alertmanager.groups().await, json!([[kind, ["b active"]]]));

    book.update(now_ns() as i64, &[ended(&two)]);
    phone.until(|m| m["status"] == "resolved" && named(m) == json!(["b resolved"])).await;
    common::until("nothing is active", async || alertmanager.groups().await == json!([])).await;
    assert!(c.get("/metrics").await.1.contains(&(count("refused") + "0\n")));
    c.running.stop().await;
}

#[tokio::test]
async fn webhook_is_notified_once_after_outage() {
    let phone = Phone::default();
    let url = phone.start().await;
    let hooked = |config: &mut fabriclens_config::Config| {
        config.webhook = vec![Webhook { name: "w".into(), endpoint: endpoint(&url), repeat: Duration::ZERO }];
    };
    phone.down.store(true, Ordering::Relaxed);
    let c = Collector::with(hooked).await;
    c.running.incidents().update(now_ns() as i64, &[incident("a")]);
    let failed = "fabriclens_notifications_total{outcome=\"failed\",receiver=\"webhook w\"} 1";
    common::until("a notification fails", async || c.get("/metrics").await.1.contains(failed)).await;
    let Collector { running, dir } = c;
    running.stop().await;
    phone.down.store(false, Ordering::Relaxed);
    let c = Collector::over(dir, hooked).await;
    let opened = phone.until(|m| m["event"] == "opened").await;
    assert_eq!((&opened["key"], &opened["incident"]["root"]["a"]), (&json!("a-1"), &json!("leaf1")));
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, hooked).await;
    c.running.incidents().end_lost(now_ns() as i64, &["a"]);
    let resolved = phone.until(|m| m["event"] == "resolved").await;
    assert_eq!(resolved["key"], "a-2");
    assert_eq!(phone.came.lock().len(), 2);
    c.running.stop().await;
}
