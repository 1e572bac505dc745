//! Incidents name what the kernel log of their host named at the same time.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::{Collector, incident, now_ns};
use fabriclens_correlate::{Incident, Location};
use serde_json::{Value, json};

const S: i64 = 1_000_000_000;

/// Counts of one class on a host: 0, and 1 from that many seconds ago.
async fn write(c: &Collector, host: &str, more: &[(&str, &str)], ago: i64) {
    let at = now_ns() as i64 / 1_000_000;
    let mut labels = vec![("__name__", "fabric_kernel_log_events_total"), ("host", host)];
    labels.extend(more);
    labels.sort_unstable();
    let samples = [(at - ago * 1000 - 1000, 0.0), (at - ago * 1000, 1.0), (at, 1.0)];
    let (status, why) = c.remote_write(vec![common::series(&labels, &samples)]).await;
    assert_eq!(status, 204, "{why}");
}

#[tokio::test]
async fn incident_names_the_kernel_log_of_its_host() {
    let c = Collector::start().await;
    let now = now_ns() as i64;
    let root = Location::Port { node: "h3".into(), port: "mlx5_0/1".into() };
    c.running.incidents().update(now, &[Incident { root, ..incident("a", now - 30 * S) }]);
    let died =
        [("class", "mlx5_health_lost"), ("device", "mlx5_0"), ("pci_address", "0000:3b:00.0"), ("severity", "fatal")];
    write(&c, "h3", &died, 40).await;
    write(&c, "h3", &[("class", "mlx5_health_lost"), ("device", "mlx5_1"), ("severity", "fatal")], 40).await;
    write(&c, "h4", &died, 40).await;
    write(&c, "h3", &[("class", "gpu_lost"), ("code", "79"), ("severity", "fatal")], 900).await;
    let patience = Instant::now() + Duration::from_secs(60);
    let told = loop {
        let (_, answer) = c.json("/api/v1/incidents/a").await;
        let told = answer["incident"]["kernel_log"].clone();
        if told != Value::Null {
            let history = answer["incident"]["history"].as_array().unwrap();
            let noted: Vec<_> = history.iter().filter(|entry| entry["state"] == "kernel_log").collect();
            assert_eq!(noted.len(), 1, "{answer}");
            let detail = noted[0]["detail"].as_str().unwrap();
            assert!(
                detail.starts_with("Kernel log of h3 mlx5_0 0000:3b:00.0 at ")
                    && detail.ends_with("This may be the reason."),
                "{detail}"
            );
            break told;
        }
        assert!(Instant::now() < patience, "{answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let [event] = &**told.as_array().unwrap() else { panic!("another adapter, another host, long ago: {told}") };
    let at = event["at_ms"].as_i64().unwrap();
    assert!((at - (now / 1_000_000 - 40_000)).abs() < 3000, "{event}");
    assert_eq!(
        (&event["class"], &event["severity"], &event["may_be_reason"]),
        (&json!("mlx5_health_lost"), &json!("fatal"), &json!(true))
    );

    let url = format!("http://{}", c.running.http);
    let shown = tokio::task::spawn_blocking(move || {
        let mut client = std::process::Command::new(env!("CARGO_BIN_EXE_fabriclens"));
        client.args(["incidents", "a"]).env("FABRICLENS_URL", url).output().unwrap()
    });
    let shown = String::from_utf8(shown.await.unwrap().stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("kernel log ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains("h3 mlx5_0 0000:3b:00.0 at ") && shown.contains("(mlx5_health_lost)"), "{shown}");
}
