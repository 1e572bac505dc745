//! Incidents over HTTP: list, detail with series, operator actions, event stream, Grafana annotations, and the client.

use crate::common;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use crate::common::{Collector, incident, now_ns};
use fabriclens_correlate::Incident;
use fabriclens_correlate::IncidentKind;
use fabriclens_testing::eventually_async;
use serde_json::{Value, json};

const S: i64 = 1_000_000_000;

async fn post(c: &Collector, path: &str, body: &str) -> (u16, Value) {
    let url = format!("http://{}{path}", c.running.http);
    let (status, answer) = common::post(url, &[("content-type", "application/json")], body.as_bytes().to_vec()).await;
    (status, serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{path}: {e}: {answer}")))
}

fn ids(answer: &(u16, Value)) -> Vec<&str> {
    answer.1["incidents"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn incidents_are_listed_shown_and_annotated() {
    let c = Collector::start().await;
    let now = now_ns() as i64;
    let over = Incident { end_ns: Some(now - 50 * S), kind: IncidentKind::Incast, ..incident("old", now - 100 * S) };
    c.running.incidents().update(now, &[incident("a-1", now - 30 * S), over]);
    let all = c.json("/api/v1/incidents").await;
    assert_eq!((all.0, ids(&all), &all.1["total"]), (200, vec!["a-1", "old"], &json!(2)), "the last one first");
    let first = &all.1["incidents"][0];
    assert_eq!(
        [&first["state"], &first["kind"], &first["root"], &first["history"][0]["state"], &first["acknowledged"]],
        [
            &json!("open"),
            &json!("pfc_storm"),
            &json!({"type": "port", "node": "h3", "port": "1"}),
            &json!("opened"),
            &Value::Null
        ]
    );
    for (query, want) in [
        ("state=open", vec!["a-1"]),
        ("kind=incast", vec!["old"]),
        ("job=4711&node=h3&severity=critical&limit=1", vec!["a-1"]),
        ("node=h9", vec![]),
        (&format!("to={}", (now - 60 * S) / S), vec!["old"]),
    ] {
        assert_eq!(ids(&c.json(&format!("/api/v1/incidents?{query}")).await), want, "{query}");
    }
    let error = |answer: (u16, Value)| (answer.0, answer.1["error"].as_str().unwrap().to_owned());
    let (status, message) = error(c.json("/api/v1/incidents?kind=pfc").await);
    assert!(status == 400 && message.contains("unknown variant `pfc`, expected one of `pfc_storm`"), "{message}");
    let (status, message) = error(c.json("/api/v1/incidents/b").await);
    assert!(status == 404 && message.starts_with("there is no incident \"b\"; GET"), "{message}");

    let at = now / 1_000_000;
    let labels =
        [("__name__", "fabric_pfc_pause_seconds_total"), ("host", "h3"), ("direction", "transmit"), ("port", "1")];
    let points: Vec<(i64, f64)> = (0..30).map(|n| (at - 30_000 + n * 1000, n as f64 * 0.5)).collect();
    assert_eq!(c.remote_write(vec![common::series(&labels, &points)]).await.0, 204);
    let (status, one) = c.json("/api/v1/incidents/a-1").await;
    assert_eq!((status, &one["incident"]["id"], one["series"].as_array().unwrap().len()), (200, &json!("a-1"), 2));
    let series = &one["series"][0];
    assert_eq!(
        (&series["metric"], &series["resultType"]),
        (&json!("fabric_pfc_pause_seconds_total"), &json!("matrix"))
    );
    let values = series["result"][0]["values"].as_array().unwrap();
    assert!(values.len() > 10 && values.iter().any(|v| v[1] == "0.5"), "{values:?}");
    let (_, bare) = c.json("/api/v1/incidents/a-1?series=false").await;
    assert_eq!((bare.get("series"), &bare["incident"]["id"]), (None, &json!("a-1")));

    let (status, said) = post(&c, "/api/v1/incidents/a-1/acknowledge", r#"{"by": "ann", "note": "on it"}"#).await;
    assert_eq!((status, &said["incident"]["acknowledged"]["by"]), (200, &json!("ann")));
    let (status, said) = post(&c, "/api/v1/incidents/a-1/note", r#"{"by": "bob", "note": "cable ordered"}"#).await;
    let last = said["incident"]["history"].as_array().unwrap().last().unwrap();
    assert_eq!((status, &last["state"], &last["detail"]), (200, &json!("noted"), &json!("by bob: cable ordered")));
    assert_eq!(said["incident"]["docs"], "runbooks/pfc-storm.md");
    let (status, said) = post(&c, "/api/v1/incidents/a-1/silence", r#"{"for": "1h"}"#).await;
    assert_eq!((status, &said["incident"]["silenced"]["match"]), (200, &json!({"incident": "a-1"})));
    let (_, said) = post(&c, "/api/v1/incidents/a-1/reclassify", r#"{"kind": "not_a_problem", "by": "bob"}"#).await;
    assert_eq!(said["incident"]["reclassified"]["kind"], "not_a_problem");
    assert_eq!(said["incident"]["kind"], "pfc_storm", "what the machine says stays");
    assert_eq!(said["incident"].get("docs"), None, "for no problem there is nothing to do");
    let (status, silence) =
        post(&c, "/api/v1/silences", r#"{"match": {"kind": "incast"}, "until": "2100-01-01T00:00:00Z"}"#).await;
    assert_eq!(status, 200, "{silence}");
    assert_eq!(c.json("/api/v1/silences").await.1["silences"].as_array().unwrap().len(), 2);
    for (path, body, part) in [
        ("/api/v1/incidents/a-1/acknowledge", r#"{"who": "ann"}"#, "unknown field `who`, expected `by` or `note`"),
        ("/api/v1/incidents/a-1/note", r#"{"by": "bob"}"#, "cannot add the note: its text is empty"),
        ("/api/v1/incidents/a-1/reclassify", r#"{"kind": "fine"}"#, "or `not_a_problem`"),
        ("/api/v1/incidents/a-1/silence", "", "duration missing; give either for"),
        ("/api/v1/incidents/a-1/silence", r#"{"for": "soon"}"#, "not a duration; write for instance 2h"),
        ("/api/v1/silences", r#"{"match": {}, "for": "1h"}"#, "give incident, kind, node or job"),
    ] {
        let (status, message) = error(post(&c, path, body).await);
        assert!(status == 400 && message.contains(part), "{path} {body}: {status} {message}");
    }
    assert_eq!(post(&c, "/api/v1/incidents/x/acknowledge", "").await.0, 404);

    // A restart keeps all of it.
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, |_| {}).await;
    let again = c.json("/api/v1/incidents/a-1?series=false").await.1["incident"].clone();
    let happened: Vec<&Value> = again["history"].as_array().unwrap().iter().map(|m| &m["state"]).collect();
    assert_eq!(happened, ["opened", "acknowledged", "noted", "silenced", "reclassified"]);
    assert_eq!(again["silenced"]["match"], json!({"incident": "a-1"}));
}

#[tokio::test]
async fn annotations_match_grafana() {
    let c = Collector::start().await;
    let now = now_ns() as i64;
    let over = Incident { end_ns: Some(now - 50 * S), kind: IncidentKind::Incast, ..incident("old", now - 100 * S) };
    c.running.incidents().update(now, &[incident("new", now - 30 * S), over]);
    let ask = r#"{"range": {"from": "2020-01-01T00:00:00.000Z", "to": "2100-01-01T00:00:00.000Z", "raw": {"from": "now-1h"}},
        "annotation": {"name": "fabric", "enable": true, "query": "kind=incast node=h3"}}"#;
    let (status, found) = post(&c, "/api/v1/annotations", ask).await;
    assert_eq!((status, found.as_array().unwrap().len()), (200, 1));
    let one = &found[0];
    assert_eq!(
        (&one["annotation"]["name"], &one["title"], &one["tags"], &one["time"], &one["timeEnd"]),
        (
            &json!("fabric"),
            &json!("incast at h3 port 1"),
            &json!(["incast", "critical", "victim:4711"]),
            &json!((now - 100 * S) / 1_000_000),
            &json!((now - 50 * S) / 1_000_000)
        )
    );
    let from = (now - 40 * S) / 1_000_000;
    let (_, found) = c.json(&format!("/api/v1/annotations?from={from}&to={}", now / 1_000_000)).await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["id"]), (1, &json!("new")), "Grafana's milliseconds");
    assert_eq!(post(&c, "/api/v1/annotations", "{}").await.0, 400);
}

/// Opens the stream and reads lines of it on a thread.
fn listen(c: &Collector, last: &str) -> (std::sync::mpsc::Receiver<String>, std::thread::JoinHandle<()>) {
    let (send, lines) = std::sync::mpsc::sync_channel(1000);
    let url = format!("http://{}/api/v1/incidents/stream", c.running.http);
    let answer = ureq::get(&url).header("last-event-id", last).call().unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let read = move || {
        let reader = BufReader::new(answer.into_body().into_reader());
        reader.lines().map_while(Result::ok).for_each(|line| send.send(line).unwrap());
    };
    (lines, std::thread::spawn(read))
}

/// The next event: id, name, data.
fn event(lines: &std::sync::mpsc::Receiver<String>) -> (String, String, Value) {
    let (mut id, mut name, mut data) = (String::new(), String::new(), Value::Null);
    let patience = std::time::Instant::now() + Duration::from_secs(40);
    loop {
        // Keep-alive lines never end.
        assert!(std::time::Instant::now() < patience, "no event");
        let line = lines.recv_timeout(Duration::from_secs(30)).unwrap();
        match line.split_once(": ") {
            Some(("id", text)) => id = text.to_owned(),
            Some(("event", text)) => name = text.to_owned(),
            Some(("data", text)) => data = serde_json::from_str(text).unwrap(),
            _ if line.is_empty() && !name.is_empty() => return (id, name, data),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_sends_each_change_once() {
    let c = Collector::start().await;
    let now = now_ns() as i64;
    let book = c.running.incidents().clone();
    book.update(now, &[incident("before", now)]);
    let (lines, reader) = tokio::task::block_in_place(|| listen(&c, ""));
    let opened = incident("a", now);
    book.update(now, std::slice::from_ref(&opened));
    book.update(now + S, &[Incident { confidence: 0.5, ..opened.clone() }]);
    book.update(now + 2 * S, &[Incident { end_ns: Some(now + 2 * S), ..opened }]);
    let (first, last) = tokio::task::block_in_place(|| (event(&lines), event(&lines)));
    assert_eq!(
        (first.1.as_str(), &first.2["changes"], &first.2["incident"]["id"]),
        ("incident", &json!(["opened"]), &json!("a"))
    );
    assert_eq!(
        (&last.2["changes"], &last.2["incident"]["state"]),
        (&json!(["ended"]), &json!("ended")),
        "a number is no change"
    );

    let (missed, second) = tokio::task::block_in_place(|| listen(&c, &first.0));
    let again = tokio::task::block_in_place(|| event(&missed));
    assert_eq!((&again.0, &again.2), (&last.0, &last.2), "what was missed");
    let (gone, third) = tokio::task::block_in_place(|| listen(&c, "1-1"));
    assert_eq!(tokio::task::block_in_place(|| event(&gone)).1, "reset", "of an earlier process");

    c.running.stop().await;
    for thread in [reader, second, third] {
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    }
}

/// Waits until an instant query has this many series.
async fn until(c: &Collector, query: &str, series: usize) -> Vec<Value> {
    let patience = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let (_, answer) = c.form("/api/v1/query", &[("query", query)]).await;
        let found = answer["data"]["result"].as_array().unwrap().clone();
        if found.len() == series {
            return found;
        }
        assert!(std::time::Instant::now() < patience, "{query}: {} series, not {series}", found.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn incidents_appear_as_series_and_in_reports() {
    let c = Collector::start().await;
    let now = now_ns() as i64;
    for (id, hosts) in [("4711", r#"["h8"]"#), ("9", r#"["h3", "h4"]"#), ("10", r#"["h5"]"#)] {
        let job = format!(r#"{{"id": "{id}", "hosts": {hosts}, "start": {}}}"#, now / S - 100);
        assert_eq!(post(&c, "/api/v1/jobs", &job).await.0, 201);
    }
    let west = format!(r#"{{"id": "5", "cluster": "west", "hosts": ["h6"], "start": {}}}"#, now / S - 100);
    assert_eq!(post(&c, "/api/v1/jobs", &west).await.0, 201);
    let mut one = incident("a", now - 30 * S);
    one.culprit_jobs.push("west/5".to_owned());
    c.running.incidents().update(now, std::slice::from_ref(&one));
    let joined =
        until(&c, "fabric_job_info * on (cluster, job_id) group_left (role) fabric_incident_job_info", 2).await;
    let mut told: Vec<_> =
        joined.iter().map(|s| ["cluster", "job_id", "host", "role"].map(|l| s["metric"][l].as_str())).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [[None, Some("4711"), Some("h8"), Some("victim")], [Some("west"), Some("5"), Some("h6"), Some("culprit")]]
    );
    let found = until(&c, "fabric_incident_info", 1).await;
    assert_eq!(
        found[0]["metric"],
        json!({"__name__": "fabric_incident_info", "id": "a", "kind": "pfc_storm", "severity": "critical",
            "root_type": "port", "node": "h3", "port": "1"})
    );
    let confident =
        until(&c, r#"fabric_incident_confidence * on (id) group_right () fabric_incident_job_info{role="victim"}"#, 1)
            .await;
    assert_eq!((&confident[0]["metric"]["job_id"], &confident[0]["value"][1]), (&json!("4711"), &json!("0.93")));
    let metrics = c.get("/metrics").await.1;
    assert!(metrics.contains("fabriclens_incidents_open{kind=\"pfc_storm\"} 1"), "{metrics}");
    // Type and help follow the samples.
    eventually_async("the metadata are stored", Duration::from_secs(30), async || {
        let (_, about) = c.json("/api/v1/metadata?metric=fabric_incident_info").await;
        about["data"]["fabric_incident_info"][0]["type"] == "gauge"
    })
    .await;
    c.running.incidents().update(now + S, &[Incident { end_ns: Some(now), ..one }]);
    until(&c, "fabric_incident_info", 0).await;
    assert!(c.get("/metrics").await.1.contains("fabriclens_incidents_open{kind=\"pfc_storm\"} 0"));

    for (job, role) in [("4711", Some("victim")), ("9", Some("bystander")), ("10", None)] {
        let (_, report) = c.json(&format!("/api/v1/jobs/{job}/report?format=json")).await;
        let roles: Vec<&str> =
            report["incidents"].as_array().unwrap().iter().map(|i| i["role"].as_str().unwrap()).collect();
        assert_eq!(roles, role.into_iter().collect::<Vec<_>>(), "{job}");
    }
}

#[tokio::test]
async fn client_lists_shows_and_annotates() {
    let c = Collector::start().await;
    let now = now_ns() as i64;
    let over = Incident { end_ns: Some(now - 3000 * S), ..incident("old", now - 4000 * S) };
    c.running.incidents().update(now, &[incident("a-1", now - 30 * S), over]);
    let url = format!("http://{}", c.running.http);
    let run = move |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fabriclens"));
        let out = command.arg("incidents").args(args).env("FABRICLENS_URL", &url).env("USER", "ann").output().unwrap();
        (out.status.success(), String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap())
    };
    let asked = tokio::task::spawn_blocking(move || {
        let listed = run(&[]);
        let some = run(&["--since", "30m", "--job", "4711", "--format", "json"]);
        let ack = run(&["ack", "a-1", "--note", "on it"]);
        let noted = (run(&["note", "a-1"]), run(&["note", "a-1", "--note", "module swapped"]));
        let silence = run(&["silence", "--node", "h3", "--for", "2h"]);
        let id = silence.1.split(' ').nth(1).unwrap_or_default().to_owned();
        let shown = run(&["a-1"]);
        let over = run(&["unsilence", &id]);
        let wrong = [run(&["reclassify", "a-1", "fine"]), run(&["x"]), run(&["silence", "--for", "2h"])];
        (listed, some, (ack, noted), silence, shown, over, run(&["reclassify", "a-1", "incast"]), wrong)
    });
    let (listed, some, (ack, noted), silence, shown, over, reclassified, wrong) = asked.await.unwrap();
    assert!(listed.0 && listed.1.starts_with("ID ") && listed.1.lines().count() == 3, "{listed:?}");
    assert!(listed.1.lines().nth(1).unwrap().starts_with("a-1  critical  pfc_storm  h3 port 1"), "{listed:?}");
    assert_eq!(serde_json::from_str::<Value>(&some.1).unwrap()["total"], 1);
    assert_eq!(ack, (true, "a-1 is acknowledged\n".to_owned()));
    assert!(!noted.0.0 && noted.0.1.contains("--note"), "{noted:?}");
    assert_eq!(noted.1, (true, "a-1 has the note\n".to_owned()));
    assert!(shown.1.contains("module swapped"), "{shown:?}");
    assert!(silence.0 && silence.1.starts_with("silence ") && silence.1.contains(" until 20"), "{silence:?}");
    assert!(shown.1.contains("acknowledged by ann, on it\n") && shown.1.contains("silenced     until 20"), "{shown:?}");
    assert!(over.1.ends_with(" is over\n") && reclassified.1 == "a-1 is incast\n", "{over:?} {reclassified:?}");
    assert!(!wrong[0].0 && wrong[0].1.contains("or `not_a_problem`"), "{wrong:?}");
    assert!(!wrong[1].0 && wrong[1].1.starts_with("fabriclens: there is no incident \"x\""), "{wrong:?}");
    assert!(!wrong[2].0 && wrong[2].1.contains("required arguments were not provided"), "{wrong:?}");
}
