//! A site of two ingest collectors, judge and standby over one engine, with 400 agents: any one may be killed, every
//! acknowledged sample is in the engine, and a fault gives the verdict of one collector that does everything.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::engine::{Engine, Kind};
use crate::common::{Collector, now_ms, until};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use serde_json::Value;

use super::TAKE_OVER;
use super::site::{Node, judge_config};

const AGENTS: usize = 400;
/// The host whose NIC pauses its switch.
const STORM: usize = 7;
const IO: &str = "fabric_port_io_bytes_total";
const TICK: Duration = Duration::from_millis(500);

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn host(agent: usize) -> String {
    format!("gpu-{agent:02}")
}

/// An agent: it keeps what is not acknowledged and sends it again, to its other collector if the first one does not answer.
struct Agent {
    number: usize,
    /// Index of its collector.
    at: usize,
    waiting: VecDeque<(i64, u64, Vec<u8>)>,
    /// Acknowledged samples of [`IO`]: time and value.
    acknowledged: Vec<(i64, u64)>,
}

/// What all agents count.
struct Fleet {
    began_ms: i64,
    paused_s: f64,
    last_ms: i64,
    agents: Vec<Agent>,
    ingests: Vec<String>,
    /// A collector that does everything and gets the same samples.
    reference: String,
}

impl Fleet {
    fn request(&self, agent: usize, now: i64) -> (u64, Vec<u8>) {
        let point = |labels: &[(&str, &str)], value: f64| NumberDataPoint {
            attributes: labels.iter().map(|(key, value)| text(key, value)).collect(),
            start_time_unix_nano: self.began_ms as u64 * 1_000_000,
            time_unix_nano: now as u64 * 1_000_000,
            value: Some(number_data_point::Value::AsDouble(value)),
            ..NumberDataPoint::default()
        };
        let counter = |name: &str, data_points| Metric {
            name: name.to_owned(),
            data: Some(metric::Data::Sum(Sum { data_points, aggregation_temporality: 2, is_monotonic: true })),
            ..Metric::default()
        };
        // Whole thousands: VictoriaMetrics keeps decimals, rounded.
        let moved = (now - self.began_ms) * 1_000_000;
        let paused = if agent == STORM { (self.paused_s * 1000.0).round() } else { 0.0 };
        let pause = [("direction", "transmit"), ("priority", "3")];
        let rate = Gauge { data_points: vec![point(&[], 12.5e9)] };
        let metrics = vec![
            counter(IO, ["transmit", "receive"].map(|to| point(&[("direction", to)], moved as f64)).to_vec()),
            counter("fabric_pfc_pause_seconds_total", vec![point(&pause, paused / 1000.0)]),
            counter("fabric_pfc_frames_total", vec![point(&pause, paused * 3.0)]),
            Metric {
                name: "fabric_port_rate_bytes_per_second".to_owned(),
                data: Some(metric::Data::Gauge(rate)),
                ..Metric::default()
            },
        ];
        let attributes = vec![text("host", &host(agent)), text("device", "mlx5_0"), text("port", "1")];
        let request = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
                ..ResourceMetrics::default()
            }],
        };
        (moved as u64, request.encode_to_vec())
    }

    /// All agents sample, send what waits, and pause.
    async fn tick(&mut self, storm: bool) {
        let now = now_ms();
        if storm {
            self.paused_s += (now - self.last_ms) as f64 / 1000.0 * 0.97;
        }
        self.last_ms = now;
        // Messages in a row are one message with the content of all.
        let mut all = Vec::new();
        for number in 0..self.agents.len() {
            let (value, body) = self.request(number, now);
            all.extend_from_slice(&body);
            self.agents[number].waiting.push_back((now, value, body));
        }
        assert_eq!(send(&self.reference, &all).await, 200);
        self.send().await;
        tokio::time::sleep(TICK).await;
    }

    /// Sends what waits, as far as collectors accept it.
    async fn send(&mut self) {
        let mut down = vec![false; self.ingests.len()];
        for agent in &mut self.agents {
            while let Some((time, value, body)) = agent.waiting.front() {
                let mut accepted = false;
                for _ in 0..self.ingests.len() {
                    if !down[agent.at] && send(&self.ingests[agent.at], body).await == 200 {
                        accepted = true;
                        break;
                    }
                    down[agent.at] = true;
                    agent.at = (agent.at + 1) % self.ingests.len();
                }
                if !accepted {
                    break;
                }
                agent.acknowledged.push((*time, *value));
                agent.waiting.pop_front();
            }
        }
    }

    async fn ticks(&mut self, ticks: usize, storm: bool) {
        for _ in 0..ticks {
            self.tick(storm).await;
        }
    }

    /// Goes on until all incidents of a judge satisfy a condition.
    async fn until(&mut self, url: &str, storm: bool, what: &str, so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let began = Instant::now();
        loop {
            self.tick(storm).await;
            let found = incidents(url).await;
            if so(&found) {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "{what}: {found:?}");
        }
    }
}

/// HTTP status; 0 if nobody answers.
async fn send(url: &str, body: &[u8]) -> u16 {
    let (url, body) = (url.to_owned(), body.to_vec());
    let asked = tokio::task::spawn_blocking(move || {
        let request = crate::common::process::agent().post(&url).header("content-type", "application/x-protobuf");
        request.send(&body[..]).map_or(0, |response| response.status().as_u16())
    });
    asked.await.unwrap()
}

/// All incidents of a collector; none while it does not answer.
async fn incidents(url: &str) -> Vec<Value> {
    let url = format!("{url}/api/v1/incidents");
    let asked = tokio::task::spawn_blocking(move || {
        let mut response = crate::common::process::agent().get(&url).call().ok()?;
        serde_json::from_str::<Value>(&response.body_mut().read_to_string().ok()?).ok()
    });
    let answer = asked.await.unwrap().unwrap_or_default();
    answer["incidents"].as_array().cloned().unwrap_or_default()
}

/// What a verdict says: kind, location, severity and priorities.
fn verdict(incident: &Value) -> [Value; 4] {
    ["kind", "root", "severity", "priorities"].map(|key| incident[key].clone())
}

fn is_open(incident: &Value) -> bool {
    incident["state"] == "open"
}

fn ingest_config(engine: &str, judges: &[Node; 2]) -> String {
    let urls = judges.each_ref().map(|judge| format!("'{}'", judge.url())).join(", ");
    format!(
        "role = 'ingest'\nself_metrics_interval = '1s'\nstore = {{ remote = '{engine}' }}\njudge = {{ urls = [{urls}] }}\n"
    )
}

/// Waits until the judge has taken all that an ingest collector has for it.
async fn drained(ingest: &Node) {
    let pending = "fabriclens_forward_pending_samples{queue=\"judge.samples\"} 0\n";
    until("the judge has everything", async || {
        crate::common::fetch(&ingest.url(), "/metrics").await.2.contains(pending)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs: victoria-metrics"]
async fn any_one_of_a_site_may_be_killed() {
    let (mut engine, site) = (Engine::start(Kind::Victoria).await, tempfile::tempdir().unwrap());
    let site: &Path = site.path();
    let (lease, data) = (site.join("judge.lease"), site.join("judge-data"));
    let mut judges =
        ["judge-a", "judge-b"].map(|name| Node::new(site, name, &data, &judge_config(&engine.base, &lease, name)));
    judges[0].start();
    judges[0].until_ready().await;
    judges[1].start();
    judges[1].until_standby_of("judge-a").await;
    let config = ingest_config(&engine.base, &judges);
    let mut ingests =
        ["ingest-0", "ingest-1"].map(|name| Node::new(site, name, &site.join(format!("{name}-data")), &config));
    for ingest in &mut ingests {
        ingest.start();
        ingest.until_ready().await;
    }
    let reference = Collector::start().await;
    let begin = now_ms();
    let agent = |number| Agent { number, at: number % 2, waiting: VecDeque::new(), acknowledged: Vec::new() };
    let mut fleet = Fleet {
        began_ms: begin - 1000,
        paused_s: 0.0,
        last_ms: begin,
        agents: (0..AGENTS).map(agent).collect(),
        ingests: ingests.iter().map(Node::otlp).collect(),
        reference: format!("http://{}/v1/metrics", reference.running.otlp_http),
    };
    fleet.ticks(10, false).await;

    // An ingest collector: its agents move, and what it had acknowledged waits in its queue.
    ingests[0].kill();
    fleet.ticks(6, false).await;
    assert!(fleet.agents.iter().all(|agent| agent.at == 1 && agent.waiting.is_empty()));
    ingests[0].start();
    ingests[0].until_ready().await;
    fleet.agents.iter_mut().for_each(|agent| agent.at = agent.number % 2);

    // The engine: agents notice nothing. It is stopped, because it acknowledges before its samples are on disk.
    engine.end();
    fleet.ticks(6, false).await;
    assert!(fleet.agents.iter().all(|agent| agent.waiting.is_empty()));
    engine.restart().await;

    // The standby.
    judges[1].kill();
    fleet.ticks(4, false).await;
    judges[1].start();
    judges[1].until_standby_of("judge-a").await;
    assert_eq!(incidents(&judges[0].url()).await, Vec::<Value>::new(), "nothing is wrong yet");

    // The judge, during a fault.
    let found = fleet.until(&judges[0].url(), true, "no incident", |all| all.iter().any(is_open)).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let (id, verdict_before) = (found[0]["id"].clone(), verdict(&found[0]));
    judges[0].kill();
    let killed = Instant::now();
    while judges[1].ready().await.0 != 200 {
        fleet.tick(true).await;
        assert!(killed.elapsed() < TAKE_OVER, "{}", judges[1].log());
    }
    println!("take-over took {:.1} s", killed.elapsed().as_secs_f64());
    judges[0].start();
    judges[0].until_standby_of("judge-b").await;
    let mut open = Vec::new();
    for _ in 0..16 {
        fleet.tick(true).await;
        open.push(incidents(&judges[1].url()).await);
    }
    for all in &open {
        assert!(all.len() == 1 && is_open(&all[0]) && all[0]["id"] == id, "one incident all the time: {all:?}");
    }

    // The verdict of one collector that does everything, over the same samples.
    let want = incidents(&format!("http://{}", reference.running.http)).await;
    assert_eq!(want.len(), 1, "{want:?}");
    assert_eq!(verdict(&want[0]), verdict_before);
    assert_eq!(verdict(&want[0]), verdict(&open[15][0]));
    let starts = [&want[0], &open[15][0]].map(|one| one["start_ns"].as_i64().unwrap() / 1_000_000);
    assert!((starts[0] - starts[1]).abs() <= 2000, "{starts:?}");
    let over = fleet.until(&judges[1].url(), false, "it does not end", |all| !all.iter().any(is_open)).await;
    assert!(over.len() == 1 && over[0]["id"] == id, "{over:?}");

    fleet.send().await;
    for ingest in &ingests {
        drained(ingest).await;
    }
    every_acknowledged_sample_is_in_the_engine(&fleet, &engine, begin).await;
    // The judge's own series are there, and what it judges is not written twice by it.
    let own = engine.samples("{__name__=\"fabriclens_judge_lease_epoch\"}", begin, now_ms()).await;
    assert!(own.values().flatten().any(|(_, value)| f64::from_bits(*value) == 2.0), "{own:?}");
    // Nothing was dropped on the way.
    for node in ingests.iter().chain([&judges[1]]) {
        let (_, _, text) = crate::common::fetch(&node.url(), "/metrics").await;
        let dropped = text.lines().filter(|line| line.starts_with("fabriclens_forward_dropped_total{"));
        dropped.for_each(|line| assert!(line.ends_with(" 0"), "{}: {line}", node.name));
    }
}

async fn every_acknowledged_sample_is_in_the_engine(fleet: &Fleet, engine: &Engine, begin: i64) {
    let want = |agent: &Agent| -> BTreeMap<i64, u64> { agent.acknowledged.iter().copied().collect() };
    let lacks = async || {
        let found = engine.samples(&format!("{{__name__=\"{IO}\",direction=\"transmit\"}}"), begin, now_ms()).await;
        let mut lacking = Vec::new();
        for agent in &fleet.agents {
            let name = format!("\"host\":\"{}\"", host(agent.number));
            let of_host = found.iter().find(|(labels, _)| labels.contains(&name)).map(|(_, samples)| samples);
            let of_host: BTreeMap<i64, f64> =
                of_host.into_iter().flatten().map(|(t, v)| (*t, f64::from_bits(*v))).collect();
            for (time, value) in want(agent) {
                if of_host.get(&time) != Some(&(value as f64)) {
                    lacking.push((agent.number, time, value, of_host.get(&time).copied()));
                }
            }
        }
        lacking
    };
    let began = Instant::now();
    loop {
        // Own metrics keep the queues from being empty for long, and the engine shows samples late.
        let lacking = lacks().await;
        if lacking.is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{} samples are missing: {lacking:?}", lacking.len());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let all: usize = fleet.agents.iter().map(|agent| agent.acknowledged.len()).sum();
    assert!(all > AGENTS * 40 && fleet.agents.iter().all(|agent| agent.waiting.is_empty()), "{all}");
}
