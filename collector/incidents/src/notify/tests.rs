//! Receivers against a server that says no first, with a clock of their own.

use super::*;
use crate::record::Judged;
use crate::silence::Match;
use crate::store::tests::{S, book, incident, said};
use fabriclens_correlate::{Incident, Severity};
use parking_lot::Mutex;
use serde_json::Value;
use std::io::{Read as _, Write as _};

/// Answers each request with the next status, 200 when there is none left, and keeps what came.
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

/// One turn at a time in seconds; true if nothing has to be tried again.
fn turn(receiver: &mut dyn Receiver, book: &Book, at_s: i64) -> bool {
    let now = at_s * S;
    receiver.tell(&book.threads(now, now - NEWS_NS), book, now).is_ok()
}

/// Event and key of each message.
fn events(came: &[(String, Value)]) -> Vec<(&str, &str)> {
    came.iter().map(|(_, m)| (m["event"].as_str().unwrap(), m["key"].as_str().unwrap())).collect()
}

#[test]
fn a_webhook_is_told_each_state_once_and_again_only_if_it_failed() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let book = book(dir.path());
    let mut webhook = fake.webhook(0);
    let mut now = incident("a");
    book.update(3 * S, std::slice::from_ref(&now));
    *fake.answers.lock() = vec![503, 429];
    assert!(!turn(&mut webhook, &book, 3) && !turn(&mut webhook, &book, 4) && turn(&mut webhook, &book, 5));
    let came = fake.take();
    assert_eq!(events(&came), [("opened", "a-1"); 3]);
    assert!(came.iter().all(|(head, _)| head.contains("idempotency-key: a-1")), "{}", came[0].0);
    let message = &came[2].1;
    assert_eq!(
        (&message["thread"], &message["url"], &message["incident"]["kind"], &message["incident"]["state"]),
        (&"a".into(), &"https://fabric.example/api/v1/incidents/a".into(), &"slow_receiver".into(), &"open".into())
    );
    now.confidence = 0.5;
    book.update(20 * S, std::slice::from_ref(&now));
    assert!(turn(&mut webhook, &book, 20) && fake.take().is_empty(), "a number is no news");
    now.severity = Severity::Critical;
    book.update(21 * S, std::slice::from_ref(&now));
    assert!(
        turn(&mut webhook, &book, 21) && turn(&mut webhook, &book, 30) && fake.take().is_empty(),
        "may change back"
    );
    turn(&mut webhook, &book, 31);
    assert_eq!(events(&fake.take()), [("changed", "a-2")]);
    // A restart does not tell it again, and a message that nobody takes holds up no other.
    let mut webhook = fake.webhook(0);
    now.end_ns = Some(40 * S);
    let other = Incident { root: fabriclens_correlate::Location::Fabric, ..incident("b") };
    book.update(41 * S, &[now, other]);
    *fake.answers.lock() = vec![400];
    turn(&mut webhook, &book, 41);
    let came = fake.take();
    let mut told = events(&came);
    told.sort_unstable();
    assert_eq!(told, [("opened", "b-1"), ("resolved", "a-3")]);
    assert!(turn(&mut webhook, &book, 42) && fake.take().is_empty());
    let count = |outcome: &str| webhook_count(&webhook, outcome);
    assert_eq!([count("sent"), count("refused"), count("failed")], [1, 1, 0]);
}

fn webhook_count(webhook: &webhook::Webhook, outcome: &str) -> u64 {
    webhook.caller.telemetry.notifications.with_label_values(&["webhook w", outcome]).get()
}

#[test]
fn what_is_silenced_or_no_problem_is_not_told_and_what_is_acknowledged_not_repeated() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let book = book(dir.path());
    let mut webhook = fake.webhook(60);
    let of = Match { node: Some("h3".into()), ..Match::default() };
    book.silence(of, 100 * S, said(S, "ann")).unwrap();
    book.update(3 * S, &[incident("a")]);
    assert!(turn(&mut webhook, &book, 3) && fake.take().is_empty());
    turn(&mut webhook, &book, 100);
    assert_eq!(events(&fake.take()), [("opened", "a-1")], "the silence is over and the incident is not");
    turn(&mut webhook, &book, 159);
    turn(&mut webhook, &book, 160);
    assert_eq!(events(&fake.take()), [("reminder", "a-2")]);
    book.acknowledge("a", said(161 * S, "ann")).unwrap();
    assert!(turn(&mut webhook, &book, 300) && fake.take().is_empty());
    book.reclassify("a", Judged::NotAProblem, said(301 * S, "ann")).unwrap();
    turn(&mut webhook, &book, 301);
    assert_eq!(events(&fake.take()), [("resolved", "a-3")]);
    assert!(turn(&mut webhook, &book, 302) && fake.take().is_empty());
}

#[test]
fn flapping_is_told_until_it_is_over_for_good() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let book = book(dir.path());
    let mut webhook = fake.webhook(0);
    for n in 0..20 {
        let at = 100 + n * 30;
        let one = Incident { start_ns: at * S, ..incident(&format!("f{n:02}")) };
        book.update(at * S, std::slice::from_ref(&one));
        turn(&mut webhook, &book, at);
        book.update((at + 5) * S, &[Incident { end_ns: Some((at + 5) * S), ..one }]);
        turn(&mut webhook, &book, at + 5);
    }
    let over = 100 + 19 * 30 + 5;
    turn(&mut webhook, &book, over + 599);
    let quiet = fake.take();
    assert_eq!(events(&quiet), [("opened", "f00-1"), ("resolved", "f00-2"), ("opened", "f00-3")]);
    turn(&mut webhook, &book, over + 600);
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
fn alertmanager_hears_it_each_minute_and_when_it_ends_even_over_a_restart() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let book = book(dir.path());
    let mut am = fake.alertmanager();
    let mut now = incident("a");
    book.update(3 * S, std::slice::from_ref(&now));
    *fake.answers.lock() = vec![500];
    assert!(!turn(&mut am, &book, 3) && turn(&mut am, &book, 4));
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
    assert_eq!(alert["generatorURL"], "https://fabric.example/api/v1/incidents/a");
    assert_eq!(
        (&alert["startsAt"], &alert["annotations"]["victim_jobs"]),
        (&"1970-01-01T00:00:01.000Z".into(), &"b".into())
    );
    assert!(turn(&mut am, &book, 63) && fake.take().is_empty());
    turn(&mut am, &book, 64);
    assert_eq!(alerts(&fake.take(), 64), [slow(240)]);
    // It did not hear of one, so it may have forgotten the other.
    let beside = incident("b");
    book.update(65 * S, std::slice::from_ref(&beside));
    *fake.answers.lock() = vec![503];
    assert!(!turn(&mut am, &book, 65) && turn(&mut am, &book, 66));
    assert_eq!(alerts(&fake.take()[1..], 66), [slow(240), slow(240)]);
    book.update(67 * S, &[Incident { end_ns: Some(67 * S), ..beside }]);
    turn(&mut am, &book, 67);
    assert_eq!(alerts(&fake.take(), 67), [slow(0)]);
    // Another verdict: the old alert goes on until the new one stands.
    now.kind = IncidentKind::PfcStorm;
    now.severity = Severity::Critical;
    book.update(70 * S, std::slice::from_ref(&now));
    assert!(turn(&mut am, &book, 70) && turn(&mut am, &book, 79) && fake.take().is_empty());
    turn(&mut am, &book, 80);
    let storm = |end: i64| ("FabriclensPfcStorm".to_owned(), "critical".to_owned(), end);
    assert_eq!(alerts(&fake.take(), 80), [storm(240), slow(0)]);
    // It ends while we are away.
    now.end_ns = Some(90 * S);
    book.update(91 * S, std::slice::from_ref(&now));
    let mut am = fake.alertmanager();
    turn(&mut am, &book, 100);
    assert_eq!(alerts(&fake.take(), 90), [storm(0)]);
    assert!(turn(&mut am, &book, 101) && fake.take().is_empty());
}

#[test]
fn an_alert_is_said_again_after_a_clock_that_was_ahead_is_set_right() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::start());
    let (book, mut am) = (book(dir.path()), fake.alertmanager());
    book.update(3 * S, &[incident("a")]);
    let ends = |at: i64| alerts(&fake.take(), at).iter().map(|(.., ends)| *ends).collect::<Vec<_>>();
    assert!(turn(&mut am, &book, 86_400) && ends(86_400) == [240]);
    assert!(turn(&mut am, &book, 100) && ends(100) == [240], "until when it goes on is told by the right clock");
    assert!(turn(&mut am, &book, 101) && ends(101).is_empty());
}

#[test]
fn two_collectors_that_see_the_same_give_one_alert() {
    let (dirs, fake) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], Fake::start());
    for (dir, id) in dirs.iter().zip(["1000-1", "1300-7"]) {
        let book = book(dir.path());
        book.update(3 * S, &[incident(id)]);
        assert!(turn(&mut fake.alertmanager_beside(true), &book, 3));
    }
    let came = fake.take();
    let [one, two] = [&came[0].1[0], &came[1].1[0]];
    assert_eq!(one["labels"], two["labels"], "it is its labels that make an alert what it is");
    assert_eq!(one["labels"]["node"], "h3");
    assert_ne!(one["generatorURL"], two["generatorURL"], "each leads to its own incident");
}

#[test]
fn names_of_alerts() {
    assert_eq!(camel(IncidentKind::PfcStorm), "PfcStorm");
    assert_eq!(camel(IncidentKind::LinkDown), "LinkDown");
}
