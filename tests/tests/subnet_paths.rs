//! An agent that reads an InfiniBand subnet and a collector: the collector's paths are those of `ibtracert`, also after the
//! subnet manager has routed anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::collector;
use fabriclens::serve::Running;
use fabriclens_agent::ib_fabric::{IbFabric, Source};
use fabriclens_agent::schedule::{Engine, Settings};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_mad::discovery::{Limits, discover};
use fabriclens_agent_mad::exchange::Pace;
use fabriclens_agent_mad::ibsim::IbSim;
use fabriclens_agent_uplink::config::Collector;
use fabriclens_agent_uplink::{ForwardingTask, LeaseTask, ReaderLease, SharedTables, Uplink};
use fabriclens_testing::eventually_async;
use fabriclens_testing::ibsim::{FatTree, Subnet};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const TREE: FatTree = FatTree { hosts: 4, leaves: 4, spines: 2, uplinks: 2 };
const LIMIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);
const PACE: Pace = Pace { per_second: 100_000, deadline: SHORT, in_flight: 64, retries: 1 };

/// Name of a host, from 0.
fn name(host: u32) -> String {
    format!("node{:04}", host + 1)
}

/// Answer of the collector about the path between two hosts, from 0.
async fn answer(collector: &Running, from: u32, to: u32) -> Value {
    let end = |host| format!("{}%3Amlx5_0%2F1", name(host));
    let url = format!("http://{}/api/v1/topology/path?from={}&to={}", collector.http, end(from), end(to));
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let get = move || agent.get(&url).call().unwrap().body_mut().read_to_string().unwrap();
    serde_json::from_str(&tokio::task::spawn_blocking(get).await.unwrap()).unwrap()
}

/// Numbers of the egress ports of the only path; `None` if there is none.
async fn told(collector: &Running, from: u32, to: u32) -> Option<Vec<u32>> {
    let answer = answer(collector, from, to).await;
    let path = answer["data"]["paths"].get(0)?;
    assert_eq!((&answer["data"]["known"], answer["data"]["paths"].get(1)), (&Value::from("forwarding_table"), None));
    let port = |hop: &Value| hop["port"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
    Some(path.as_array().unwrap().iter().map(port).collect())
}

/// LIDs of all hosts, from 0.
fn lids(subnet: &Subnet) -> BTreeMap<u32, u16> {
    let mut mad = IbSim::attach(subnet.sockets(), &FatTree::host(2)).unwrap();
    let found = discover(&mut mad, PACE, Limits::default(), 0).unwrap().subnet;
    let guid = |host: u32| u64::from_str_radix(&FatTree::host(host)[2..], 16).unwrap();
    (0..TREE.hosts * TREE.leaves).map(|host| (host, found.nodes[&guid(host)].lid(1).unwrap())).collect()
}

/// Egress ports that ibtracert prints: `[5] -> switch port {0x…}[1] lid 2-2 "spine001"`.
fn traced(subnet: &Subnet, from: u16, to: u16) -> Vec<u32> {
    let printed = subnet.run(&FatTree::host(1), "ibtracert", &[&from.to_string(), &to.to_string()]);
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let hops = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("] -> ")?.0.parse().ok());
    hops.collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs: ibsim"]
async fn paths_of_the_collector_equal_those_of_ibtracert_also_after_rerouting() {
    let (mut subnet, dir) = (Subnet::start(TREE), tempfile::tempdir().unwrap());
    let collector = collector(dir.path()).await;
    let lease = Arc::new(ReaderLease::new("mgmt-01"));
    let tables = Arc::<SharedTables>::default();
    let source = Source::IbSim { sockets: subnet.sockets().to_owned(), node: FatTree::host(3) };
    let fabric = IbFabric { source, period: SHORT, details: SHORT, sweep: SHORT, pace: PACE, ..IbFabric::default() };
    let settings = Settings {
        host: "mgmt-01".to_owned(),
        ib_fabric: Some(Arc::new(fabric)),
        reader_lease: Some(Arc::clone(&lease)),
        forwarding_tables: Some(Arc::clone(&tables)),
        ..Settings::default()
    };
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts/rxe");
    let engine = Engine::start(Arc::new(Roots::new(Some(fixture.into()))), settings).unwrap();
    let (stop, _) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let target = Collector::new(format!("http://{}", collector.otlp_grpc));
    let uplink = Uplink::new(target, "mgmt-01", engine.reader(0), None).unwrap();
    tasks.spawn(LeaseTask::new(&lease, std::slice::from_ref(&uplink)).run(stop.subscribe()));
    for task in ForwardingTask::of(&lease, &tables, std::slice::from_ref(&uplink)) {
        tasks.spawn(task.run(stop.subscribe()));
    }
    tasks.spawn(uplink.run(stop.subscribe()));

    let lids = lids(&subnet);
    eventually_async("the collector knows a path", LIMIT, async || told(&collector, 0, 13).await.is_some()).await;
    let mut compared = 0;
    for (from, to) in (0..16).flat_map(|from| (0..16).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        // A sample: each pair that ibtracert prints takes a process.
        if (from + 3 * to) % 4 == 0 {
            let want = traced(&subnet, lids[&from], lids[&to]);
            assert!(!want.is_empty(), "from {from} to {to}");
            assert_eq!(told(&collector, from, to).await, Some(want), "from {from} to {to}");
            compared += 1;
        }
    }
    assert_eq!(compared, 48);
    let lanes = answer(&collector, 0, 13).await;
    let lanes = &lanes["data"]["paths"][0][1]["virtual_lanes"];
    assert_eq!(lanes.as_array().map(Vec::len), Some(16), "{lanes}");

    // The uplink of leaf 1 that the path takes is unplugged, and the subnet manager routes anew.
    let before = told(&collector, 0, 13).await.unwrap();
    assert_eq!(before.len(), 4, "host, leaf, spine, leaf: {before:?}");
    subnet.console(&format!("Unlink \"{}\"[{}]", FatTree::leaf(0), before[1]));
    let mut last = None;
    eventually_async("the new path is told", LIMIT, async || {
        last = told(&collector, 0, 13).await;
        last.as_ref().is_some_and(|path| path[1] != before[1])
    })
    .await;
    eventually_async("it is that of ibtracert", LIMIT, async || {
        last = told(&collector, 0, 13).await;
        last.as_ref() == Some(&traced(&subnet, lids[&0], lids[&13]))
    })
    .await;
    println!("{compared} paths compared; {before:?} became {last:?}");

    let unknown = answer(&collector, 0, 99).await;
    assert!(
        unknown["error"].as_str().unwrap().contains("node0100 port mlx5_0/1 is in no InfiniBand subnet"),
        "{unknown}"
    );
    stop.send(true).unwrap();
    engine.shutdown(LIMIT);
    while tasks.join_next().await.is_some() {}
    collector.stop().await;
}
