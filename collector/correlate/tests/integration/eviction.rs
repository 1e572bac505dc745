//! A fleet that replaces and renames its hosts for weeks.

use fabriclens_correlate::{
    Fabric, Frame, IncidentKind, IncidentTracker, Job, Link, LinkEnd, Node, Ports, Role, StreamingEval, Thresholds,
    Topology,
};
use fabriclens_correlate::{Incident, Location};
use fabriclens_model::{Labels, Layout};
use std::collections::HashSet;

const HOUR: i64 = 3_600_000;
const HOSTS: usize = 30;

fn list(host: &str) -> Layout {
    let one = |name: &str, direction: &str| {
        Labels::new([
            ("__name__", name),
            ("host", host),
            ("device", "mlx5_0"),
            ("port", "1"),
            ("priority", "3"),
            ("direction", direction),
        ])
    };
    let of =
        |direction| ["fabric_port_io_bytes_total", "fabric_pfc_pause_seconds_total"].map(|name| one(name, direction));
    ["transmit", "receive"].map(of).concat().into()
}

/// A tracker that runs for weeks, and the incidents it found.
struct Weeks {
    watch: IncidentTracker,
    standing: StreamingEval,
    now_ms: i64,
    over: Vec<Incident>,
}

impl Weeks {
    fn new() -> Self {
        let node = |name: &str, role| Node { name: name.into(), role };
        let end = |node, port: &str| LinkEnd { node, port: port.into() };
        let link = Link::new([end(0, "mlx5_0/1"), end(1, "7")], None);
        let topology = Topology::new(vec![node("wired", Role::Host), node("leaf", Role::Leaf)], vec![link]);
        let ports = Ports::new(&topology);
        let watch = IncidentTracker::new(Fabric::new(topology, ports, Vec::new()), Thresholds::default());
        Self { watch, standing: StreamingEval::new(1000).0, now_ms: 1_000_000 * HOUR, over: Vec::new() }
    }

    /// Seconds of these hosts; if `pauses`, the first pauses its switch from the fifth second on.
    fn pass(&mut self, hosts: &[Layout], seconds: i64, pauses: bool) {
        for second in 0..seconds {
            self.now_ms += 1000;
            self.watch.push(Frame::new(self.now_ms * 1_000_000));
            for (at, list) in hosts.iter().enumerate() {
                let paused = if pauses && at == 0 { 0.9 * (second - 5).max(0) as f64 } else { 0.0 };
                let moved = second as f64 * (1e9 + at as f64 * 1e7);
                self.standing.take(list, &[self.now_ms], &[moved, paused, moved, 0.0], &mut self.watch);
            }
            self.over.extend(self.watch.evaluate());
        }
    }

    /// Evicts ports without samples for two hours; returns how many.
    fn forget(&mut self) -> usize {
        let heard = self.standing.heard(self.now_ms - 2 * HOUR);
        let gone: HashSet<usize> = self.watch.forget(|port| heard.contains(&port)).into_iter().collect();
        self.standing.forget(self.now_ms - 600_000, &gone);
        gone.len()
    }

    fn named(&self) -> HashSet<&str> {
        let nodes = self.watch.fabric().topology.nodes.iter().map(|node| node.name.as_str());
        nodes.filter(|name| !name.is_empty()).collect()
    }
}

fn hosts(week: usize) -> Vec<Layout> {
    (0..HOSTS).map(|host| list(&format!("week{week}-host{host}"))).collect()
}

#[test]
fn silent_ports_are_evicted() {
    let mut weeks = Weeks::new();
    for week in 0..20 {
        let hosts = hosts(week);
        weeks.pass(&hosts, 40, week % 3 == 2);
        weeks.now_ms += 3 * HOUR;
        weeks.pass(&hosts, 3, false);
        let gone = weeks.forget();
        assert_eq!(gone, if week == 0 { 0 } else { HOSTS }, "in week {week}");
        let fabric = weeks.watch.fabric();
        assert!(fabric.ports.list.len() <= 2 * HOSTS + 2, "{} ports in week {week}", fabric.ports.list.len());
        assert!(fabric.topology.nodes.len() <= 2 * HOSTS + 2, "{} nodes", fabric.topology.nodes.len());
        assert!(weeks.standing.series() <= 2 * 4 * HOSTS, "{} series", weeks.standing.series());
        assert_eq!(weeks.named().len(), HOSTS + 2, "those of this week, and what the topology tells");
    }
    // Ports that reuse an index are evaluated as what they are.
    let told: Vec<(IncidentKind, Location)> = weeks.over.iter().map(|i| (i.kind, i.root.clone())).collect();
    let port = |week: usize| Location::Port { node: format!("week{week}-host0"), port: "mlx5_0/1".into() };
    let expected: Vec<_> =
        (0..20).filter(|week| week % 3 == 2).map(|week| (IncidentKind::SlowReceiver, port(week))).collect();
    assert_eq!(told, expected);
}

#[test]
fn used_ports_are_not_evicted() {
    let mut weeks = Weeks::new();
    let mut hosts = hosts(0);
    hosts.push(list("wired"));
    weeks.pass(&hosts, 40, true);
    assert_eq!(weeks.watch.open().len(), 1);
    let of = |host: &str| {
        let fabric = weeks.watch.fabric();
        fabric.ports.of_node(fabric.topology.node(host).unwrap()).to_vec()
    };
    let jobs = vec![Job { id: "a".into(), ports: of("week0-host7"), since_ns: 0 }];
    weeks.watch.set_jobs(jobs);
    weeks.now_ms += 3 * HOUR;
    let forgot = weeks.forget();
    assert_eq!(forgot, HOSTS - 2);
    let stays = HashSet::from(["week0-host0", "week0-host7", "wired", "leaf"]);
    assert_eq!(weeks.named(), stays);
    weeks.watch.set_jobs(Vec::new());
    assert_eq!((weeks.forget(), weeks.named().len()), (1, 3), "the job is over");
    assert_eq!(weeks.watch.open().len(), 1, "and what is open still tells where");
}
