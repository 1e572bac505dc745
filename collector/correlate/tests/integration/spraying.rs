//! A leaf that sprays packets over its uplinks: two leaves with four hosts each, four spines, one job.

use crate::common::{RATE, USUAL, moves, only, watch_on};
use fabriclens_correlate::{
    Fabric, Frame, Incident, IncidentKind, Job, Link, LinkEnd, Location, LocationId, Node, Ports, Role, Signal,
    Thresholds, Topology,
};

const LEAF: usize = 8;

fn fabric() -> Fabric {
    let node = |name: String, role| Node { name, role };
    let mut nodes: Vec<Node> = (0..8).map(|h| node(format!("h{h}"), Role::Host)).collect();
    nodes.extend((0..2).map(|l| node(format!("leaf{l}"), Role::Leaf)));
    nodes.extend((0..4).map(|s| node(format!("spine{s}"), Role::Spine)));
    let end = |node: usize, port: usize| LinkEnd { node, port: port.to_string() };
    let link = |a, b| Link::new([a, b], Some(RATE));
    let mut links: Vec<Link> = (0..8).map(|h| link(end(h, 1), end(LEAF + h / 4, 1 + h % 4))).collect();
    links.extend((0..8).map(|i| link(end(LEAF + i / 4, 5 + i % 4), end(LEAF + 2 + i % 4, 1 + i / 4))));
    let topology = Topology::new(nodes, links);
    let ports = Ports::new(&topology);
    let all = (0..8).flat_map(|h| ports.of_node(h).to_vec()).collect();
    Fabric::new(topology, ports, vec![Job { id: "all".into(), ports: all, since_ns: i64::MIN }])
}

/// The uplinks of the first leaf.
fn uplinks(fabric: &Fabric) -> [usize; 4] {
    fabric.ports.of_node(LEAF)[4..8].try_into().unwrap()
}

/// Sets what each uplink of the first leaf sends, in parts of the usual.
fn sends(fabric: &Fabric, frame: &mut Frame, parts: [f64; 4]) {
    // Chance leaves a little.
    let second = (frame.time_ns / 1_000_000_000) as f64;
    for (at, port) in uplinks(fabric).into_iter().enumerate() {
        let chance = 1.0 + 0.02 * (second * 2.3 + at as f64 * 1.9).sin();
        frame.set(Signal::Tx, port, parts[at] * chance * USUAL);
    }
}

/// A minute and more of this traffic, then a fault.
fn watch(usual: [f64; 4], fault: impl Fn(&Fabric, &mut Frame)) -> Vec<Incident> {
    let calm = |fabric: &Fabric, frame: &mut Frame| sends(fabric, frame, usual);
    watch_on(&fabric(), Thresholds::default(), calm, [80, 40, 0], fault)
}

fn link(spine: usize) -> Location {
    let fabric = fabric();
    Location::of(&fabric, &LocationId::Link(fabric.ports.list[uplinks(&fabric)[spine]].link.unwrap()))
}

const SPRAYED: [f64; 4] = [1.0; 4];

#[test]
fn uplink_that_falls_behind_is_slow() {
    let slow = |parts| watch(SPRAYED, move |fabric, frame| sends(fabric, frame, parts));
    let found = only(slow([0.9, 0.9, 0.5, 0.9]));
    assert_eq!((found.kind, found.root), (IncidentKind::DegradedLink, link(2)));
    assert!(slow([0.5; 4]).is_empty(), "the job sends less");
    assert!(slow([0.9, 0.9, 0.8, 0.9]).is_empty(), "chance");
    assert!(slow([0.9, 0.9, 0.01, 0.9]).is_empty(), "it is not used");
    assert!(slow([1.4, 0.9, 0.5, 0.7]).is_empty(), "flows are hashed now");
    let hashed = watch([1.4, 0.6, 1.2, 0.8], |fabric, frame| sends(fabric, frame, [1.4, 0.6, 0.5, 0.8]));
    assert!(hashed.is_empty(), "flows were hashed before");
}

#[test]
fn queue_at_one_uplink_is_a_slow_one() {
    let waits = |paused: f64| {
        watch(SPRAYED, move |fabric, frame| {
            let slow = uplinks(fabric)[1];
            frame.set(Signal::Queue, slow, 1e6);
            frame.set(Signal::PauseRx, slow, paused);
            frame.set(Signal::PauseTx, fabric.ports.list[slow].peer.unwrap(), paused);
        })
    };
    let found = only(waits(0.0));
    assert_eq!((found.kind, found.root), (IncidentKind::DegradedLink, link(1)));
    assert!(waits(0.3).iter().all(|i| i.kind != IncidentKind::DegradedLink), "something behind it is slow");
}

#[test]
fn dead_link_behind_a_spine_explains_less_traffic() {
    let found = watch(SPRAYED, |fabric, frame| {
        let far = fabric.ports.of_node(LEAF + 1)[6];
        for port in [far, fabric.ports.list[far].peer.unwrap()] {
            frame.set(Signal::Up, port, 0.0);
            moves(frame, port, 0.0);
        }
        sends(fabric, frame, [1.2, 1.2, 0.4, 1.2]);
    });
    let kinds: Vec<_> = found.iter().map(|i| i.kind).collect();
    assert_eq!(kinds, [IncidentKind::LinkDown]);
}

#[test]
fn sprayed_packets_do_not_collide() {
    let shift = |usual| {
        watch(usual, |fabric, frame| {
            sends(fabric, frame, [1.9, 0.7, 0.7, 0.7]);
            for port in &fabric.jobs[0].ports {
                moves(frame, *port, 0.7 * USUAL);
            }
        })
    };
    assert_eq!(only(shift([1.0, 0.8, 1.2, 1.0])).kind, IncidentKind::EcmpCollision);
    assert!(shift(SPRAYED).iter().all(|i| i.kind != IncidentKind::EcmpCollision));
}
