//! Verdicts from paths by the forwarding tables of InfiniBand, where no switch is read: losses name a link, slowness does not.

use crate::common::{RATE, USUAL, fabric, host, link, only};
use fabriclens_correlate::{
    Fabric, FlowName, Frame, Incident, IncidentKind, IncidentTracker, PathSource, PortName, RouteUpdate, Severity,
    Signal, Thresholds,
};

const S: i64 = 1_000_000_000;
/// Seconds of calm, and of all.
const CALM: i64 = 90;
const ALL: i64 = 200;
/// Senders, receivers and spines of the queue pairs.
const PAIRS: [(usize, usize, usize); 4] = [(0, 4, 0), (0, 6, 1), (1, 5, 0), (2, 7, 1)];

fn port(node: &str, number: usize, at: usize) -> PortName {
    PortName { node: format!("{node}{number}"), port: at.to_string() }
}

fn flow(from: usize, to: usize) -> FlowName {
    FlowName { from: port("h", from, 1), to: port("h", to, 1), source_port: None }
}

fn hops(from: usize, to: usize, spine: usize) -> Vec<PortName> {
    let [here, there] = [from / 4, to / 4];
    vec![
        port("h", from, 1),
        port("leaf", here, 5 + spine),
        port("spine", spine, 1 + there),
        port("leaf", there, 1 + to % 4),
    ]
}

/// Incidents of a run in which `frame` decides what differs after the calm time, and `paths` what is known of each flow.
fn incidents(
    paths: impl Fn(usize, usize, usize) -> RouteUpdate,
    change: impl Fn(&Fabric, &mut Frame),
) -> Vec<Incident> {
    let fabric = fabric();
    let mut tracker = IncidentTracker::new(fabric.clone(), Thresholds::default());
    for (number, (from, to, spine)) in PAIRS.into_iter().enumerate() {
        tracker.learn(0, paths(from, to, spine));
        tracker.learn(0, RouteUpdate::Connected { flow: flow(from, to), number: number as u32 });
    }
    let mut found = Vec::new();
    for second in 0..ALL {
        let mut frame = Frame::new(second * S);
        for port in fabric.host_ports() {
            let wave = 1.0 + 0.05 * ((second as usize + port) as f64 * 1.7).sin();
            let usual =
                [(Signal::Tx, USUAL * wave), (Signal::Rx, USUAL * wave), (Signal::Rate, RATE), (Signal::Up, 1.0)];
            usual.into_iter().for_each(|(signal, value)| frame.set(signal, port, value));
            // No pause on InfiniBand, but missing credits.
            let none = [Signal::XmitWait, Signal::SequenceNaks, Signal::OutOfSequence, Signal::WireErrors];
            none.into_iter().for_each(|signal| frame.set(signal, port, 0.0));
        }
        if second >= CALM {
            change(&fabric, &mut frame);
        }
        found.extend(tracker.tick(frame));
    }
    found.extend(tracker.open());
    found.retain(|incident| incident.severity != Severity::Info);
    found
}

fn by_tables(from: usize, to: usize, spine: usize) -> RouteUpdate {
    RouteUpdate::Path { flow: flow(from, to), hops: hops(from, to, spine), source: PathSource::ForwardingTable }
}

/// Each third second, senders get a negative acknowledgment while their receivers miss packets.
fn lose(fabric: &Fabric, frame: &mut Frame, pairs: &[(usize, usize)]) {
    for (at, (from, to)) in pairs.iter().enumerate() {
        if frame.time_ns / S % 3 == at as i64 {
            frame.set(Signal::SequenceNaks, host(fabric, *from), 20.0);
            frame.set(Signal::OutOfSequence, host(fabric, *to), 40.0);
        }
    }
}

#[test]
fn losses_are_placed_by_the_forwarding_tables() {
    let found = only(incidents(by_tables, |fabric, frame| lose(fabric, frame, &[(0, 4), (0, 6)])));
    assert_eq!((found.kind, found.root), (IncidentKind::LossyLink, link("h0", "leaf0")), "both leave by it");
    assert!(found.explanation.contains("(by the forwarding tables)"), "{}", found.explanation);
    assert_eq!(found.path.map(|path| path.known), Some(PathSource::ForwardingTable));
    let found = only(incidents(by_tables, |fabric, frame| lose(fabric, frame, &[(0, 4), (1, 5)])));
    assert!([link("leaf0", "spine0"), link("leaf1", "spine0")].contains(&found.root), "{:?}", found.root);
}

#[test]
fn under_adaptive_routing_no_link_between_switches_is_the_only_one() {
    let one_of =
        |from, to, _| RouteUpdate::OneOf { flow: flow(from, to), paths: vec![hops(from, to, 0), hops(from, to, 1)] };
    let found = only(incidents(one_of, |fabric, frame| lose(fabric, frame, &[(0, 4), (0, 6)])));
    assert_eq!(found.root, link("h0", "leaf0"), "all paths leave by it");
    let found = incidents(one_of, |fabric, frame| lose(fabric, frame, &[(0, 4), (1, 5)]));
    let spines = |found: &Incident| [link("leaf0", "spine0"), link("leaf0", "spine1")].contains(&found.root);
    assert!(found.iter().all(|i| !spines(i) || i.confidence < 0.8), "{found:?}");
}

#[test]
fn losses_of_senders_that_wait_for_credits_accuse_no_link() {
    let found = incidents(by_tables, |fabric, frame| {
        lose(fabric, frame, &[(0, 4), (0, 6)]);
        frame.set(Signal::XmitWait, host(fabric, 0), 0.5);
    });
    let names_a_link = |i: &Incident| i.kind == IncidentKind::LossyLink && i.path.is_some();
    assert!(!found.iter().any(names_a_link), "a switch discards what waits too long: {found:?}");
}

#[test]
fn a_slow_pair_accuses_no_link_where_a_slow_host_looks_alike() {
    let slow = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::Tx, host(fabric, 0), 0.4 * USUAL);
        frame.set(Signal::Rx, host(fabric, 4), 0.4 * USUAL);
        frame.set(Signal::XmitWait, host(fabric, 0), 0.2);
    };
    let found = incidents(by_tables, slow);
    let wrong = [IncidentKind::DegradedLink, IncidentKind::EcmpCollision];
    assert!(!found.iter().any(|incident| wrong.contains(&incident.kind)), "{found:?}");
}
