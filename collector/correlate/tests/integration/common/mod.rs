//! A small fabric whose traffic the test decides: two leaves with four hosts each, two spines, two jobs.

use fabriclens_correlate::Thresholds;
use fabriclens_correlate::{
    Fabric, Frame, IncidentTracker, Job, Link, LinkEnd, LocationId, Node, Ports, Role, Signal, Topology,
};
use fabriclens_correlate::{Incident, Location};

/// Bytes per second of every link: 100 Gb/s.
pub const RATE: f64 = 12.5e9;
/// Normal send and receive rate of a host, bytes per second.
pub const USUAL: f64 = 4e9;

/// The fabric. Hosts are `h0` to `h7`; job `odd` has those with an odd number, `even` the others.
pub fn fabric() -> Fabric {
    let node = |name: String, role| Node { name, role };
    let mut nodes: Vec<Node> = (0..8).map(|h| node(format!("h{h}"), Role::Host)).collect();
    nodes.extend((0..2).map(|l| node(format!("leaf{l}"), Role::Leaf)));
    nodes.extend((0..2).map(|s| node(format!("spine{s}"), Role::Spine)));
    let end = |node: usize, port: usize| LinkEnd { node, port: port.to_string() };
    let link = |a, b| Link::new([a, b], Some(RATE));
    let mut links: Vec<Link> = (0..8).map(|h| link(end(h, 1), end(8 + h / 4, 1 + h % 4))).collect();
    links.extend((0..4).map(|i| link(end(8 + i / 2, 5 + i % 2), end(10 + i % 2, 1 + i / 2))));
    let topology = Topology::new(nodes, links);
    let ports = Ports::new(&topology);
    let job = |id: &str, odd: usize| Job {
        id: id.to_owned(),
        ports: (0..8).filter(|h| h % 2 == odd).flat_map(|h| ports.of_node(h).to_vec()).collect(),
        since_ns: i64::MIN,
    };
    let jobs = vec![job("even", 0), job("odd", 1)];
    Fabric::new(topology, ports, jobs)
}

/// The only port of a host.
pub fn host(fabric: &Fabric, h: usize) -> usize {
    fabric.ports.of_node(h)[0]
}

/// The switch port that a host is cabled to.
pub fn egress(fabric: &Fabric, h: usize) -> usize {
    fabric.ports.list[host(fabric, h)].peer.unwrap()
}

/// The link between two of its nodes.
pub fn link(a: &str, b: &str) -> Location {
    let fabric = fabric();
    let ends = [a, b].map(|name| fabric.topology.node(name).unwrap());
    let between = |l: &Link| l.ends.each_ref().map(|end| end.node) == ends;
    Location::of(&fabric, &LocationId::Link(fabric.topology.links.iter().position(between).unwrap()))
}

/// A fabric with rails: four hosts with two ports each, a leaf for each rail, a spine; job `all` has every host.
pub fn rails() -> Fabric {
    rails_at(["1", "2"])
}

/// The same with other names of the hosts' ports.
pub fn rails_at(names: [&str; 2]) -> Fabric {
    let node = |name: String, role| Node { name, role };
    let mut nodes: Vec<Node> = (0..4).map(|h| node(format!("h{h}"), Role::Host)).collect();
    nodes.extend((0..2).map(|l| node(format!("leaf{l}"), Role::Leaf)));
    nodes.push(node("spine".into(), Role::Spine));
    let end = |node: usize, port: usize| LinkEnd { node, port: port.to_string() };
    let link = |a, b| Link::new([a, b], Some(RATE));
    let of_host = |i: usize| LinkEnd { node: i / 2, port: names[i % 2].to_owned() };
    let mut links: Vec<Link> = (0..8).map(|i| link(of_host(i), end(4 + i % 2, 1 + i / 2))).collect();
    links.extend((0..2).map(|l| link(end(4 + l, 5), end(6, 1 + l))));
    let topology = Topology::new(nodes, links);
    let ports = Ports::new(&topology);
    let all = (0..4).flat_map(|h| ports.of_node(h).to_vec()).collect();
    Fabric::new(topology, ports, vec![Job { id: "all".into(), ports: all, since_ns: i64::MIN }])
}

/// Sets the send and receive rate of a port.
pub fn moves(frame: &mut Frame, port: usize, rate: f64) {
    [Signal::Tx, Signal::Rx].iter().for_each(|signal| frame.set(*signal, port, rate));
}

/// Normal traffic for `before` seconds, then `fault` on each frame of `during`, then normal traffic; all incidents.
pub fn watch(before: usize, during: usize, after: usize, fault: impl Fn(&Fabric, &mut Frame)) -> Vec<Incident> {
    watch_on(&fabric(), Thresholds::default(), |_, _| (), [before, during, after], fault)
}

/// The same on another fabric and with other thresholds; `calm` changes all frames.
pub fn watch_on(
    fabric: &Fabric,
    limits: Thresholds,
    calm: impl Fn(&Fabric, &mut Frame),
    times: [usize; 3],
    fault: impl Fn(&Fabric, &mut Frame),
) -> Vec<Incident> {
    watched(fabric, limits, calm, times, fault).0
}

/// The same, and the tracker.
pub fn watched(
    fabric: &Fabric,
    limits: Thresholds,
    calm: impl Fn(&Fabric, &mut Frame),
    times: [usize; 3],
    fault: impl Fn(&Fabric, &mut Frame),
) -> (Vec<Incident>, IncidentTracker) {
    watched_each(1, fabric, limits, calm, times, fault)
}

/// The same with samples of `step_s` seconds; `times` counts samples.
pub fn watched_each(
    step_s: i64,
    fabric: &Fabric,
    limits: Thresholds,
    calm: impl Fn(&Fabric, &mut Frame),
    times: [usize; 3],
    fault: impl Fn(&Fabric, &mut Frame),
) -> (Vec<Incident>, IncidentTracker) {
    watched_by(IncidentTracker::new(fabric.clone(), limits), step_s, fabric, calm, times, fault)
}

/// The same by a tracker that knows something already.
pub fn watched_by(
    mut watch: IncidentTracker,
    step_s: i64,
    fabric: &Fabric,
    calm: impl Fn(&Fabric, &mut Frame),
    [before, during, after]: [usize; 3],
    fault: impl Fn(&Fabric, &mut Frame),
) -> (Vec<Incident>, IncidentTracker) {
    let mut found = Vec::new();
    for second in 0..before + during + after {
        let mut frame = Frame::new(second as i64 * step_s * 1_000_000_000);
        for port in 0..fabric.ports.list.len() {
            // Jobs take turns: a wave of some seconds.
            let wave = 1.0 + 0.1 * ((second + port) as f64 * 1.7).sin();
            frame.set(Signal::Tx, port, USUAL * wave);
            frame.set(Signal::Rx, port, USUAL * wave);
            frame.set(Signal::RxPackets, port, USUAL * wave / 4096.0);
            // Reported seldom, as agents do.
            if second % 30 == 0 {
                frame.set(Signal::Rate, port, RATE);
            }
            frame.set(Signal::Up, port, 1.0);
            for signal in [Signal::PauseTx, Signal::PauseRx, Signal::PauseFrames, Signal::WireErrors] {
                frame.set(signal, port, 0.0);
            }
            if fabric.is_host(port) {
                frame.set(Signal::EcnRx, port, 100.0 * wave);
                frame.set(Signal::CnpTx, port, 10.0 * wave);
                frame.set(Signal::CnpRx, port, 10.0 * wave);
            } else {
                frame.set(Signal::Marks, port, 100.0 * wave);
                frame.set(Signal::Queue, port, 2_000.0 * wave);
                frame.set(Signal::QueueMax, port, 200_000.0 * wave);
            }
        }
        calm(fabric, &mut frame);
        if (before..before + during).contains(&second) {
            fault(fabric, &mut frame);
        }
        found.extend(watch.tick(frame));
    }
    found.extend(watch.open());
    (found, watch)
}

/// Signals that InfiniBand ports do not have.
pub const ETHERNET: [Signal; 9] = [
    Signal::PauseTx,
    Signal::PauseRx,
    Signal::PauseFrames,
    Signal::Marks,
    Signal::EcnRx,
    Signal::CnpTx,
    Signal::CnpRx,
    Signal::Queue,
    Signal::QueueMax,
];

/// The only incident.
pub fn only(found: Vec<Incident>) -> Incident {
    assert_eq!(found.len(), 1, "{:?}", found.iter().map(|i| (i.kind, &i.root)).collect::<Vec<_>>());
    found.into_iter().next().unwrap()
}

/// Location of a port.
pub fn port(node: &str, port: &str) -> Location {
    Location::Port { node: node.into(), port: port.into() }
}
