//! Paths and probes over real gRPC: agents of eight hosts offer their ports, get plans, report traced paths and results of probes;
//! a link that loses packets is named with its path, although no source but the traces knows the spines.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::common::unary::unary;
use crate::common::{Collector, now_ms, now_ns, remote_write, series};
use fabriclens_probe_plan::{
    Hop, PLAN, PairClass, PlanReply, PlanRequest, ProbeResult, ProbeTransport, ProbedPort, REPORT, ReportReply,
    ReportRequest, ReportedPair, Target, TracedPath,
};
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status};

const HOSTS: usize = 8;
const PORT: &str = "mlx5_0/1";

fn name(host: usize) -> String {
    format!("h{host}")
}

fn leaf(host: usize) -> usize {
    host / 4
}

/// The leaves hash the source port.
fn spine(source_port: u32) -> usize {
    source_port as usize % 2
}

fn number(host: &str) -> usize {
    host.trim_start_matches('h').parse().unwrap()
}

/// Files and LLDP know the hosts' cables; nobody tells of the spines.
fn topology() -> Value {
    let hosts: Vec<Value> = (0..HOSTS).map(|host| json!({"id": name(host)})).collect();
    let links = (0..HOSTS).map(|host| {
        json!({"a": name(host), "a_port": PORT, "b": format!("leaf{}", leaf(host)), "b_port": (host % 4 + 1).to_string()})
    });
    json!({"hosts": hosts, "switches": [{"id": "leaf0"}, {"id": "leaf1"}], "links": links.collect::<Vec<_>>()})
}

fn offer(host: usize) -> PlanRequest {
    let port = ProbedPort {
        name: PORT.into(),
        address: vec![10, 0, leaf(host) as u8, host as u8],
        queue_pair: 17,
        tcp_port: 4792,
        traces: true,
        hardware_time: true,
        ..ProbedPort::default()
    };
    PlanRequest { host: name(host), agent: 1, ports: vec![port] }
}

async fn ask(channel: &Channel, host: usize) -> PlanReply {
    let plan: PlanReply = unary(channel, PLAN, offer(host)).await.unwrap();
    plan.check().unwrap();
    plan
}

async fn report(channel: &Channel, report: ReportRequest) -> Result<ReportReply, Status> {
    unary(channel, REPORT, report).await
}

/// What a trace shows: the leaf, then a spine and the other leaf, by the interfaces at which the packet comes in.
fn hops(from: usize, to: usize, source_port: u32) -> Vec<Hop> {
    let hop = |address: [u8; 4]| Hop { addresses: vec![address.to_vec()] };
    let first = hop([10, 0, leaf(from) as u8, 254]);
    if leaf(from) == leaf(to) {
        return vec![first];
    }
    let spine = spine(source_port) as u8;
    vec![first, hop([10, 9, spine, 1]), hop([10, 8, leaf(to) as u8, spine])]
}

/// One agent's report: each source port traced, and a probe from each; those between leaf 0 and spine 0 are lost at times.
fn found(host: usize, targets: &[Target], round: u64, is_lossy: bool) -> ReportRequest {
    let mut report = ReportRequest { host: name(host), agent: 1, ..ReportRequest::default() };
    for (at, target) in targets.iter().enumerate() {
        let (pair, to) = (at as u32, number(&target.host));
        report.pairs.push(ReportedPair { from: PORT.into(), host: target.host.clone(), port: PORT.into() });
        for source_port in &target.source_ports {
            let hops = hops(host, to, *source_port);
            let over = is_lossy && hops.len() == 3 && spine(*source_port) == 0;
            report.paths.push(TracedPath {
                pair,
                source_port: *source_port,
                traced_ns: now_ns(),
                hops,
                complete: true,
            });
            if target.probe_every_ms == 0 {
                continue;
            }
            let is_lost = over && (round + u64::from(*source_port)).is_multiple_of(5);
            report.probes.push(ProbeResult {
                pair,
                source_port: *source_port,
                sent_ns: now_ns(),
                rtt_ns: (!is_lost).then_some(8_000),
                turn_ns: (!is_lost).then_some(3_000),
                own_ns: 2_000,
                transport: ProbeTransport::Rdma.into(),
            });
        }
    }
    report
}

/// Counters of all hosts: h0 and h1 lose packets on their way over spine 0.
struct Counters {
    url: String,
    began_ms: i64,
    lost: f64,
}

/// Sender, receiver, source port.
const FLOWS: [(usize, usize, u32); 4] = [(0, 4, 50_000), (1, 5, 50_002), (2, 6, 50_001), (3, 7, 50_003)];

impl Counters {
    async fn send(&mut self, loses: bool) {
        let now = now_ms();
        if loses {
            self.lost += 20.0;
        }
        let seconds = (now - self.began_ms) as f64 / 1e3;
        let mut list = Vec::new();
        for host in 0..HOSTS {
            let of = name(host);
            let mut one = |metric: &str, extra: &[(&str, &str)], value: f64| {
                let own = [("__name__", metric), ("host", &*of), ("device", "mlx5_0"), ("port", "1")];
                let labels: Vec<_> = own.into_iter().chain(extra.iter().copied()).collect();
                list.push(series(&labels, &[(now, value)]));
            };
            for direction in ["transmit", "receive"] {
                one("fabric_port_io_bytes_total", &[("direction", direction)], seconds * 1e9);
            }
            one("fabric_port_rate_bytes_per_second", &[], 12.5e9);
            let lost = |hosts: [usize; 2]| if hosts.contains(&host) { self.lost } else { 0.0 };
            one("fabric_rdma_sequence_naks_total", &[("direction", "receive")], lost([0, 1]));
            one("fabric_rdma_out_of_sequence_total", &[], lost([4, 5]));
            for (at, (from, to, source_port)) in FLOWS.iter().enumerate() {
                let [near, far] = [(100 + at).to_string(), (200 + at).to_string()];
                let (local, remote) = if host == *from { (near, far) } else { (far, near) };
                if host == *from || host == *to {
                    let port = source_port.to_string();
                    let labels = [("job", "7"), ("local", &*local), ("remote", &*remote), ("source_port", &*port)];
                    one("fabric_queue_pair_info", &labels, 1.0);
                }
            }
        }
        let (status, why) = remote_write(&self.url, list).await;
        assert_eq!(status, 204, "{why}");
    }
}

#[tokio::test]
async fn a_lossy_link_is_named_with_its_path_by_reports_of_agents() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fabric.json");
    std::fs::write(&file, topology().to_string()).unwrap();
    let c = Collector::over(dir, |config| config.topology = vec![file]).await;
    let url = format!("http://{}/api/v1/write", c.running.http);
    let channel = Channel::from_shared(format!("http://{}", c.running.otlp_grpc)).unwrap().connect().await.unwrap();
    let mut counters = Counters { url, began_ms: now_ms(), lost: 0.0 };
    let (began, mut round, mut plans) = (Instant::now(), 0, HashMap::new());
    let incident = loop {
        round += 1;
        let is_lossy = began.elapsed() > Duration::from_secs(35);
        counters.send(is_lossy).await;
        for host in 0..HOSTS {
            let plan = ask(&channel, host).await;
            let reply = report(&channel, found(host, &plan.targets, round, is_lossy)).await.unwrap();
            assert_eq!(reply, ReportReply::default());
            plans.insert(host, plan);
        }
        let incidents = c.json("/api/v1/incidents").await.1["incidents"].take();
        if let Some(found) =
            incidents.as_array().unwrap().iter().find(|i| i["kind"] == "lossy_link" && i["path"] != Value::Null)
        {
            break found.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(150), "{incidents}");
        tokio::time::sleep(Duration::from_millis(700)).await;
    };
    assert!(incident["root"]["type"] == "link" || incident["root"].to_string().contains("10.9.0.1"), "{incident}");
    assert!(
        incident["root"].to_string().contains("switch 10.9.0.1"),
        "the link of the spine by its address: {incident}"
    );
    assert_eq!(incident["path"]["known"], "traced");
    let path = incident["path"].to_string();
    assert!(path.contains("leaf0") && path.contains("switch 10.9.0.1") && path.contains("leaf1"), "{path}");

    let of_job: Vec<(&str, &[u32])> = plans[&0]
        .targets
        .iter()
        .filter(|target| target.class() == PairClass::Job)
        .map(|target| (target.host.as_str(), target.source_ports.as_slice()))
        .collect();
    assert_eq!(of_job, [("h4", &[50_000][..])], "the queue pair's own source port");
    let (status, answer) = c.json("/api/v1/probes").await;
    let coverage = &answer["data"]["summary"]["coverage"];
    assert_eq!(
        (status, &coverage["between_switches"], &coverage["at_hosts"]),
        (200, &json!(8), &json!(16)),
        "{answer}"
    );
    assert_eq!(coverage["all_between_switches"], 8);
    let (_, one) = c.json("/api/v1/probes?host=h0").await;
    assert_eq!(one["data"]["hosts"][0]["pairs"][0]["host"], "h4", "{one}");
    let (status, gone) = c.json("/api/v1/probes?host=h99").await;
    assert!(status == 404 && gone["error"].as_str().unwrap().contains("set probes.enabled"), "{gone}");
    refusals(&c, &channel, &plans[&0]).await;
    c.running.stop().await;
}

/// What is forged, late, foreign or too large.
async fn refusals(c: &Collector, channel: &Channel, plan: &PlanReply) {
    let sound = found(0, &plan.targets, 1, false);
    let late = {
        let mut late = sound.clone();
        late.probes.iter_mut().for_each(|probe| probe.sent_ns -= 120_000_000_000);
        late.paths.clear();
        late
    };
    let reply = report(channel, late.clone()).await.unwrap();
    assert!(reply.refused as usize == late.probes.len() && reply.why.contains("s ago"), "{reply:?}");
    let mut foreign = sound.clone();
    foreign.pairs.iter_mut().for_each(|pair| pair.host = "storage-1".into());
    let reply = report(channel, foreign.clone()).await.unwrap();
    assert_eq!(reply.refused as usize, foreign.paths.len() + foreign.probes.len());
    assert!(reply.why.contains("does not name the pair mlx5_0/1 to storage-1"), "{reply:?}");
    let other = report(channel, ReportRequest { agent: 2, ..sound.clone() }).await.unwrap_err();
    assert_eq!(other.code(), Code::FailedPrecondition, "{other:?}");
    let stranger = report(channel, ReportRequest { host: "h99".into(), ..sound.clone() }).await.unwrap_err();
    assert!(stranger.message().contains("has no plan"), "{stranger:?}");
    let many = ReportRequest { probes: vec![sound.probes[0].clone(); 8193], ..sound.clone() };
    let many = report(channel, many).await.unwrap_err();
    assert!(many.code() == Code::InvalidArgument && many.message().contains("at most 8192"), "{many:?}");
    let huge = ReportRequest { host: "h".repeat(3 << 20), ..ReportRequest::default() };
    let huge = report(channel, huge).await.unwrap_err();
    assert_eq!(huge.code(), Code::ResourceExhausted, "{huge:?}");
    let metrics = c.get("/metrics").await.1;
    for line in
        ["fabriclens_probe_results_refused_total{reason=\"old\"}", "fabriclens_probe_results_total{kind=\"path\"}"]
    {
        assert!(metrics.contains(line), "{line}");
    }
}
