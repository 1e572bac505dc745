//! Some switches are read and others are not: a leaf that is not read must not hide what its hosts tell.

use crate::common::{USUAL, fabric, host, port, watch_on};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, Location, Signal, Thresholds};

/// Nobody reads these switches.
fn unread(leaves: &'static [&'static str]) -> impl Fn(&Fabric, &mut Frame) {
    move |fabric, frame| {
        for port in fabric.switch_ports() {
            let node = &fabric.topology.nodes[fabric.ports.list[port].end.node].name;
            if leaves.contains(&node.as_str()) {
                for signal in [Signal::Tx, Signal::Rx, Signal::Marks, Signal::Queue, Signal::QueueMax] {
                    frame.set(signal, port, f64::NAN);
                }
            }
        }
    }
}

/// Host 6, at leaf 1, receives far more marked packets than any other.
fn marked_at_host_6(leaves: &'static [&'static str]) -> Vec<Incident> {
    watch_on(&fabric(), Thresholds::default(), unread(leaves), [60, 20, 30], |fabric, frame| {
        frame.set(Signal::EcnRx, host(fabric, 6), 0.9 * USUAL / 4096.0);
    })
}

#[test]
fn incast_behind_an_unread_leaf_is_named_by_its_host() {
    let found = marked_at_host_6(&["leaf1"]);
    let incast = found.iter().find(|incident| incident.kind == IncidentKind::Incast);
    assert_eq!(incast.map(|incident| &incident.root), Some(&port("h6", "1")), "{found:?}");
    let read = marked_at_host_6(&["leaf0"]);
    assert!(read.iter().all(|incident| incident.kind != IncidentKind::Incast), "its leaf has no long queue: {read:?}");
}

#[test]
fn unread_leaf_that_does_not_mark_is_named() {
    let unmarked = |leaves: &'static [&'static str]| {
        watch_on(&fabric(), Thresholds::default(), unread(leaves), [90, 40, 30], |fabric, frame| {
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
    let found = unmarked(&["leaf1"]);
    assert_eq!(leaf(&found), Some(Location::Switch { node: "leaf1".into() }), "{found:?}");
    assert_eq!(leaf(&unmarked(&["leaf0"])), None, "leaf1 counts its marks");
}
