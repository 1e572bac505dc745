//! Some switches are read and others are not, or without their queues: such a leaf must not hide what its hosts tell.

use crate::common::{USUAL, fabric, host, port, watch_on};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, Location, Signal, Thresholds};

/// Signals that a switch does not report: all of them if it is not read, or those that exporters do not know.
const ALL: &[Signal] = &[Signal::Tx, Signal::Rx, Signal::Marks, Signal::Queue, Signal::QueueMax];
const QUEUES: &[Signal] = &[Signal::Marks, Signal::Queue, Signal::QueueMax];

/// These switches do not report these signals.
fn without(leaves: &'static [&'static str], signals: &'static [Signal]) -> impl Fn(&Fabric, &mut Frame) {
    move |fabric, frame| {
        for port in fabric.switch_ports() {
            let node = &fabric.topology.nodes[fabric.ports.list[port].end.node].name;
            if leaves.contains(&node.as_str()) {
                signals.iter().for_each(|signal| frame.set(*signal, port, f64::NAN));
            }
        }
    }
}

/// Host 6, at leaf 1, receives far more marked packets than any other.
fn marked_at_host_6(leaves: &'static [&'static str], signals: &'static [Signal]) -> Vec<Incident> {
    watch_on(&fabric(), Thresholds::default(), without(leaves, signals), [60, 20, 30], |fabric, frame| {
        frame.set(Signal::EcnRx, host(fabric, 6), 0.9 * USUAL / 4096.0);
    })
}

#[test]
fn incast_behind_an_unread_leaf_is_named_by_its_host() {
    for signals in [ALL, QUEUES] {
        let found = marked_at_host_6(&["leaf1"], signals);
        let incast = found.iter().find(|incident| incident.kind == IncidentKind::Incast);
        assert_eq!(incast.map(|incident| &incident.root), Some(&port("h6", "1")), "{found:?}");
    }
    let read = marked_at_host_6(&["leaf0"], ALL);
    assert!(read.iter().all(|incident| incident.kind != IncidentKind::Incast), "its leaf has no long queue: {read:?}");
}

#[test]
fn unread_leaf_that_does_not_mark_is_named() {
    let unmarked = |leaves: &'static [&'static str], signals: &'static [Signal]| {
        watch_on(&fabric(), Thresholds::default(), without(leaves, signals), [90, 40, 30], |fabric, frame| {
            for h in 4..8 {
                frame.set(Signal::PauseRx, host(fabric, h), 0.2);
                frame.set(Signal::CnpRx, host(fabric, h), 0.0);
            }
        })
    };
    let leaf = |found: &[Incident]| {
        let ecn = found.iter().find(|incident| incident.kind == IncidentKind::EcnMisconfigured);
        ecn.map(|incident| incident.root.clone())
    };
    for signals in [ALL, QUEUES] {
        let found = unmarked(&["leaf1"], signals);
        assert_eq!(leaf(&found), Some(Location::Switch { node: "leaf1".into() }), "{found:?}");
    }
    assert_eq!(leaf(&unmarked(&["leaf0"], ALL)), None, "leaf1 counts its marks");
}
