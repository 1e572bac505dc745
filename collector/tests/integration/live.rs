//! Live incidents, end to end: samples arrive by remote write, an incident appears in the API, survives a restart of the
//! collector, and ends with the fault.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::{Collector, now_ms, series};
use serde_json::Value;

const AHEAD_MS: i64 = 3000;

/// Sends the samples of four hosts with a port each, ten times as often as needed, to shorten the test.
struct Hosts {
    url: String,
    began_ms: i64,
    paused_s: f64,
    last_ms: i64,
}

impl Hosts {
    async fn tick(&mut self, storm: bool) {
        let now = now_ms();
        if storm {
            self.paused_s += (now - self.last_ms) as f64 / 1000.0 * 0.97;
        }
        self.last_ms = now;
        let seconds = (now - self.began_ms) as f64 / 1000.0;
        for host in ["h0", "h1", "h2", "h3"] {
            let mut list = Vec::new();
            // The clock of the host with the storm is ahead.
            let now = if host == "h2" { now + AHEAD_MS } else { now };
            let mut one = |name: &str, extra: &[(&str, &str)], value: f64| {
                let own = [("__name__", name), ("host", host), ("device", "mlx5_0"), ("port", "1")];
                let labels: Vec<_> = own.into_iter().chain(extra.iter().copied()).collect();
                list.push(series(&labels, &[(now, value)]));
            };
            for direction in ["transmit", "receive"] {
                one("fabric_port_io_bytes_total", &[("direction", direction)], seconds * 1e9);
            }
            let paused = if host == "h2" { self.paused_s } else { 0.0 };
            let priority = ("priority", "3");
            one("fabric_pfc_pause_seconds_total", &[("direction", "transmit"), priority], paused);
            one("fabric_pfc_frames_total", &[("direction", "transmit"), priority], paused * 3000.0);
            // The driver of one host reports more traffic than its link carries.
            one("fabric_port_rate_bytes_per_second", &[], if host == "h3" { 0.1e9 } else { 12.5e9 });
            // The collector may be down for a moment.
            let body = common::remote_write(&self.url, list);
            _ = tokio::time::timeout(Duration::from_secs(5), body).await;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }

    async fn until(&mut self, c: &Collector, storm: bool, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            self.tick(storm).await;
            let incidents = c.json("/api/v1/incidents").await.1["incidents"].take();
            if let Some(found) = incidents.as_array().unwrap().iter().find(|i| so(i)) {
                return found.clone();
            }
            assert!(began.elapsed() < Duration::from_secs(90), "{what}: {incidents}");
        }
    }
}

#[tokio::test]
async fn storm_incident_survives_restart() {
    let c = Collector::start().await;
    let url = |c: &Collector| format!("http://{}/api/v1/write", c.running.http);
    let now = now_ms();
    let mut hosts = Hosts { url: url(&c), began_ms: now, paused_s: 0.0, last_ms: now };
    for _ in 0..12 {
        hosts.tick(false).await;
    }
    assert_eq!(c.json("/api/v1/incidents").await.1["incidents"], serde_json::json!([]), "nothing is wrong yet");
    let doubted = c.get("/metrics").await.1;
    assert!(
        doubted.contains(r#"fabriclens_doubted_counters{node="h3",port="mlx5_0/1",reason="leaps"} 1"#),
        "{doubted}"
    );
    assert_eq!(doubted.matches("fabriclens_doubted_counters{").count(), 1);
    let begin_ms = now_ms();
    let opened = hosts.until(&c, true, "no incident", |i| i["end_ns"].is_null()).await;
    assert_eq!((&opened["kind"], &opened["root"]["node"]), (&"pfc_storm".into(), &"h2".into()), "{opened}");
    let start_ms = opened["start_ns"].as_i64().unwrap() / 1_000_000;
    let begin_ms = begin_ms + AHEAD_MS;
    assert!((begin_ms - 2000..begin_ms + 4000).contains(&start_ms), "it began at {begin_ms}, not at {start_ms}");
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, |_| ()).await;
    hosts.url = url(&c);
    let mut fell = false;
    let same = |i: &Value| i["id"] == opened["id"];
    for _ in 0..16 {
        hosts.tick(true).await;
        let open = c.json("/api/v1/incidents?state=open").await.1["incidents"].take();
        let open = open.as_array().unwrap().clone();
        fell |= open.len() != 1 || !same(&open[0]);
    }
    assert!(!fell, "one incident, the same all the time");
    let over = hosts.until(&c, false, "it does not end", |i| same(i) && !i["end_ns"].is_null()).await;
    assert!(over["end_ns"].as_i64() > over["start_ns"].as_i64(), "{over}");
    let none = c.json("/api/v1/incidents?state=open").await.1["incidents"].take();
    assert_eq!(none, serde_json::json!([]));
    c.running.stop().await;
}
