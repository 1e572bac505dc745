//! The wait graph, by priority and by onset.

use crate::common::{RATE, USUAL, egress, fabric, host, link, moves, watch, watch_on};
use fabriclens_correlate::{Fabric, Frame, IncidentKind, Signal, Thresholds};
use fabriclens_correlate::{Incident, Location};

const S: i64 = 1_000_000_000;
/// Nodes of the fabric of these tests.
const LEAVES: [usize; 2] = [8, 9];
const SPINES: [usize; 2] = [10, 11];

/// A port is held back by its peer; `None` if drivers do not count by priority.
fn paused(fabric: &Fabric, frame: &mut Frame, port: usize, priority: Option<usize>, share: f64) {
    let peer = fabric.ports.list[port].peer.unwrap();
    for (signal, at) in [(Signal::PauseRx, port), (Signal::PauseTx, peer)] {
        frame.set(signal, at, frame.get(signal, at).unwrap_or(0.0).max(share));
        if let Some(priority) = priority {
            frame.set_priority(signal, priority, at, share);
        }
    }
}

fn waits(frame: &mut Frame, port: usize, bytes: f64) {
    frame.set(Signal::Queue, port, bytes);
    frame.set(Signal::QueueMax, port, bytes);
}

/// Ports of a leaf to both spines, and of a spine to both leaves.
fn up(fabric: &Fabric, leaf: usize, spine: usize) -> usize {
    fabric.ports.of_node(LEAVES[leaf])[4 + spine]
}

fn down(fabric: &Fabric, spine: usize, leaf: usize) -> usize {
    fabric.ports.of_node(SPINES[spine])[leaf]
}

fn port(node: &str) -> Location {
    Location::Port { node: node.into(), port: "1".into() }
}

fn told(found: &[Incident]) -> Vec<(IncidentKind, Location)> {
    found.iter().map(|i| (i.kind, i.root.clone())).collect()
}

fn priorities(incident: &Incident) -> Vec<usize> {
    incident.priorities.iter().collect()
}

/// h3 is a slow receiver in one priority; the traffic to h6 exceeds its link in another.
fn two(fabric: &Fabric, frame: &mut Frame, [slow, many]: [Option<usize>; 2]) {
    paused(fabric, frame, egress(fabric, 3), slow, 0.5);
    frame.set(Signal::PauseFrames, host(fabric, 3), 12_000.0);
    frame.set(Signal::QueueMax, host(fabric, 3), 3e5);
    for port in [host(fabric, 1), down(fabric, 0, 0), up(fabric, 1, 0), host(fabric, 5)] {
        paused(fabric, frame, port, slow, 0.3);
    }
    for at in [egress(fabric, 3), down(fabric, 0, 0), up(fabric, 1, 0)] {
        waits(frame, at, 2e6);
        moves(frame, at, 0.55 * RATE);
    }
    waits(frame, egress(fabric, 6), 3e6);
    moves(frame, egress(fabric, 6), 0.99 * RATE);
    frame.set(Signal::Marks, egress(fabric, 6), 1e6);
    for port in [host(fabric, 4), down(fabric, 1, 1), up(fabric, 0, 1), host(fabric, 0), host(fabric, 2)] {
        paused(fabric, frame, port, many, 0.25);
    }
}

#[test]
fn two_priorities_are_two_chains() {
    let found = watch(80, 40, 0, |fabric, frame| two(fabric, frame, [Some(3), Some(4)]));
    let expected = [(IncidentKind::SlowReceiver, port("h3")), (IncidentKind::Incast, port("h6"))];
    assert_eq!(told(&found), expected);
    assert_eq!(found.iter().map(priorities).collect::<Vec<_>>(), [[3], [4]]);
    let held = |at: usize, host: &str| found[at].victim_ports.contains(&port(host));
    assert_eq!([held(0, "h1"), held(0, "h0"), held(1, "h1"), held(1, "h0")], [true, false, false, true]);
    assert!(found[0].explanation.contains("in priority 3"), "{}", found[0].explanation);
    assert!(found[1].explanation.contains("in priority 4"), "{}", found[1].explanation);
    assert_eq!(serde_json::to_value(&found[0]).unwrap()["priorities"], serde_json::json!([3]));
}

#[test]
fn ports_wait_for_one_of_two_incidents() {
    let found = watch(80, 60, 0, |fabric, frame| {
        waits(frame, egress(fabric, 6), 3e6);
        moves(frame, egress(fabric, 6), 0.99 * RATE);
        frame.set(Signal::Marks, egress(fabric, 6), 1e6);
        for port in [host(fabric, 4), host(fabric, 5), host(fabric, 7), down(fabric, 0, 1)] {
            paused(fabric, frame, port, Some(3), 0.25);
        }
        if frame.time_ns >= 110 * S {
            frame.set(Signal::PauseFrames, host(fabric, 3), 12_000.0);
            frame.set(Signal::QueueMax, host(fabric, 3), 3e5);
            waits(frame, egress(fabric, 3), 2e6);
            for port in [egress(fabric, 3), host(fabric, 0), host(fabric, 1)] {
                paused(fabric, frame, port, Some(3), 0.5);
            }
        }
    });
    assert_eq!(told(&found), [(IncidentKind::Incast, port("h6")), (IncidentKind::SlowReceiver, port("h3"))]);
    let hosts = |at: usize| -> Vec<Location> {
        let waiting = (0..8).map(|h| port(&format!("h{h}")));
        waiting.filter(|host| found[at].victim_ports.contains(host)).collect()
    };
    assert_eq!(hosts(0), ["h4", "h5", "h7"].map(port), "these wait for the traffic to h6");
    assert_eq!(hosts(1), ["h0", "h1"].map(port), "these for h3");
    assert_eq!([0, 1].map(|at| found[at].victim_ports.len()), [4, 3], "each has one port of a switch too");
}

#[test]
fn unknown_priorities_are_one_chain() {
    for which in [[Some(3); 2], [None; 2]] {
        let found = watch(80, 40, 0, |fabric, frame| two(fabric, frame, which));
        assert_eq!(told(&found), [(IncidentKind::SlowReceiver, port("h3"))]);
        let all = if which[0].is_some() { vec![3] } else { vec![] };
        assert_eq!((priorities(&found[0]), found[0].victim_ports.len()), (all, 10));
    }
}

#[test]
fn chain_stays_in_its_priority() {
    // leaf0's backpressure is caused by its link to spine0. That is held back too, in another priority, by backpressure
    // of leaf1.
    let found = |second: usize| {
        let found = watch(80, 40, 0, |fabric, frame| {
            for h in 0..3 {
                paused(fabric, frame, host(fabric, h), Some(3), 0.4);
            }
            waits(frame, up(fabric, 0, 0), 4e6);
            moves(frame, up(fabric, 0, 0), 0.6 * RATE);
            paused(fabric, frame, up(fabric, 0, 0), Some(second), 0.35);
            waits(frame, down(fabric, 0, 1), 4e6);
            moves(frame, down(fabric, 0, 1), 0.99 * RATE);
        });
        assert_eq!(found.len(), 1, "{:?}", told(&found));
        (found[0].kind, found[0].root.clone(), priorities(&found[0]))
    };
    assert_eq!(found(3), (IncidentKind::UplinkCongestion, link("leaf1", "spine0"), vec![3]));
    assert_eq!(
        found(4),
        (IncidentKind::FabricCongestion, Location::Fabric, vec![3]),
        "who holds back priority 3 is not seen"
    );
}

/// Ports of a circle: leaf1 to spine1 to leaf0 to spine0 to leaf1.
fn ring(fabric: &Fabric) -> [usize; 4] {
    [up(fabric, 1, 1), down(fabric, 1, 0), up(fabric, 0, 0), down(fabric, 0, 1)]
}

/// leaf0, spine0, leaf1 and spine1 wait for each other; leaf1 for spine1 three seconds earlier.
fn circle(fabric: &Fabric, frame: &mut Frame, priorities: [usize; 4], share: f64) {
    for (at, (port, priority)) in ring(fabric).into_iter().zip(priorities).enumerate() {
        if at == 0 || frame.time_ns >= 83 * S {
            paused(fabric, frame, port, Some(priority), share);
            waits(frame, port, 4e6);
            frame.set(Signal::Tx, port, (1.0 - share) * USUAL);
        }
    }
    for h in 0..8 {
        paused(fabric, frame, host(fabric, h), Some(priorities[0]), 0.8 * share);
        moves(frame, host(fabric, h), 0.1 * USUAL);
    }
}

#[test]
fn stalled_cycle_is_a_deadlock() {
    let found = watch(80, 60, 0, |fabric, frame| circle(fabric, frame, [3; 4], 1.0));
    assert_eq!(told(&found), [(IncidentKind::FabricCongestion, link("leaf1", "spine1"))]);
    let text = &found[0].explanation;
    assert!(text.contains("a deadlock") && text.contains("in priority 3"), "{text}");
    assert!(text.starts_with("leaf1, spine1, leaf0, spine0 hold"), "{text}");
    assert!(text.ends_with("leaf1 port 6 was held back first."), "{text}");
    assert!(found[0].action.contains("down and up again"), "{}", found[0].action);
    assert_eq!(found[0].victim_jobs, ["even", "odd"]);
}

#[test]
fn watchdogs_report_a_deadlock_that_they_interrupt() {
    let found = |storms: f64| {
        watch(80, 60, 0, move |fabric, frame| {
            circle(fabric, frame, [3; 4], 0.6);
            ring(fabric).into_iter().for_each(|port| frame.set(Signal::WatchdogStorms, port, storms));
        })
    };
    assert!(!found(0.0).iter().any(|i| i.explanation.contains("a deadlock")), "something still moves");
    let dead = found(0.2);
    assert_eq!(told(&dead), [(IncidentKind::FabricCongestion, link("leaf1", "spine1"))]);
    assert!(dead[0].explanation.contains("a deadlock"), "{}", dead[0].explanation);
    let reports = dead[0].evidence.iter().filter(|e| e.metric.contains("watchdog")).count();
    assert_eq!(reports, 4, "{:?}", dead[0].evidence);
}

#[test]
fn mixed_priorities_are_no_cycle() {
    let found = watch(80, 60, 0, |fabric, frame| circle(fabric, frame, [3, 3, 4, 4], 1.0));
    assert!(found.iter().all(|i| !i.explanation.contains("cycle")), "{:?}", found[0].explanation);
}

#[test]
fn later_pause_is_not_the_cause() {
    let found = watch(80, 70, 0, |fabric, frame| {
        for h in 0..3 {
            paused(fabric, frame, host(fabric, h), Some(3), 0.3);
        }
        let uplink = up(fabric, 0, 0);
        waits(frame, uplink, 4e6);
        moves(frame, uplink, 0.98 * RATE);
        if frame.time_ns >= 90 * S {
            paused(fabric, frame, uplink, Some(3), 0.7);
            frame.set(Signal::Tx, uplink, 0.3 * RATE);
            waits(frame, down(fabric, 0, 1), 6e6);
            moves(frame, down(fabric, 0, 1), 0.98 * RATE);
        }
    });
    assert_eq!(told(&found), [(IncidentKind::UplinkCongestion, link("leaf0", "spine0"))]);
}

#[test]
fn first_of_two_incasts_is_the_root() {
    let found = watch(80, 55, 0, |fabric, frame| {
        let second = frame.time_ns / S;
        let mut many = |to: usize, from: [usize; 2]| {
            waits(frame, egress(fabric, to), 3e6);
            moves(frame, egress(fabric, to), 0.99 * RATE);
            frame.set(Signal::Marks, egress(fabric, to), 1e6);
            from.iter().for_each(|h| paused(fabric, frame, host(fabric, *h), Some(3), 0.2));
        };
        many(5, [4, 7]);
        if second >= 88 {
            many(2, [1, 3]);
        }
    });
    assert_eq!(told(&found), [(IncidentKind::Incast, port("h5"))]);
}

/// h5 of job `odd` gets more than it can take; the hosts in `told` are notified for it, the first the most.
fn marked(fabric: &Fabric, frame: &mut Frame, told: &[usize]) {
    let full = egress(fabric, 5);
    waits(frame, full, 3e6);
    frame.set(Signal::Tx, full, 0.99 * RATE);
    frame.set(Signal::Marks, full, 2e6);
    frame.set(Signal::Rx, host(fabric, 5), 0.99 * RATE);
    frame.set(Signal::EcnRx, host(fabric, 5), 2e6);
    [4, 7].iter().for_each(|h| paused(fabric, frame, host(fabric, *h), None, 0.02));
    for (at, h) in told.iter().enumerate() {
        frame.set(Signal::CnpRx, host(fabric, *h), 9_000.0 / (at + 1) as f64);
    }
    if !told.is_empty() {
        frame.set(Signal::CnpTx, host(fabric, 5), 20_000.0);
    }
}

fn senders(found: &[Incident]) -> Vec<String> {
    assert_eq!(told(found), [(IncidentKind::Incast, port("h5"))]);
    let all = serde_json::to_value(&found[0]).unwrap()["senders"].clone();
    let text = |s: &serde_json::Value| {
        let of = |key: &str| s[key].as_str().unwrap_or("none").to_owned();
        format!("{} {} of {}", of("node"), of("port"), of("job"))
    };
    let again: Incident = serde_json::from_value(serde_json::to_value(&found[0]).unwrap()).unwrap();
    assert_eq!(again.senders, found[0].senders);
    all.as_array().map(|all| all.iter().map(text).collect()).unwrap_or_default()
}

#[test]
fn senders_are_sorted_by_size() {
    let found = watch(80, 40, 0, |fabric, frame| marked(fabric, frame, &[7, 2, 1]));
    assert_eq!(senders(&found), ["h7 1 of odd", "h2 1 of even", "h1 1 of odd"], "only h5 notifies anybody");
    let found = watch(80, 40, 0, |fabric, frame| {
        marked(fabric, frame, &[7, 2, 1]);
        // Another receiver notifies too: the peers of h2 are unknown.
        frame.set(Signal::CnpTx, host(fabric, 6), 15_000.0);
    });
    assert_eq!(senders(&found), ["h7 1 of odd", "h1 1 of odd"], "those of its own job");
    let found = watch(80, 40, 0, |fabric, frame| {
        marked(fabric, frame, &[]);
        (0..8).for_each(|h| frame.set(Signal::CnpRx, host(fabric, h), f64::NAN));
        frame.set(Signal::Tx, host(fabric, 3), 2.0 * USUAL);
    });
    let told = senders(&found);
    assert_eq!(
        (told[0].as_str(), told.len()),
        ("h3 1 of odd", 3),
        "nobody counts it: the job's others, by what they send"
    );
}

#[test]
fn queue_pairs_name_the_senders() {
    let found = |others: &[usize], told: &[usize], also: usize| {
        let mut fabric = fabric();
        let port = host(&fabric, 5);
        fabric.set_peers(port, others.iter().map(|h| host(&fabric, *h)).collect());
        let fault = |fabric: &Fabric, frame: &mut Frame| {
            marked(fabric, frame, told);
            frame.set(Signal::CnpTx, host(fabric, also), 15_000.0);
        };
        senders(&watch_on(&fabric, Thresholds::default(), |_, _| (), [80, 40, 0], fault))
    };
    assert_eq!(found(&[1, 2, 3], &[7, 2, 1], 5), ["h2 1 of even", "h1 1 of odd"], "h7 is told by another");
    assert_eq!(found(&[1, 2, 3], &[7, 2, 1], 6), ["h2 1 of even", "h1 1 of odd"], "also where two notify");
    assert_eq!(found(&[4], &[7, 2, 1], 6), ["h7 1 of odd", "h1 1 of odd"], "none of those that are told slows down");
}
