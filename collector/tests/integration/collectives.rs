//! Collectives of jobs by OTLP, as agents send them: a rank that is dead raises an incident while counters are silent, and a job
//! that its own rank holds back is no victim of a fault elsewhere.

use std::time::{Duration, Instant};

use crate::common::{self, Collector, now_ms, now_ns, post, series};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde_json::{Value, json};

const S: u64 = 1_000_000_000;
const COMMUNICATOR: (&str, &str) = ("communicator", "00000000000000aa");

fn text((key, value): (&str, &str)) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// Name, unit, attributes and value of a gauge.
type GaugeRow<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, f64);

/// Gauges of a host at an instant.
fn gauges(host: &str, at_ns: u64, all: &[GaugeRow<'_>]) -> ExportMetricsServiceRequest {
    let gauge = |(name, unit, attributes, value): &(&str, &str, Vec<(&str, &str)>, f64)| {
        let point = NumberDataPoint {
            attributes: attributes.iter().copied().map(text).collect(),
            time_unix_nano: at_ns,
            value: Some(number_data_point::Value::AsDouble(*value)),
            ..NumberDataPoint::default()
        };
        Metric {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
            data: Some(metric::Data::Gauge(Gauge { data_points: vec![point] })),
            ..Metric::default()
        }
    };
    let metrics = all.iter().map(gauge).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes: vec![text(("host", host))], ..Resource::default() }),
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

/// One answer of a job of four ranks about one that is so, if any.
fn answer(job: &str, at_ns: u64, idle_s: f64, rank: Option<(&str, &str)>) -> ExportMetricsServiceRequest {
    let own = |more: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        let own = [("job", job), ("scheduler", "slurm"), COMMUNICATOR];
        own.iter().chain(more).map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let is_dead = matches!(rank, Some(("dead", _)));
    let (dead, behind) = (f64::from(u8::from(is_dead)), f64::from(u8::from(rank.is_some() && !is_dead)));
    let mut all = vec![
        ("fabric.collective.readable", "", vec![("job", job.to_owned()), ("scheduler", "slurm".to_owned())], 1.0),
        ("fabric.collective.communicator.info", "", own(&[("size", "4")]), 1.0),
        ("fabric.collective.ranks", "{rank}", own(&[("state", "running")]), 4.0 - dead),
        ("fabric.collective.ranks", "{rank}", own(&[("state", "dead")]), dead),
        ("fabric.collective.behind", "{rank}", own(&[]), behind),
        ("fabric.collective.idle", "s", own(&[]), idle_s),
    ];
    if let Some((reason, host)) = rank {
        let operation = if is_dead { "" } else { "AllReduce" };
        let labels = [("rank", "3"), ("rank_host", host), ("pid", "1234"), ("gpu", "5"), ("reason", reason)];
        let labels: Vec<_> = labels.into_iter().chain([("operation", operation)]).collect();
        all.push(("fabric.collective.straggler.info", "", own(&labels), 1.0));
    }
    let all: Vec<GaugeRow<'_>> = all
        .iter()
        .map(|(name, unit, labels, value)| {
            (*name, *unit, labels.iter().map(|(name, value)| (*name, value.as_str())).collect(), *value)
        })
        .collect();
    gauges("h1", at_ns, &all)
}

/// Sends a request; the jobs that the answer says are in trouble.
async fn send(c: &Collector, request: ExportMetricsServiceRequest) -> Option<String> {
    let reply = c.grpc().await.export(request).await.unwrap();
    let jobs = reply.metadata().get("fabriclens-troubled-jobs").map(|jobs| jobs.to_str().unwrap().to_owned());
    assert_eq!(reply.into_inner().partial_success, None);
    jobs
}

async fn begin(c: &Collector, job: &str, hosts: &[&str]) {
    let url = format!("http://{}/api/v1/jobs", c.running.http);
    let body = json!({"id": job, "hosts": hosts}).to_string().into_bytes();
    let (status, why) = post(url, &[("content-type", "application/json")], body).await;
    assert_eq!(status, 201, "{why}");
}

/// Incidents of jobs, also observations.
async fn incidents(c: &Collector, kind: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for severity in ["critical", "info"] {
        let path = format!("/api/v1/incidents?kind={kind}&severity={severity}");
        let answer = c.json(&path).await.1;
        all.extend(answer["incidents"].as_array().unwrap_or_else(|| panic!("{answer}")).clone());
    }
    all
}

/// Ports of hosts that are up and move nothing.
async fn silent_ports(c: &Collector, hosts: &[&str]) {
    let now = now_ms();
    let mut list = Vec::new();
    for host in hosts {
        for direction in ["transmit", "receive"] {
            let labels = [
                ("__name__", "fabric_port_io_bytes_total"),
                ("device", "mlx5_0"),
                ("direction", direction),
                ("host", *host),
                ("port", "1"),
            ];
            list.push(series(&labels, &[(now - 1000, 5e9), (now, 5e9)]));
        }
    }
    assert_eq!(c.remote_write(list).await.0, 204);
}

/// Waits for the first incident of a kind for which `so` holds.
async fn until(c: &Collector, kind: &str, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(90);
    loop {
        let all = incidents(c, kind).await;
        if let Some(found) = all.iter().find(|one| so(one)) {
            return found.clone();
        }
        assert!(Instant::now() < patience, "{what}: {all:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn dead_rank_is_an_incident_of_its_host_that_survives_a_restart_and_ends_with_the_job() {
    let c = Collector::start().await;
    let hosts = ["h1", "h2", "h3"];
    begin(&c, "4711", &hosts).await;
    begin(&c, "4712", &["h4"]).await;
    silent_ports(&c, &hosts).await;
    let now = now_ns();
    // The address that NCCL knows is that of a TCP connection of the job on h2.
    let peers = [
        ("__name__", "fabric_job_tcp_peer_io_bytes_total"),
        ("host", "h2"),
        ("job", "4711"),
        ("local", "10.1.0.2"),
        ("peer", "10.1.0.1"),
        ("scheduler", "slurm"),
    ];
    assert_eq!(c.remote_write(vec![series(&peers, &[(now_ms(), 1.0)])]).await.0, 204);
    for ago in [70, 40, 10] {
        let idle_s = 100.0 - f64::from(ago);
        let dead = (ago < 70).then_some(("dead", "10.1.0.2"));
        send(&c, answer("4711", now - u64::try_from(ago).unwrap() * S, idle_s, dead)).await;
        // This one evaluates.
        send(&c, answer("4712", now - u64::try_from(ago).unwrap() * S, 500.0 + idle_s, None)).await;
    }
    let found = until(&c, "stuck_collective", "no incident", |_| true).await;
    assert_eq!(found["root"], json!({"type": "host", "node": "h2"}), "{found}");
    assert_eq!(
        (&found["severity"], &found["victim_jobs"], &found["culprit_jobs"]),
        (&json!("critical"), &json!(["4711"]), &json!([]))
    );
    let text = found["explanation"].as_str().unwrap();
    assert!(
        text.starts_with("Rank 3 of job 4711 (host h2, GPU 5, process 1234) is dead; 3 ranks wait for it in communicator 00000000000000aa since ")
            && text.contains("The counters of its host's ports show nothing"),
        "{text}"
    );
    let beat = || send(&c, answer("4712", now_ns(), 600.0, None));
    assert_eq!(beat().await.as_deref(), Some("4711"), "agents learn which job is in trouble");
    let began_ms = found["start_ns"].as_i64().unwrap() / 1_000_000;
    assert!((began_ms - (now as i64 / 1_000_000 - 100_000)).abs() < 2000, "{found}");

    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, |_| ()).await;
    // Longer than an incident stays open that is not found again.
    for _ in 0..20 {
        silent_ports(&c, &hosts).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let open = incidents(&c, "stuck_collective").await;
    let [one] = &*open else { panic!("{open:?}") };
    assert_eq!((&one["id"], &one["end_ns"]), (&found["id"], &Value::Null), "the same, and open");
    let url = format!("http://{}/api/v1/jobs/4711/end", c.running.http);
    assert_eq!(post(url, &[], Vec::new()).await.0, 200);
    let over = until(&c, "stuck_collective", "it does not end", |one| !one["end_ns"].is_null()).await;
    assert_eq!(over["id"], found["id"]);
    assert_eq!(send(&c, answer("4712", now_ns(), 700.0, None)).await, None, "it has ended");
    c.running.stop().await;
}

/// Counters of hosts with a port each: h0 pauses its switch, and the others stop to send, from an instant on.
struct Ports {
    url: String,
    bytes: f64,
    paused_s: f64,
    last_ms: i64,
}

impl Ports {
    async fn tick(&mut self, pauses: bool) {
        let now = now_ms();
        let seconds = (now - self.last_ms) as f64 / 1000.0;
        self.last_ms = now;
        self.bytes += if pauses { 0.0 } else { seconds * 1e9 };
        self.paused_s += if pauses { seconds * 0.6 } else { 0.0 };
        let mut list = Vec::new();
        for host in ["h0", "h1", "h2", "h3", "h4", "h5"] {
            let mut one = |name: &str, more: &[(&str, &str)], value: f64| {
                let own = [("__name__", name), ("host", host), ("device", "mlx5_0"), ("port", "1")];
                let labels: Vec<_> = own.into_iter().chain(more.iter().copied()).collect();
                list.push(series(&labels, &[(now, value)]));
            };
            for direction in ["transmit", "receive"] {
                one("fabric_port_io_bytes_total", &[("direction", direction)], self.bytes);
            }
            let paused = if host == "h0" { self.paused_s } else { 0.0 };
            let labels = [("direction", "transmit"), ("priority", "3")];
            one("fabric_pfc_pause_seconds_total", &labels, paused);
            one("fabric_pfc_frames_total", &labels, paused * 3000.0);
            one("fabric_port_rate_bytes_per_second", &[], 12.5e9);
        }
        let (status, why) = common::remote_write(&self.url, list).await;
        assert_eq!(status, 204, "{why}");
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
}

#[tokio::test]
async fn job_that_its_own_rank_holds_back_is_no_victim_of_another_port() {
    let c = Collector::start().await;
    for (job, hosts) in [("a", ["h0", "h1"]), ("b", ["h2", "h3"]), ("c", ["h4", "h5"])] {
        begin(&c, job, &hosts).await;
    }
    let url = format!("http://{}/api/v1/write", c.running.http);
    let mut ports = Ports { url, bytes: 0.0, paused_s: 0.0, last_ms: now_ms() };
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(45) {
        ports.tick(false).await;
    }
    // Of b, a rank on h3 has been behind for two answers.
    for ago in [70, 40, 10] {
        let behind = (ago < 70).then_some(("behind", "h3"));
        send(&c, answer("b", now_ns() - ago * S, 30.0 + ago as f64 / 100.0, behind)).await;
    }
    until(&c, "application_straggler", "the straggler is not seen", |_| true).await;
    let began = Instant::now();
    let last = loop {
        ports.tick(true).await;
        let open = c.json("/api/v1/incidents?state=open").await.1["incidents"].take();
        let own = open.as_array().unwrap().iter().find(|one| one["root"]["node"] == "h0").cloned();
        if let Some(own) =
            own.filter(|own| began.elapsed() > Duration::from_secs(15) && own["victim_jobs"] != json!([]))
        {
            break own;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{open}");
    };
    let victims: Vec<&str> = last["victim_jobs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(victims.contains(&"c"), "c stopped at the same time, and nothing else explains it: {last}");
    assert!(!victims.contains(&"b"), "{last}");
    let (_, whole) = c.json(&format!("/api/v1/incidents/{}", last["id"].as_str().unwrap())).await;
    let considered = whole["incident"]["considered"].as_array().unwrap_or_else(|| panic!("{whole}"));
    let why = considered.iter().find(|one| one["kind"] == "application_straggler").unwrap_or_else(|| panic!("{whole}"));
    assert_eq!(why["root"], json!({"type": "host", "node": "h3"}));
    c.running.stop().await;
}
