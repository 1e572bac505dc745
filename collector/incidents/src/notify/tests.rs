//! Receivers against a fake server that first refuses, with their own clock.

use super::*;
use crate::record::Classification;
use crate::silence::SilenceMatcher;
use crate::store::tests::{S, incident, incidents, operator_note};
use fabriclens_correlate::{Incident, Severity};
use parking_lot::Mutex;
use serde_json::Value;
use std::io::{Read as _, Write as _};

/// A server that answers each request with the next status, or 200, and records requests.
struct Fake {
    url: String,
    answers: Arc<Mutex<Vec<u16>>>,
    came: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Fake {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { url, answers: Arc::default(), came: Arc::default() };
        let (answers, came) = (fake.answers.clone(), fake.came.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
                let (head, body) = loop {
                    let n = stream.read(&mut buffer).unwrap();
                    text.extend_from_slice(&buffer[..n]);
                    let all = String::from_utf8_lossy(&text).into_owned();
                    let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
                    let head = head.to_lowercase();
                    let length = head.split_once("content-length: ").unwrap().1.lines().next().unwrap();
                    if body.len() >= length.parse().unwrap() {
                        break (head, serde_json::from_str(body).unwrap());
                    }
                };
                let status = answers.lock().pop().unwrap_or(200);
                came.lock().push((head, body));
                write!(stream, "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno").unwrap();
            }
        });
        fake
    }

    fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.came.lock())
    }

    fn caller(&self, name: &str) -> Caller {
        let endpoint = Endpoint {
            url: self.url.clone(),
            username: None,
            password_file: None,
            bearer_token_file: None,
            ca: None,
            headers: [].into(),
            timeout: Duration::from_secs(30),
        };
        Caller::new(name.to_owned(), &endpoint, &Telemetry::new().unwrap()).unwrap()
    }

    fn webhook(&self, repeat: u64) -> webhook::Webhook {
        let repeat = Duration::from_secs(repeat);
        webhook::Webhook::new(self.caller("webhook w"), "https://fabric.example".into(), repeat, 0)
    }

    fn alertmanager(&self) -> alertmanager::Alertmanager {
        self.alertmanager_beside(false)
    }

    fn alertmanager_beside(&self, another: bool) -> alertmanager::Alertmanager {
        let own = [("cluster".to_owned(), "west".to_owned())].into();
        alertmanager::Alertmanager::new(self.caller("am"), "https://fabric.example".into(), own, another)
    }
}

/// Runs a receiver at a time in seconds; true if nothing must be retried.
fn notify(receiver: &mut dyn Receiver, incidents: &IncidentStore, at_s: i64) -> bool {
    let now = at_s * S;
    receiver.notify(&incidents.threads(now, now - NEWS_NS), incidents, now).is_ok()
}

/// Event and key of each message.
fn events(came: &[(String, Value)]) -> Vec<(&str, &str)> {
    came.iter().map(|(_, m)| (m["event"].as_str().unwrap(), m["key"].as_str().unwrap())).collect()
}

#[test]
fn webhooks_get_each_state_once() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let incidents = incidents(dir.path());
    let mut webhook = fake.webhook(0);
    let mut now = Incident { severity: Severity::Info, ..incident("a") };
    incidents.update(2 * S, std::slice::from_ref(&now));
    assert!(notify(&mut webhook, &incidents, 2) && fake.take().is_empty(), "an observation");
    now.severity = Severity::Warning;
    incidents.update(3 * S, std::slice::from_ref(&now));
    *fake.answers.lock() = vec![503, 429];
    assert!(
        !notify(&mut webhook, &incidents, 3)
            && !notify(&mut webhook, &incidents, 4)
            && notify(&mut webhook, &incidents, 5)
    );
    let came = fake.take();
    assert_eq!(events(&came), [("opened", "a-1"); 3]);
    assert!(came.iter().all(|(head, _)| head.contains("idempotency-key: a-1")), "{}", came[0].0);
    let message = &came[2].1;
    assert_eq!(
        (&message["thread"], &message["url"], &message["incident"]["kind"], &message["incident"]["state"]),
        (&"a".into(), &"https://fabric.example/incidents/a".into(), &"slow_receiver".into(), &"open".into())
    );
    now.confidence = 0.5;
    incidents.update(20 * S, std::slice::from_ref(&now));
    assert!(notify(&mut webhook, &incidents, 20) && fake.take().is_empty(), "a changed number is not notified");
    now.severity = Severity::Critical;
    incidents.update(21 * S, std::slice::from_ref(&now));
    assert!(
        notify(&mut webhook, &incidents, 21) && notify(&mut webhook, &incidents, 30) && fake.take().is_empty(),
        "may change back"
    );
    notify(&mut webhook, &incidents, 31);
    assert_eq!(events(&fake.take()), [("changed", "a-2")]);
    // A restart repeats nothing, and a refused message does not block others.
    let mut webhook = fake.webhook(0);
    now.end_ns = Some(40 * S);
    let other = Incident { root: fabriclens_correlate::Location::Fabric, ..incident("b") };
    incidents.update(41 * S, &[now, other]);
    *fake.answers.lock() = vec![400];
    notify(&mut webhook, &incidents, 41);
    let came = fake.take();
    let mut sent = events(&came);
    sent.sort_unstable();
    assert_eq!(sent, [("opened", "b-1"), ("resolved", "a-3")]);
    assert!(notify(&mut webhook, &incidents, 42) && fake.take().is_empty());
    let count = |outcome: &str| webhook_count(&webhook, outcome);
    assert_eq!([count("sent"), count("refused"), count("failed")], [1, 1, 0]);
}

fn webhook_count(webhook: &webhook::Webhook, outcome: &str) -> u64 {
    webhook.caller.telemetry.notifications.with_label_values(&["webhook w", outcome]).get()
}

#[test]
fn silenced_and_acknowledged_incidents_are_quiet() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let incidents = incidents(dir.path());
    let mut webhook = fake.webhook(60);
    let of = SilenceMatcher { node: Some("h3".into()), ..SilenceMatcher::default() };
    incidents.silence("ann", of, 100 * S, operator_note(S, "ann")).unwrap();
    incidents.update(3 * S, &[incident("a")]);
    assert!(notify(&mut webhook, &incidents, 3) && fake.take().is_empty());
    notify(&mut webhook, &incidents, 100);
    assert_eq!(events(&fake.take()), [("opened", "a-1")], "the silence has ended, the incident is open");
    notify(&mut webhook, &incidents, 159);
    notify(&mut webhook, &incidents, 160);
    assert_eq!(events(&fake.take()), [("reminder", "a-2")]);
    incidents.acknowledge("a", operator_note(161 * S, "ann")).unwrap();
    assert!(notify(&mut webhook, &incidents, 300) && fake.take().is_empty());
    incidents.reclassify("a", Classification::NotAProblem, operator_note(301 * S, "ann")).unwrap();
    notify(&mut webhook, &incidents, 301);
    assert_eq!(events(&fake.take()), [("resolved", "a-3")]);
    assert!(notify(&mut webhook, &incidents, 302) && fake.take().is_empty());
}

#[test]
fn flapping_notifies_once_until_it_is_over() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let incidents = incidents(dir.path());
    let mut webhook = fake.webhook(0);
    for n in 0..20 {
        let at = 100 + n * 30;
        let one = Incident { start_ns: at * S, ..incident(&format!("f{n:02}")) };
        incidents.update(at * S, std::slice::from_ref(&one));
        notify(&mut webhook, &incidents, at);
        incidents.update((at + 5) * S, &[Incident { end_ns: Some((at + 5) * S), ..one }]);
        notify(&mut webhook, &incidents, at + 5);
    }
    let over = 100 + 19 * 30 + 5;
    notify(&mut webhook, &incidents, over + 599);
    let quiet = fake.take();
    assert_eq!(events(&quiet), [("opened", "f00-1"), ("resolved", "f00-2"), ("opened", "f00-3")]);
    notify(&mut webhook, &incidents, over + 600);
    let came = fake.take();
    assert_eq!(events(&came), [("resolved", "f00-4")]);
    assert_eq!(came[0].1["incident"]["recurrences"], 19);
}

/// Name, severity and end of each alert, in seconds from now.
fn alerts(came: &[(String, Value)], now_s: i64) -> Vec<(String, String, i64)> {
    let all = came.iter().flat_map(|(_, body)| body.as_array().unwrap());
    let seconds = |text: &Value| fabriclens_core::time::parse_time(text.as_str().unwrap()).unwrap() / 1000;
    let label = |a: &Value, name: &str| a["labels"][name].as_str().unwrap().to_owned();
    all.map(|a| (label(a, "alertname"), label(a, "severity"), seconds(&a["endsAt"]) - now_s)).collect()
}

#[test]
fn alerts_repeat_and_resolve_over_a_restart() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let incidents = incidents(dir.path());
    let mut am = fake.alertmanager();
    let mut now = incident("a");
    incidents.update(3 * S, std::slice::from_ref(&now));
    *fake.answers.lock() = vec![500];
    assert!(!notify(&mut am, &incidents, 3) && notify(&mut am, &incidents, 4));
    let came = fake.take();
    let slow = |end: i64| ("FabriclensSlowReceiver".to_owned(), "warning".to_owned(), end);
    assert_eq!(alerts(&came[1..], 4), [slow(240)]);
    let alert = &came[1].1[0];
    assert!(came[1].0.starts_with("post /api/v2/alerts "), "{}", came[1].0);
    assert_eq!(
        alert["labels"],
        serde_json::json!({"alertname": "FabriclensSlowReceiver", "incident": "a", "kind": "slow_receiver",
            "severity": "warning", "root_type": "port", "node": "h3", "port": "1", "cluster": "west"})
    );
    assert_eq!(alert["generatorURL"], "https://fabric.example/incidents/a");
    assert_eq!(
        (&alert["startsAt"], &alert["annotations"]["victim_jobs"]),
        (&"1970-01-01T00:00:01.000Z".into(), &"b".into())
    );
    assert!(notify(&mut am, &incidents, 63) && fake.take().is_empty());
    notify(&mut am, &incidents, 64);
    assert_eq!(alerts(&fake.take(), 64), [slow(240)]);
    // It missed one alert, so it may have forgotten the other.
    let other = incident("b");
    incidents.update(65 * S, std::slice::from_ref(&other));
    *fake.answers.lock() = vec![503];
    assert!(!notify(&mut am, &incidents, 65) && notify(&mut am, &incidents, 66));
    assert_eq!(alerts(&fake.take()[1..], 66), [slow(240), slow(240)]);
    incidents.update(67 * S, &[Incident { end_ns: Some(67 * S), ..other }]);
    notify(&mut am, &incidents, 67);
    assert_eq!(alerts(&fake.take(), 67), [slow(0)]);
    // The verdict changed: the old alert stays until the new one is stable.
    now.kind = IncidentKind::PfcStorm;
    now.severity = Severity::Critical;
    incidents.update(70 * S, std::slice::from_ref(&now));
    assert!(notify(&mut am, &incidents, 70) && notify(&mut am, &incidents, 79) && fake.take().is_empty());
    notify(&mut am, &incidents, 80);
    let storm = |end: i64| ("FabriclensPfcStorm".to_owned(), "critical".to_owned(), end);
    assert_eq!(alerts(&fake.take(), 80), [storm(240), slow(0)]);
    // The incident ends while the collector is down.
    now.end_ns = Some(90 * S);
    incidents.update(91 * S, std::slice::from_ref(&now));
    let mut am = fake.alertmanager();
    notify(&mut am, &incidents, 100);
    assert_eq!(alerts(&fake.take(), 90), [storm(0)]);
    assert!(notify(&mut am, &incidents, 101) && fake.take().is_empty());
}

#[test]
fn alerts_repeat_after_the_clock_is_set_back() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let (incidents, mut am) = (incidents(dir.path()), fake.alertmanager());
    incidents.update(3 * S, &[incident("a")]);
    let ends = |at: i64| alerts(&fake.take(), at).iter().map(|(.., ends)| *ends).collect::<Vec<_>>();
    assert!(notify(&mut am, &incidents, 86_400) && ends(86_400) == [240]);
    assert!(notify(&mut am, &incidents, 100) && ends(100) == [240], "the end is computed with the correct clock");
    assert!(notify(&mut am, &incidents, 101) && ends(101).is_empty());
}

#[test]
fn two_collectors_give_one_alert() {
    let (dirs, fake) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], Fake::start());
    for (dir, id) in dirs.iter().zip(["1000-1", "1300-7"]) {
        let incidents = incidents(dir.path());
        incidents.update(3 * S, &[incident(id)]);
        assert!(notify(&mut fake.alertmanager_beside(true), &incidents, 3));
    }
    let came = fake.take();
    let [one, two] = [&came[0].1[0], &came[1].1[0]];
    assert_eq!(one["labels"], two["labels"], "labels are the identity of an alert");
    assert_eq!(one["labels"]["node"], "h3");
    assert_ne!(one["generatorURL"], two["generatorURL"], "each alert links its own incident");
}

#[test]
fn alert_names_are_camel_case() {
    assert_eq!(camel(IncidentKind::PfcStorm), "PfcStorm");
    assert_eq!(camel(IncidentKind::LinkDown), "LinkDown");
}
