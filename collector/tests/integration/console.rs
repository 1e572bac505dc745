//! What the console needs of a collector: its pages, who the caller is, the overview, signals of ports.

use crate::common::{self, Collector, incident, now_ms, now_ns, series};
use fabriclens_core::prompb::TimeSeries;
use serde_json::{Value, json};

/// A counter of a port that grew by `rate` each second of the last minute.
fn counter(labels: &[(&str, &str)], rate: f64) -> TimeSeries {
    let now = now_ms();
    let samples: Vec<(i64, f64)> = (0..=12).map(|n| (now - 60_000 + n * 5000, n as f64 * 5.0 * rate)).collect();
    series(labels, &samples)
}

/// Sends two ports of one host: `mlx5_0/1` sends at half its line rate and pauses its switch 30 % of the time, `mlx5_1/1` is
/// down.
async fn send_ports(c: &Collector) {
    let port = |name, device, more: &[(&'static str, &'static str)]| {
        [&[("__name__", name), ("host", "h3"), ("device", device), ("port", "1")], more].concat()
    };
    let (sent, now) = ([("direction", "transmit")], [(now_ms(), 1.0)]);
    let pause = [("direction", "transmit"), ("priority", "3")];
    let all = vec![
        counter(&port("fabric_port_io_bytes_total", "mlx5_0", &sent), 5e9),
        counter(&port("fabric_pfc_pause_seconds_total", "mlx5_0", &pause), 0.3),
        series(&port("fabric_port_rate_bytes_per_second", "mlx5_0", &[]), &[(now_ms(), 1e10)]),
        series(&port("fabric_port_up", "mlx5_0", &[]), &now),
        series(&port("fabric_port_up", "mlx5_1", &[]), &[(now_ms(), 0.0)]),
        series(&[("__name__", "fabriclens_agent_start_time_seconds"), ("host", "h3")], &now),
        series(&[("__name__", "fabriclens_agent_start_time_seconds"), ("host", "h4")], &[(now_ms() - 100_000, 1.0)]),
    ];
    let (status, why) = c.remote_write(all).await;
    assert_eq!(status, 204, "{why}");
    let is_known = async || {
        let (_, answer) = c.json("/api/v1/topology/signals?signals=up,utilization,pause_sent").await;
        let of = |signal: usize| answer["data"]["signals"][signal]["values"].clone();
        of(0) == json!([1, 0]) && of(1)[0].is_number() && of(2)[0].is_number()
    };
    common::until("the detectors have the samples", is_known).await;
}

#[tokio::test]
async fn every_page_is_served_to_everybody() {
    let c = Collector::with(|config| config.external_url = Some("https://fabric.example/lens".to_owned())).await;
    for path in ["/", "/incidents/17-1", "/jobs/west/4711", "/ports/gpu-01/mlx5_0/1", "/explore?q=up"] {
        let (status, page) = c.get(path).await;
        assert_eq!(status, 200, "{path}");
        assert!(page.contains("<base href=\"/lens/\">"), "links begin at the path of external_url: {page}");
    }
    let (_, page) = c.get("/").await;
    let script = page.split("./assets/").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_eq!(c.get(&format!("/assets/{script}")).await.0, 200, "{script}");
    assert_eq!(c.get("/assets/none.js").await.0, 404);
    assert_eq!(c.get("/incident").await.0, 404, "the pages are listed");
}

#[tokio::test]
async fn overview_tells_what_is_wrong_and_what_is_busy() {
    let c = Collector::start().await;
    let empty = c.json("/api/v1/overview").await.1["data"].clone();
    assert_eq!((&empty["incidents"]["list"], &empty["measured"]["ports"]["known"]), (&json!([]), &json!(0)), "{empty}");
    drop(c);

    let c = Collector::start().await;
    send_ports(&c).await;
    let now = i64::try_from(now_ns()).unwrap();
    c.running.incidents().update(now, &[incident("a-1", now - 30_000_000_000)]);
    let job = json!({"id": "4711", "name": "train", "hosts": ["h3"]}).to_string();
    let url = format!("http://{}/api/v1/jobs", c.running.http);
    let (status, why) = common::post(url, &[("content-type", "application/json")], job.into_bytes()).await;
    assert_eq!(status, 201, "{why}");
    let data = c.json("/api/v1/overview").await.1["data"].clone();
    let of = |path: &str| data.pointer(path).cloned().unwrap_or_else(|| panic!("{path}: {data}"));
    assert_eq!(of("/incidents/critical"), 1);
    assert_eq!(of("/incidents/list/0/id"), "a-1");
    assert_eq!(of("/measured/ports/up"), json!({"up": 1, "of": 2}));
    assert_eq!(of("/measured/hosts/reporting"), 1);
    assert_eq!(of("/measured/hosts/names/0/host"), "h4", "it was heard, but not in the last minute");
    let hottest = of("/measured/ports/hottest");
    let highest = |name: &str| {
        let signal = hottest.as_array().unwrap().iter().find(|signal| signal["name"] == name).unwrap();
        (signal["ports"][0]["port"].clone(), signal["ports"][0]["value"].as_f64().unwrap_or_default())
    };
    let (port, value) = highest("utilization");
    assert!(port == "mlx5_0/1" && (value - 0.5).abs() < 0.01, "{value}");
    assert!((highest("pause_sent").1 - 0.3).abs() < 0.01);
    let suffering = of("/measured/suffering/0");
    assert_eq!([&suffering["id"], &suffering["incidents"]], [&json!("4711"), &json!(["a-1"])]);
    let rate = suffering["bytes_per_second"].as_f64().unwrap();
    assert!((rate - 5e9).abs() < 5e8, "{rate}");
    // Measured values are shared for some seconds, incidents are not.
    c.running.incidents().update(now, &[]);
    let later = c.json("/api/v1/overview").await.1["data"].clone();
    assert_eq!(later["measured"]["time"], data["measured"]["time"]);
}

#[tokio::test]
async fn signals_of_ports_are_columns_at_an_instant() {
    let c = Collector::start().await;
    send_ports(&c).await;
    let ask = async |query: &str| c.json(&format!("/api/v1/topology/signals?{query}")).await;
    let (status, answer) = ask("signals=utilization,up").await;
    assert_eq!(status, 200, "{answer}");
    let data = &answer["data"];
    assert_eq!(data["ports"], json!([["h3", "mlx5_0/1"], ["h3", "mlx5_1/1"]]));
    let column = |n: usize| data["signals"][n]["values"].clone();
    assert_eq!((column(1), &data["signals"][0]["unit"]), (json!([1, 0]), &json!("1")));
    assert!((column(0)[0].as_f64().unwrap() - 0.5).abs() < 0.01 && column(0)[1] == Value::Null, "absent is not zero");
    let before = ask(&format!("signals=up&time={}", now_ms() / 1000 - 3600)).await.1;
    assert_eq!(before["data"]["ports"], json!([]), "an hour ago nothing was known");
    let (status, answer) = ask("signals=heat").await;
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().unwrap().contains("is none of utilization,"), "{answer}");
}
