//! The agent reads a simulated InfiniBand subnet and sends its switches' series.

use fabriclens_agent::ib_fabric::{IbFabric, Source, path, probe, report};
use fabriclens_agent::schedule::{Engine, Settings};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_mad::exchange::Pace;
use fabriclens_testing::eventually;
use fabriclens_testing::ibsim::{FatTree, Subnet};
use fabriclens_wire::{Section, Value};
use std::sync::Arc;
use std::time::Duration;

const TREE: FatTree = FatTree { hosts: 4, leaves: 2, spines: 2, uplinks: 2 };
const LIMIT: Duration = Duration::from_secs(30);

fn fabric(subnet: &Subnet, adapters: bool) -> IbFabric {
    let source = Source::IbSim { sockets: subnet.sockets().to_owned(), node: FatTree::host(1) };
    let short = Duration::from_millis(200);
    let pace = Pace { per_second: 100_000, deadline: short, ..Pace::default() };
    IbFabric { source, adapters, period: short, details: short, sweep: short, pace, ..IbFabric::default() }
}

fn roots() -> Arc<Roots> {
    Arc::new(Roots::new(Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/rxe").into())))
}

fn engine(subnet: &Subnet, adapters: bool) -> Engine {
    let fabric = Arc::new(fabric(subnet, adapters));
    let settings = Settings { host: "h".into(), ib_fabric: Some(fabric), ..Settings::default() };
    Engine::start(roots(), settings).unwrap()
}

/// Last value of a metric at a port, among the sections so far.
struct Seen {
    reader: fabriclens_agent_uplink::ring::Reader<Section>,
    sections: Vec<Section>,
}

impl Seen {
    fn of(engine: &Engine) -> Self {
        Self { reader: engine.reader(0), sections: Vec::new() }
    }

    fn last(&mut self, host: &str, port: Option<u32>, metric: &str, labels: &[(&str, &str)]) -> Option<Value> {
        self.sections.extend(self.reader.take(usize::MAX));
        let sections = self.sections.iter().rev().filter(|s| &*s.resource.host == host && s.resource.port == port);
        let values = sections.flat_map(|s| s.columns.iter().zip(&s.values));
        let has = |have: &[(Arc<str>, Arc<str>)]| {
            labels.iter().all(|(name, value)| have.iter().any(|(n, v)| (&**n, &**v) == (*name, *value)))
        };
        let mut found = values.filter(|(c, v)| c.metric.name == metric && has(&c.labels) && **v != Value::Absent);
        found.next().map(|(_, value)| value.clone())
    }

    #[track_caller]
    fn until(&mut self, value: &Value, host: &str, port: u32, metric: &str, labels: &[(&str, &str)]) {
        eventually(metric, LIMIT, || self.last(host, Some(port), metric, labels).as_ref() == Some(value));
    }
}

#[test]
#[ignore = "needs: ibsim"]
fn counters_of_switches_arrive_as_canonical_metrics() {
    let mut subnet = Subnet::start(TREE);
    let engine = engine(&subnet, false);
    let mut seen = Seen::of(&engine);
    let errors = ("fabric.link.symbol_errors", &[][..]);
    seen.until(&Value::Int(0), "leaf001", 5, errors.0, errors.1);
    let port = format!("PerformanceSet \"{}\"[5]", FatTree::leaf(0));
    subnet.console(&format!("{port} PortCounters.SymbolErrorCounter=1234"));
    seen.until(&Value::Int(1234), "leaf001", 5, errors.0, errors.1);
    // The narrow counter is full: a gap, and a fact that says so.
    subnet.console(&format!("{port} PortCounters.SymbolErrorCounter=65535"));
    seen.until(&Value::Stale, "leaf001", 5, errors.0, errors.1);
    let saturated = [("metric", "fabric.link.symbol_errors")];
    seen.until(&Value::Int(1), "leaf001", 5, "fabric.port.counter.saturated", &saturated);
    subnet.console(&format!("{port} PortXmitDiscardDetails.PortSwHOQLifetimeLimitDiscards=9"));
    let discards = [("reason", "port_sw_hoq_lifetime_limit_discards")];
    seen.until(&Value::Int(9), "leaf001", 5, "fabric.port.discard.details", &discards);
    assert_eq!(seen.last("leaf001", Some(1), "fabric.port.rate", &[]), Some(Value::Int(25_000_000_000)));
    assert_eq!(seen.last("spine001", Some(1), "fabric.port.up", &[]), Some(Value::Int(1)));
    // Words of four bytes.
    let sent = seen.last("leaf001", Some(5), "fabric.port.io", &[("direction", "transmit")]);
    assert!(matches!(sent, Some(Value::Int(bytes)) if bytes > 0 && bytes % 4 == 0), "{sent:?}");
    let nodes = seen.last("h", None, "fabriclens.agent.ib_fabric.nodes", &[("type", "switch")]);
    assert_eq!(nodes, Some(Value::Int(4)));
    assert!(seen.last("node0001", Some(1), "fabric.port.up", &[]).is_none(), "adapters are off");
    engine.shutdown(LIMIT);
    assert_eq!(seen.last("leaf001", Some(1), "fabric.port.up", &[]), Some(Value::Stale), "the series end");
}

#[test]
#[ignore = "needs: ibsim"]
fn links_and_their_ends_are_told() {
    let mut subnet = Subnet::start(TREE);
    let engine = engine(&subnet, false);
    let mut seen = Seen::of(&engine);
    let to_spine = [("switch", "spine001"), ("switch_port", "1"), ("node_type", "2: switch"), ("fabric", "infiniband")];
    seen.until(&Value::Int(1), "leaf001", 5, "fabric.port.info", &to_spine);
    let to_host = [("switch", "node0001 mlx5_0"), ("switch_id", "0x0002c90300c00010"), ("switch_port", "1")];
    seen.until(&Value::Int(1), "leaf001", 1, "fabric.port.info", &to_host);
    subnet.console(&format!("Unlink \"{}\"[5]", FatTree::leaf(0)));
    seen.until(&Value::Int(0), "leaf001", 5, "fabric.port.up", &[]);
    seen.until(&Value::Stale, "leaf001", 5, "fabric.port.info", &to_spine);
    seen.until(&Value::Int(0), "spine001", 1, "fabric.port.up", &[]);
    subnet.console(&format!("ReLink \"{}\"[5]", FatTree::leaf(0)));
    seen.until(&Value::Int(1), "leaf001", 5, "fabric.port.up", &[]);
    seen.until(&Value::Int(1), "leaf001", 5, "fabric.port.info", &to_spine);
}

#[test]
#[ignore = "needs: ibsim"]
fn ports_of_adapters_are_those_of_their_hosts() {
    let subnet = Subnet::start(TREE);
    // ibsim hands requests for the subnet manager's own port to opensm, which ends; the subnet goes on without it.
    let engine = engine(&subnet, true);
    let mut seen = Seen::of(&engine);
    let to_leaf = [("switch", "leaf001"), ("switch_port", "3"), ("node_type", "1: CA")];
    seen.until(&Value::Int(1), "node0003", 1, "fabric.port.info", &to_leaf);
    seen.until(&Value::Int(0), "node0003", 1, "fabric.link.downs", &[]);
    let section = seen.sections.iter().find(|s| &*s.resource.host == "node0003").expect("a section");
    assert_eq!(section.resource.device.as_deref(), Some("mlx5_0"));
}

#[test]
#[ignore = "needs: ibsim"]
fn command_prints_the_subnet_and_paths() {
    let subnet = Subnet::start(TREE);
    let (config, roots) = (fabric(&subnet, false), roots());
    let text = report(&config, &roots).unwrap();
    assert!(text.contains("leaf001  0x0002c90300a00001  LID "), "{text}");
    assert!(text.contains("    5  spine001 port 1  200 Gb/s\n    6  spine001 port 2  200 Gb/s\n"), "{text}");
    assert!(text.contains("    1  node0001 mlx5_0 port 1  200 Gb/s\n"), "{text}");
    assert!(text.contains("4 switches, 8 other nodes, 16 links"), "{text}");
    assert!(probe(&config, &roots).unwrap().starts_with("reads the subnet at ibsim H-"));
    let lid = |name: &str| -> u16 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once("LID ").unwrap().1.split(' ').next().unwrap().parse().unwrap()
    };
    let hops = path(&config, &roots, lid("leaf001"), lid("leaf002")).unwrap();
    let lines: Vec<&str> = hops.lines().collect();
    assert!(lines[0].starts_with("leaf001 port ") && lines[1].starts_with("spine00") && lines.len() == 3, "{hops}");
    assert!(path(&config, &roots, 1, 999).unwrap_err().contains("no port has LID 999"));
}

#[test]
fn a_host_without_umad_is_told_what_is_missing() {
    let why = report(&IbFabric::default(), &roots()).unwrap_err();
    assert!(why.contains("modprobe ib_umad"), "{why}");
}
