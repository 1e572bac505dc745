//! The audit of settings in a running collector: what it finds, since when, its series, baselines.

use std::time::{Duration, Instant};

use crate::common;
use crate::common::Collector;
use serde_json::{Value, json};

const HOSTS: [&str; 5] = ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"];

/// Samples of a metric of the first port of a host.
async fn write(c: &Collector, metric: &str, host: &str, more: &[(&str, &str)], samples: &[(i64, f64)]) {
    let mut labels = vec![("__name__", metric), ("device", "mlx5_0"), ("host", host), ("port", "1")];
    labels.extend(more);
    labels.sort_unstable();
    let (status, why) = c.remote_write(vec![common::series(&labels, samples)]).await;
    assert_eq!(status, 204, "{why}");
}

/// A fleet of one rail; PFC of the last host was turned off a minute ago.
async fn fleet(c: &Collector, now: i64) {
    for host in HOSTS {
        let facts = [("rail", "0"), ("model", "MT4129"), ("fabric", "roce")];
        write(c, "fabric_port_info", host, &facts, &[(now, 1.0)]).await;
        write(c, "fabric_port_up", host, &[], &[(now, 1.0)]).await;
        let later = if host == "gpu-5" { 0.0 } else { 1.0 };
        let pfc = [(now - 120_000, 1.0), (now - 60_000, later), (now, later)];
        write(c, "fabric_pfc_enabled", host, &[("priority", "3")], &pfc).await;
    }
}

/// Asks until the answer is as `wanted`.
async fn until(c: &Collector, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, answer) = c.json(path).await;
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < patience, "{answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn setting_of_one_host_is_found_with_the_time_of_its_change() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baselines.toml");
    std::fs::write(&file, "").unwrap();
    let c = Collector::over(dir, |config| config.baselines = vec![file.clone()]).await;
    let now = common::now_ms();
    fleet(&c, now).await;
    let found = |answer: &Value| answer["data"]["chosen"] == 1;
    let answer = until(&c, "/api/v1/audit", found).await;
    let drift = &answer["data"]["drifts"][0];
    assert_eq!(
        (&drift["host"], &drift["port"], &drift["key"]),
        (&json!("gpu-5"), &json!("mlx5_0/1"), &json!("pfc_priorities"))
    );
    assert_eq!(
        (&drift["value"], &drift["expected"], &drift["severity"]),
        (&json!("none"), &json!("3"), &json!("critical"))
    );
    let reason = json!({"type": "majority", "group": "rail 0, MT4129, roce", "agree": 4, "of": 5});
    assert_eq!(drift["reason"], reason);
    let since = drift["changed"]["since_ms"].as_i64().unwrap();
    assert!((since - (now - 60_000)).abs() <= 1_000, "{drift}");
    assert_eq!(drift["changed"]["before"], "3");

    let drift = |answer: &Value| answer["data"]["result"].as_array().is_some_and(|all| all.len() == 1);
    let answer = until(&c, "/api/v1/query?query=fabric_setting_drift", drift).await;
    let labels = &answer["data"]["result"][0]["metric"];
    assert_eq!(
        (&labels["host"], &labels["setting"], &labels["reason"]),
        (&json!("gpu-5"), &json!("pfc_priorities"), &json!("majority"))
    );
    for (path, chosen) in
        [("?host=gpu-5", 1), ("?host=gpu-1", 0), ("?severity=info", 0), ("?setting=pfc_priorities", 1)]
    {
        let (_, answer) = c.json(&format!("/api/v1/audit{path}")).await;
        assert_eq!(answer["data"]["chosen"], chosen, "{path}: {answer}");
    }

    // The site declares what the last host has: then the others are wrong.
    let (status, answer) = c.json("/api/v1/audit/baseline?host=gpu-5").await;
    assert_eq!(status, 200, "{answer}");
    std::fs::write(&file, answer["data"]["toml"].as_str().unwrap()).unwrap();
    let others = |answer: &Value| answer["data"]["chosen"] == 4;
    let answer = until(&c, "/api/v1/audit", others).await;
    assert_eq!(answer["data"]["drifts"][0]["reason"], json!({"type": "baseline", "name": "MT4129 roce as on gpu-5"}));
    let (status, answer) = c.json("/api/v1/audit/baseline?host=gpu-9").await;
    assert_eq!(status, 404, "{answer}");
}
