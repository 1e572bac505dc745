//! A switch pushes to a real collector: its counters are queried under canonical names, and it is listed.

use crate::common::{Collector, now_ns};
use serde_json::{Value, json};

/// Sets all times of a request.
fn at_present(value: &mut Value, now: &str) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name.ends_with("imeUnixNano") {
                    *field = Value::String(now.to_owned());
                } else {
                    at_present(field, now);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| at_present(one, now)),
        _ => {}
    }
}

pub(crate) async fn post(c: &Collector, mut request: Value) -> Value {
    at_present(&mut request, &now_ns().to_string());
    let (status, body) = c.otlp_http(&[("content-type", "application/json")], request.to_string().into_bytes()).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Metrics of a port, as a Cumulus switch pushes them.
pub(crate) fn cumulus(switch: &str, metrics: &[(&str, f64)]) -> Value {
    let gauge = |(name, value): &(&str, f64)| {
        let interface = json!({"key": "interface", "value": {"stringValue": "swp1s0"}});
        let point = json!({"attributes": [interface], "timeUnixNano": "", "asDouble": value});
        json!({"name": name, "gauge": {"dataPoints": [point]}})
    };
    let metrics: Vec<Value> = metrics.iter().map(gauge).collect();
    let host = json!({"attributes": [{"key": "net.host.name", "value": {"stringValue": switch}}]});
    json!({"resourceMetrics": [{"resource": host, "scopeMetrics": [{"metrics": metrics}]}]})
}

#[tokio::test]
async fn a_switch_is_listed_with_what_is_not_understood() {
    let c = Collector::start().await;
    assert_eq!(c.json("/api/v1/switches").await.1["data"]["switches"], json!([]));
    let request =
        cumulus("leaf1", &[("nvswitch_interface_if_out_octets", 4928.0), ("nvswitch_of_a_later_release", 1.0)]);
    assert_eq!(post(&c, request).await, json!({}), "a name that is not understood is no error of the switch");
    let sent = r#"fabric_port_io_bytes_total{host="leaf1",port="swp1s0",direction="transmit"}"#;
    assert_eq!(c.value(sent).await, Some(4928.0));
    let listed = c.json("/api/v1/switches").await.1["data"]["switches"].take();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!((&listed[0]["switch"], &listed[0]["source"]), (&json!("leaf1"), &json!("cumulus")));
    assert_eq!(listed[0]["unknown"][0]["name"], "nvswitch_of_a_later_release");
    let own = c.get("/metrics").await.1;
    for (outcome, points) in [("translated", 1), ("unknown", 1)] {
        let row =
            format!("fabriclens_ingest_foreign_points_total{{outcome=\"{outcome}\",source=\"cumulus\"}} {points}");
        assert!(own.contains(&row), "{row}");
    }
    c.running.stop().await;
}

#[tokio::test]
#[ignore = "needs: recordings"]
async fn a_recorded_request_is_understood_whole() {
    let c = Collector::start().await;
    let path = fabriclens_testing::recordings().join("switch-otlp/cumulus-5.19-request/request.json");
    let request: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    post(&c, request).await;
    let listed = c.json("/api/v1/switches").await.1["data"]["switches"].take();
    assert_eq!(listed[0]["switch"], "switch-hostname", "{listed}");
    assert_eq!(listed[0]["unknown"], json!([]));
    assert_eq!(c.value(r#"fabric_port_io_bytes_total{port="swp1s0",direction="transmit"}"#).await, Some(4928.0));
    assert_eq!(c.value(r#"fabric_port_up{port="swp61s0"}"#).await, Some(1.0));
    assert_eq!(c.value(r#"fabric_port_up{port="swp1"}"#).await, Some(0.0));
    assert_eq!(c.value(r#"count({__name__=~"nvswitch_.*"})"#).await, None, "no name is stored as it came");
    c.running.stop().await;
}
