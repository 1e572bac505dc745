//! Two agents in one InfiniBand subnet and a collector: one agent reads, and the other takes over from it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::collector;
use fabriclens::serve::Running;
use fabriclens_agent::ib_fabric::{IbFabric, Source};
use fabriclens_agent::schedule::{Engine, Settings};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_mad::exchange::Pace;
use fabriclens_agent_uplink::config::Collector;
use fabriclens_agent_uplink::ring::Reader;
use fabriclens_agent_uplink::{LeaseTask, ReaderLease, Uplink};
use fabriclens_testing::eventually_async;
use fabriclens_testing::ibsim::{FatTree, Subnet};
use fabriclens_wire::{Section, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const TREE: FatTree = FatTree { hosts: 4, leaves: 2, spines: 2, uplinks: 2 };
/// Host names and nodes of the agents. The subnet manager is on the first node.
const NODES: [(&str, u32); 2] = [("mgmt-01", 1), ("mgmt-02", 5)];
const LIMIT: Duration = Duration::from_secs(60);
/// A series that only the reader of the subnet sends.
const UP: &str = "fabric_port_up{host=\"leaf001\",port=\"5\"}";

async fn get(collector: &Running, path: &str) -> String {
    let url = format!("http://{}{path}", collector.http);
    let get = move || ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
    tokio::task::spawn_blocking(get).await.unwrap()
}

/// Values of the series that a PromQL query returns now, in any order.
async fn query(collector: &Running, query: &str) -> Vec<String> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = get(collector, &format!("/api/v1/query?query={encoded}")).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"], "success", "{answer}");
    let series = answer["data"]["result"].as_array().unwrap();
    series.iter().map(|series| series["value"][1].as_str().unwrap().to_owned()).collect()
}

/// Waits until a PromQL query returns one series with this value.
async fn until_query(collector: &Running, text: &str, value: &str) {
    eventually_async(text, LIMIT, async || query(collector, text).await == [value]).await;
}

/// Host and number of a port.
type Port = (Arc<str>, Option<u32>);

/// An agent that can read the subnet.
struct Agent {
    name: &'static str,
    engine: Engine,
    /// Its sections, besides those that its uplink takes.
    seen: Reader<Section>,
    lease: Arc<ReaderLease>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// Times of the sections of switches, Unix nanoseconds.
    polls: Vec<u64>,
    /// Time of the last section of each port, and of the marker that ended its series.
    last: BTreeMap<Port, (u64, Option<u64>)>,
    standby: bool,
}

impl Agent {
    fn start(name: &'static str, (subnet, node): (&Subnet, u32), collector: &Running, sweep: Duration) -> Self {
        let short = Duration::from_millis(200);
        let source = Source::IbSim { sockets: subnet.sockets().to_owned(), node: FatTree::host(node) };
        let pace = Pace { per_second: 100_000, deadline: short, ..Pace::default() };
        let fabric = IbFabric { source, period: short, details: short, sweep, pace, ..IbFabric::default() };
        let lease = Arc::new(ReaderLease::new(name));
        let settings = Settings {
            host: name.to_owned(),
            ib_fabric: Some(Arc::new(fabric)),
            reader_lease: Some(Arc::clone(&lease)),
            ring_readers: 2,
            ..Settings::default()
        };
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts/rxe");
        let engine = Engine::start(Arc::new(Roots::new(Some(fixture.into()))), settings).unwrap();
        let (stop, _) = watch::channel(false);
        let (seen, tasks) = (engine.reader(1), JoinSet::new());
        let (polls, last, standby) = (Vec::new(), BTreeMap::new(), false);
        let mut agent = Self { name, engine, seen, lease, stop, tasks, polls, last, standby };
        agent.connect(collector);
        agent
    }

    fn connect(&mut self, collector: &Running) {
        let target = Collector::new(format!("http://{}", collector.otlp_grpc));
        let uplink = Uplink::new(target, self.name, self.engine.reader(0), None).unwrap();
        self.tasks.spawn(LeaseTask::new(&self.lease, std::slice::from_ref(&uplink)).run(self.stop.subscribe()));
        self.tasks.spawn(uplink.run(self.stop.subscribe()));
    }

    /// Cuts it off from the collector: it does not know what becomes of its lease.
    async fn cut_off(&mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Takes its new sections; whether any is of a switch.
    fn look(&mut self) -> bool {
        let before = self.polls.len();
        for section in self.seen.take(usize::MAX) {
            let reading = section.columns.iter().zip(&section.values);
            let mut reading = reading.filter(|(column, _)| column.metric.name == "fabriclens.agent.ib_fabric.reading");
            if let Some((_, value)) = reading.next() {
                self.standby = *value == Value::Int(0);
            }
            let host = &section.resource.host;
            if !host.starts_with("leaf") && !host.starts_with("spine") {
                continue;
            }
            let last = self.last.entry((Arc::clone(host), section.resource.port)).or_default();
            if section.values.iter().all(|value| *value == Value::Stale) {
                last.1 = Some(section.end_ns);
            } else {
                *last = (section.end_ns, None);
                self.polls.push(section.end_ns);
            }
        }
        self.polls.len() > before
    }
}

/// Waits until a condition holds of both agents, whose sections are taken meanwhile.
async fn until(what: &str, agents: &mut [Agent; 2], mut holds: impl FnMut(&mut [Agent; 2]) -> bool) {
    eventually_async(what, LIMIT, async || holds(agents)).await;
}

/// Two hosts on different leaves.
fn agents(subnet: &Subnet, collector: &Running, sweep: Duration) -> [Agent; 2] {
    NODES.map(|(name, node)| Agent::start(name, (subnet, node), collector, sweep))
}

/// Waits until one reads, and makes it the first.
async fn reader_first(agents: &mut [Agent; 2]) {
    let polled = |agents: &mut [Agent; 2]| agents.iter_mut().any(|agent| agent.look() || !agent.polls.is_empty());
    until("one reads", agents, polled).await;
    if agents[0].polls.is_empty() {
        agents.reverse();
    }
}

async fn end(agents: [Agent; 2], collector: Running) {
    for agent in agents {
        agent.stop.send(true).unwrap();
        agent.engine.shutdown(LIMIT);
    }
    collector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs: ibsim"]
async fn one_agent_reads_and_the_next_takes_over() {
    let (subnet, dir) = (Subnet::start(TREE), tempfile::tempdir().unwrap());
    let collector = collector(dir.path()).await;
    let mut agents = agents(&subnet, &collector, Duration::from_millis(200));
    reader_first(&mut agents).await;
    until("many rounds", &mut agents, |[a, b]| {
        a.look();
        b.look();
        a.polls.len() > 500 && b.standby
    })
    .await;
    let [a, b] = &agents;
    assert!(b.polls.is_empty(), "{} stands by while {} reads", b.name, a.name);
    assert!(!a.standby);
    let metrics = get(&collector, "/metrics").await;
    let holder = format!("fabriclens_subnet_reader_candidates{{host=\"{}\",subnet=\"0x0002c90300a00001\"}} 2", a.name);
    assert!(metrics.contains(&holder), "{metrics}");

    agents[0].cut_off().await;
    until("the other takes over", &mut agents, |[a, b]| {
        a.look();
        b.look()
    })
    .await;
    until("the first stops although nobody tells it", &mut agents, |[a, b]| {
        b.look();
        a.look();
        a.standby
    })
    .await;
    // Its series end with its last samples, not at the time at which it learned to stop: the other reads since before.
    let last = agents[0].last.values();
    assert!(last.clone().all(|(last, end)| *end == Some(last + 1_000_000)), "{:?}", agents[0].last);
    assert_eq!(last.len(), 24, "ports");

    // The first returns, and sends what it has not sent: series that the other continues.
    let returned = agents[0].polls.len();
    agents[0].connect(&collector);
    let more = agents[1].polls.len() + 500;
    until("many rounds", &mut agents, |[a, b]| {
        a.look();
        b.look();
        b.polls.len() > more
    })
    .await;
    assert_eq!(agents[0].polls.len(), returned, "who returns stands by");
    let holder = format!("fabriclens_subnet_reader_candidates{{host=\"{}\"", agents[1].name);
    eventually_async("both are candidates", LIMIT, async || {
        get(&collector, "/metrics").await.lines().any(|line| line.starts_with(&holder) && line.ends_with(" 2"))
    })
    .await;
    let up = query(&collector, UP).await;
    assert_eq!(up, ["1"], "the end that the first wrote does not hide the samples of the other");

    end(agents, collector).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs: ibsim"]
async fn a_reader_that_loses_its_cable_is_replaced() {
    let (mut subnet, dir) = (Subnet::start(TREE), tempfile::tempdir().unwrap());
    let collector = collector(dir.path()).await;
    // No sweep is due: what tells is that no port answers.
    let mut agents = agents(&subnet, &collector, Duration::from_secs(3600));
    reader_first(&mut agents).await;
    until("the other stands by", &mut agents, |[a, b]| {
        a.look();
        b.look();
        b.standby
    })
    .await;
    assert!(agents[1].polls.is_empty());
    let node = NODES.iter().find(|(name, _)| *name == agents[0].name).unwrap().1;
    subnet.console(&format!("Unlink \"{}\"[1]", FatTree::host(node)));
    until("the other takes over", &mut agents, |[a, b]| {
        a.look();
        b.look()
    })
    .await;
    end(agents, collector).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs: ibsim"]
async fn a_counter_set_at_the_console_is_seen_in_promql() {
    let (mut subnet, dir) = (Subnet::start(TREE), tempfile::tempdir().unwrap());
    let collector = collector(dir.path()).await;
    let agent = Agent::start(NODES[0].0, (&subnet, NODES[0].1), &collector, Duration::from_millis(200));
    let port = "host=\"leaf001\",port=\"5\"";
    let errors = format!("fabric_link_symbol_errors_total{{{port}}}");
    until_query(&collector, &errors, "0").await;
    let set = |what: &str| format!("PerformanceSet \"{}\"[5] {what}", FatTree::leaf(0));
    subnet.console(&set("PortCounters.SymbolErrorCounter=1234"));
    subnet.console(&set("PortXmitDiscardDetails.PortSwHOQLifetimeLimitDiscards=9"));
    until_query(&collector, &errors, "1234").await;
    let discards = "reason=\"port_sw_hoq_lifetime_limit_discards\"";
    until_query(&collector, &format!("fabric_port_discard_details_total{{{port},{discards}}}"), "9").await;
    let growth = query(&collector, &format!("increase({errors}[1m]) > 1000")).await;
    assert_eq!(growth.len(), 1, "the series was there before it grew");
    // Only the port that was set, with its cable.
    let others = query(&collector, "count(fabric_link_symbol_errors_total == 0)").await;
    assert_eq!(others, ["23"]);
    let far = format!("fabric_port_info{{{port},switch=\"spine001\",switch_port=\"1\"}}");
    assert_eq!(query(&collector, &far).await, ["1"]);
    // A narrow counter that is full is a gap.
    subnet.console(&set("PortCounters.SymbolErrorCounter=65535"));
    let full = format!("fabric_port_counter_saturated{{{port},metric=\"fabric.link.symbol_errors\"}}");
    until_query(&collector, &full, "1").await;
    assert_eq!(query(&collector, &errors).await, [""; 0]);
    subnet.console(&set("PortCounters.SymbolErrorCounter=7"));
    until_query(&collector, &errors, "7").await;
    eventually_async("the fact ends", LIMIT, async || query(&collector, &full).await.is_empty()).await;
    agent.stop.send(true).unwrap();
    agent.engine.shutdown(LIMIT);
    collector.stop().await;
}
