//! Samples that agents spooled during an outage: their incidents are late, have the right times, and send no notification if
//! they have ended.

use crate::common;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Collector, incident, now_ms, now_ns, series};
use axum::Router;
use fabriclens_config::{Alertmanager, Config, Endpoint, Webhook};
use parking_lot::Mutex;
use serde_json::{Value, json};

const STORM: &str = "h2";

/// Four hosts with a port each; one of them has a pause storm for a while, and its job slows down.
struct Hosts {
    /// Begin and end, Unix ms.
    storm: [i64; 2],
}

impl Hosts {
    /// Sends the samples of all hosts at these instants.
    async fn tell(&self, c: &Collector, times: impl Iterator<Item = i64>) {
        let times: Vec<i64> = times.collect();
        let storm = |t: i64| t.clamp(self.storm[0], self.storm[1]) - self.storm[0];
        for host in ["h0", "h1", "h2", "h3"] {
            let mut list = Vec::new();
            let mut one = |name: &str, extra: &[(&str, &str)], value: &dyn Fn(i64) -> f64| {
                let own = [("__name__", name), ("host", host), ("device", "mlx5_0"), ("port", "1")];
                let labels: Vec<_> = own.into_iter().chain(extra.iter().copied()).collect();
                let samples: Vec<(i64, f64)> = times.iter().map(|t| (*t, value(*t))).collect();
                list.push(series(&labels, &samples));
            };
            // A second of storm costs both hosts of its job most of what they move.
            let lost = if ["h1", STORM].contains(&host) { 0.9 } else { 0.0 };
            let paused = |t: i64| if host == STORM { storm(t) as f64 / 1000.0 * 0.97 } else { 0.0 };
            for direction in ["transmit", "receive"] {
                let moved = |t: i64| ((t % 10_000_000) as f64 - lost * storm(t) as f64) * 1e6;
                one("fabric_port_io_bytes_total", &[("direction", direction)], &moved);
            }
            let priority = [("direction", "transmit"), ("priority", "3")];
            one("fabric_pfc_pause_seconds_total", &priority, &paused);
            one("fabric_pfc_frames_total", &priority, &|t| paused(t) * 3000.0);
            one("fabric_port_rate_bytes_per_second", &[], &|_| 12.5e9);
            assert_eq!(c.remote_write(list).await.0, 204);
        }
    }

    /// Sends live samples until an incident fits.
    async fn live(&self, c: &Collector, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            self.tell(c, std::iter::once(now_ms())).await;
            let all = c.json("/api/v1/incidents").await.1["incidents"].take();
            if let Some(found) = all.as_array().unwrap().iter().find(|i| so(i)) {
                return found.clone();
            }
            assert!(began.elapsed() < Duration::from_secs(240), "{what}: {all}");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

/// A webhook and its received messages.
async fn phone() -> (String, Arc<Mutex<Vec<String>>>) {
    let came: Arc<Mutex<Vec<String>>> = Arc::default();
    let took = came.clone();
    let take = move |body: String| {
        took.lock().push(body);
        std::future::ready("")
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(take)).await.unwrap() });
    (url, came)
}

fn endpoint(url: &str) -> Endpoint {
    let (username, password_file, bearer_token_file, ca) = (None, None, None, None);
    let (url, headers, timeout) = (url.to_owned(), [].into(), Duration::from_secs(10));
    Endpoint { url, username, password_file, bearer_token_file, ca, headers, timeout }
}

fn soon(config: &mut Config) {
    config.late = Duration::from_secs(2);
}

fn states(incident: &Value) -> Vec<&str> {
    incident["history"].as_array().unwrap().iter().map(|m| m["state"].as_str().unwrap()).collect()
}

fn seconds(incident: &Value, field: &str) -> i64 {
    incident[field].as_i64().unwrap() / 1_000_000_000
}

#[tokio::test(flavor = "multi_thread")]
async fn late_storm_is_found_without_notification() {
    let (url, came) = phone().await;
    let c = Collector::with(|config| {
        soon(config);
        config.alertmanager = Alertmanager { endpoints: vec![endpoint(&url)], ..Alertmanager::default() };
        config.webhook = vec![Webhook { name: "w".into(), endpoint: endpoint(&url), repeat: Duration::ZERO }];
    })
    .await;
    let now = now_ms();
    for (id, hosts) in [("4711", r#"["h1", "h2"]"#), ("9", r#"["h0", "h3"]"#)] {
        let job = format!(r#"{{"id": "{id}", "hosts": {hosts}, "start": {}}}"#, now / 1000 - 3600);
        let url = format!("http://{}/api/v1/jobs", c.running.http);
        assert_eq!(common::post(url, &[("content-type", "application/json")], job.into_bytes()).await.0, 201);
    }
    let hosts = Hosts { storm: [now - 600_000, now - 540_000] };
    // Agents send live samples first, then spooled ones.
    hosts.tell(&c, [now - 1000, now].into_iter()).await;
    for minute in (1..13).rev() {
        hosts.tell(&c, (0..60).map(|second| now - minute * 60_000 + second * 1000)).await;
    }
    let found = hosts.live(&c, "it is not found", |i| i["kind"] == "pfc_storm").await;
    assert_eq!(found["root"], json!({"type": "port", "node": STORM, "port": "mlx5_0/1"}), "{found}");
    assert_eq!((&found["state"], &found["victim_jobs"]), (&json!("ended"), &json!(["4711"])), "{found}");
    let (begin, end) = (seconds(&found, "start_ns") - now / 1000, seconds(&found, "end_ns") - now / 1000);
    assert!((-601..=-598).contains(&begin) && (-541..=-537).contains(&end), "{begin} {end}");
    assert_eq!(states(&found), ["opened", "late", "ended"]);
    assert!(seconds(&found, "detected_ns") >= now / 1000, "it is known since now");

    // Repeated samples change nothing.
    hosts.tell(&c, (0..60).map(|second| now - 13 * 60_000 + second * 1000)).await;
    // Only the live incident is notified.
    c.running.incidents().update(now_ns() as i64, &[incident("now", now_ns() as i64)]);
    common::until("two notifications", async || came.lock().len() >= 2).await;
    let told = came.lock().clone();
    assert!(told.iter().all(|body| body.contains("h3") && !body.contains("mlx5_0")), "{told:?}");
    c.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_samples_correct_the_start() {
    let c = Collector::with(soon).await;
    let now = now_ms();
    let hosts = Hosts { storm: [now - 240_000, i64::MAX] };
    let open = |i: &Value| i["state"] == "open";
    let opened = hosts.live(&c, "no incident", open).await;
    assert!(seconds(&opened, "start_ns") >= now / 1000 - 5, "it was not seen before: {opened}");
    let c_id = opened["id"].as_str().unwrap();
    let url = format!("http://{}/api/v1/incidents/{c_id}/acknowledge", c.running.http);
    let ack = common::post(url, &[("content-type", "application/json")], br#"{"by": "ann"}"#.to_vec()).await;
    assert_eq!(ack.0, 200, "{ack:?}");
    for minute in (0..7).rev() {
        hosts.tell(&c, (0..60).map(|second| now - 1000 - minute * 60_000 - second * 1000).rev()).await;
    }
    let right = hosts.live(&c, "it is not corrected", |i| states(i).contains(&"begin")).await;
    let begin = seconds(&right, "start_ns") - now / 1000;
    assert!((-241..=-238).contains(&begin), "{begin}: {right}");
    assert_eq!(
        (&right["id"], &right["state"], &right["acknowledged"]["by"]),
        (&opened["id"], &json!("open"), &json!("ann"))
    );
    let all = c.json("/api/v1/incidents").await.1;
    assert_eq!(all["total"], 1, "{all}");
    // The live tracker has another start time; the corrected one stays.
    // Several evaluations must pass.
    for _ in 0..8 {
        hosts.live(&c, "it is over", open).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let all = c.json("/api/v1/incidents").await.1["incidents"].take();
    assert_eq!((all[0]["start_ns"].clone(), all.as_array().unwrap().len()), (right["start_ns"].clone(), 1));
    c.running.stop().await;
}
