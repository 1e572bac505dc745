//! Credits: what is usual of a port is no trouble, and the tree of waits leads to its cause.

use crate::common::{ETHERNET, RATE, USUAL, egress, fabric, host, link, moves, only, port, rails, watch_on};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, Location, Signal, Thresholds};

/// InfiniBand: no pause, no marks, no queues. `usual` is the share that the uplinks and hosts of leaf0 wait always.
pub fn infiniband(usual: f64) -> impl Fn(&Fabric, &mut Frame) {
    move |fabric, frame| {
        for port in 0..fabric.ports.list.len() {
            ETHERNET.iter().for_each(|s| frame.set(*s, port, f64::NAN));
            let leaf = fabric.topology.nodes.len() > 8;
            let near =
                leaf && ((0..4).any(|h| host(fabric, h) == port) || fabric.ports.of_node(8)[4..].contains(&port));
            frame.set(Signal::XmitWait, port, if near { usual } else { 0.001 });
        }
    }
}

pub fn watch(usual: f64, fault: impl Fn(&Fabric, &mut Frame)) -> Vec<Incident> {
    watch_on(&fabric(), Thresholds::default(), infiniband(usual), [70, 60, 0], fault)
}

/// As if no switch was read.
pub fn hosts_only(fabric: &Fabric, frame: &mut Frame) {
    for port in fabric.switch_ports() {
        [Signal::Tx, Signal::Rx, Signal::XmitWait].iter().for_each(|signal| frame.set(*signal, port, f64::NAN));
    }
}

/// As if switches were read by an exporter, which does not know how long ports wait.
pub fn without_waits(fabric: &Fabric, frame: &mut Frame) {
    fabric.switch_ports().for_each(|port| frame.set(Signal::XmitWait, port, f64::NAN));
}

pub fn waits(frame: &mut Frame, port: usize, share: f64) {
    frame.set(Signal::XmitWait, port, share);
}

#[test]
fn usual_waits_are_no_incident() {
    assert_eq!(watch(0.11, |_, _| ()).len(), 0, "flows that share a link wait for each other");
    assert_eq!(watch(0.11, |fabric, frame| waits(frame, host(fabric, 1), 0.15)).len(), 0);
    assert_eq!(watch(0.11, |fabric, frame| waits(frame, host(fabric, 1), 0.3)).len(), 1);
}

/// An agent starts while a port waits.
#[test]
fn a_port_that_is_read_since_a_moment_has_not_waited_half_a_minute() {
    let since = |seconds: i64| {
        let read_from = (130 - seconds) * 1_000_000_000;
        let calm = move |fabric: &Fabric, frame: &mut Frame| {
            infiniband(0.0)(fabric, frame);
            waits(frame, egress(fabric, 6), if frame.time_ns < read_from { f64::NAN } else { 0.3 });
        };
        watch_on(&fabric(), Thresholds::default(), calm, [70, 60, 0], |_, _| ())
    };
    assert_eq!(since(15).len(), 0);
    let found = only(since(40));
    assert_eq!((found.kind, found.root), (IncidentKind::SlowReceiver, port("h6", "1")));
}

#[test]
fn a_receiver_that_stalls_now_and_then_is_found_behind_usual_waits() {
    let found = only(watch(0.11, |fabric, frame| {
        waits(frame, egress(fabric, 6), 0.12);
        waits(frame, fabric.ports.of_node(10)[1], 0.12);
        waits(frame, host(fabric, 1), 0.25);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::SlowReceiver, port("h6", "1")));
}

#[test]
fn bursts_to_one_host_are_incast_behind_an_uplink() {
    // The cable to its leaf is full before the host's own.
    let burst = |fabric: &Fabric, frame: &mut Frame| {
        let down = fabric.ports.of_node(10)[1];
        frame.set(Signal::Tx, down, 0.6 * RATE);
        frame.set(Signal::Rx, host(fabric, 6), 0.6 * RATE);
        frame.set(Signal::Tx, egress(fabric, 6), 0.6 * RATE);
        waits(frame, fabric.ports.of_node(8)[4], 0.3);
        waits(frame, host(fabric, 0), 0.3);
    };
    let found = only(watch(0.0, burst));
    assert_eq!((found.kind, found.root), (IncidentKind::Incast, port("h6", "1")));
    assert_eq!(found.culprit_jobs, ["even"]);
    let from_hosts = only(watch(0.0, |fabric, frame| {
        burst(fabric, frame);
        hosts_only(fabric, frame);
    }));
    assert_eq!((from_hosts.kind, from_hosts.root), (IncidentKind::Incast, port("h6", "1")));
}

#[test]
fn a_loud_job_is_the_cause() {
    let found = only(watch(0.0, |fabric, frame| {
        for h in [0, 2, 4, 6] {
            frame.set(Signal::Tx, host(fabric, h), 0.7 * RATE);
            frame.set(Signal::Rx, host(fabric, h), 0.7 * RATE);
            frame.set(Signal::Tx, egress(fabric, h), 0.7 * RATE);
        }
        for h in [1, 3, 5, 7] {
            frame.set(Signal::Tx, host(fabric, h), 0.7 * USUAL);
            frame.set(Signal::Rx, host(fabric, h), 0.7 * USUAL);
        }
        waits(frame, host(fabric, 1), 0.3);
        waits(frame, host(fabric, 3), 0.3);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::NoisyNeighbour, Location::Job { job: "even".into() }));
    assert_eq!((found.culprit_jobs, found.victim_jobs), (vec!["even".to_owned()], vec!["odd".to_owned()]));
}

#[test]
fn routes_that_move_to_one_link_are_a_collision() {
    let found = only(watch(0.0, |fabric, frame| {
        let up = &fabric.ports.of_node(8)[4..];
        frame.set(Signal::Tx, up[0], 1.8 * USUAL);
        frame.set(Signal::Tx, up[1], 0.2 * USUAL);
        waits(frame, host(fabric, 0), 0.3);
        waits(frame, host(fabric, 1), 0.2);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::EcmpCollision, link("leaf0", "spine0")));
    assert!(found.explanation.contains("even, odd waits"), "{}", found.explanation);
}

#[test]
fn a_link_that_both_its_switches_wait_for_is_slow() {
    let slow = |both: bool| {
        only(watch(0.0, move |fabric, frame| {
            waits(frame, host(fabric, 0), 0.3);
            if both {
                waits(frame, fabric.ports.of_node(9)[4], 0.2);
            }
        }))
    };
    let found = slow(true);
    assert_eq!((found.kind, found.root), (IncidentKind::DegradedLink, link("leaf0", "spine0")));
    let unknown = slow(false);
    assert_eq!((unknown.kind, unknown.root), (IncidentKind::FabricCongestion, Location::Fabric));
    assert!(unknown.confidence < 0.5, "one direction does not show which link it is");
}

/// h6 gives no credits: its leaf and those that send to it wait.
#[test]
fn what_hosts_wait_for_is_judged_once_the_switches_have_told() {
    let found = |told: bool| {
        let fault = move |fabric: &Fabric, frame: &mut Frame| {
            waits(frame, host(fabric, 0), 0.3);
            if !told {
                hosts_only(fabric, frame);
            }
        };
        watch_on(&fabric(), Thresholds::default(), infiniband(0.0), [70, 8, 0], fault).len()
    };
    assert_eq!((found(true), found(false)), (1, 0), "a switch that is read each ten seconds has not told yet");
}

fn stalled(fabric: &Fabric, frame: &mut Frame) {
    waits(frame, egress(fabric, 6), 0.6);
    waits(frame, fabric.ports.of_node(10)[1], 0.6);
    waits(frame, host(fabric, 0), 0.6);
    frame.set(Signal::Rx, host(fabric, 6), 0.0);
    frame.set(Signal::Tx, egress(fabric, 6), 0.0);
}

#[test]
fn discards_for_a_host_that_is_up_are_a_credit_stall() {
    let discards = |up: f64, unread: fn(&Fabric, &mut Frame)| {
        watch(0.0, move |fabric, frame| {
            stalled(fabric, frame);
            // Silence alone names none of the two.
            frame.set(Signal::Rx, host(fabric, 2), 0.0);
            frame.set(Signal::Discards, egress(fabric, 6), 1000.0);
            [host(fabric, 6), egress(fabric, 6)].iter().for_each(|port| frame.set(Signal::Up, *port, up));
            unread(fabric, frame);
        })
    };
    for unread in [|_: &Fabric, _: &mut Frame| (), without_waits] {
        let found = only(discards(1.0, unread));
        assert_eq!((found.kind, found.root), (IncidentKind::CreditStall, port("h6", "1")));
    }
    let down = discards(0.0, |_, _| ());
    assert!(down.iter().all(|i| i.kind != IncidentKind::CreditStall), "what is sent to a dead link is discarded too");
}

#[test]
fn the_one_host_that_receives_nothing_while_others_wait_is_stalled() {
    let silent = |hosts: &'static [usize]| {
        only(watch(0.0, move |fabric, frame| {
            stalled(fabric, frame);
            hosts.iter().for_each(|h| frame.set(Signal::Rx, host(fabric, *h), 0.0));
            hosts_only(fabric, frame);
        }))
    };
    let found = silent(&[6]);
    assert_eq!((found.kind, found.root), (IncidentKind::CreditStall, port("h6", "1")));
    let several = silent(&[2, 6]);
    assert_eq!((several.kind, several.root), (IncidentKind::FabricCongestion, Location::Fabric));
}

#[test]
fn a_rail_that_sends_at_a_constant_rate_is_a_straggler() {
    // All rails move the same bytes: the others send in bursts and wait for the slow one.
    let slow = |wait: f64| {
        watch_on(&rails(), Thresholds::default(), infiniband_rails, [70, 60, 0], move |fabric, frame| {
            let burst = if (frame.time_ns / 1_000_000_000) % 2 == 0 { 1.0 } else { 0.0 };
            for h in 0..4 {
                fabric.ports.of_node(h).iter().for_each(|port| moves(frame, *port, burst * USUAL));
            }
            let port = fabric.ports.of_node(2)[1];
            frame.set(Signal::Tx, port, 0.5 * USUAL);
            waits(frame, port, wait);
        })
    };
    let found = only(slow(0.0));
    assert_eq!((found.kind, found.root), (IncidentKind::StragglerRail, port("h2", "2")));
    assert!(slow(0.3).iter().all(|i| i.kind != IncidentKind::StragglerRail), "it lacks credits: another port is slow");
}

fn infiniband_rails(fabric: &Fabric, frame: &mut Frame) {
    infiniband(0.001)(fabric, frame);
}
