//! Detectors for hosts with several rails.

use crate::common::{RATE, USUAL, only, rails, watch_on};
use fabriclens_correlate::Location;
use fabriclens_correlate::{Fabric, IncidentKind, LinkEnd, Signal, Thresholds};

#[test]
fn slow_rail_is_a_straggler() {
    let rail = |others: f64| {
        watch_on(
            &rails(),
            Thresholds::default(),
            |_, _| (),
            [90, 40, 0],
            move |fabric, frame| {
                for port in fabric.jobs[0].ports.clone() {
                    let slow = port == fabric.ports.of_node(2)[1];
                    let moves = USUAL * if slow { 0.1 } else { others };
                    frame.set(Signal::Tx, port, moves);
                    frame.set(Signal::Rx, port, moves);
                }
            },
        )
    };
    let found = rail(0.6).pop().unwrap();
    assert_eq!(
        (found.kind, found.root),
        (IncidentKind::StragglerRail, Location::Port { node: "h2".into(), port: "2".into() })
    );
    assert_eq!(found.victim_jobs, ["all"]);
    assert_eq!(rail(1.2).len(), 0, "the job loses nothing");
}

/// The reason is named where it is measured, and only where it tells this adapter from others.
#[test]
fn straggler_has_its_reason() {
    let slow_with = |signals: &'static [(Signal, f64, f64)]| {
        let found = watch_on(
            &rails(),
            Thresholds::default(),
            |_, _| (),
            [90, 40, 0],
            move |fabric, frame| {
                for port in fabric.jobs[0].ports.clone() {
                    let slow = port == fabric.ports.of_node(2)[1];
                    for (signal, here, elsewhere) in signals {
                        frame.set(*signal, port, if slow { *here } else { *elsewhere });
                    }
                    for signal in [Signal::Tx, Signal::Rx] {
                        frame.set(signal, port, USUAL * if slow { 0.1 } else { 0.6 });
                    }
                }
            },
        );
        found.into_iter().map(|incident| incident.explanation).collect::<String>()
    };
    let staged = "goes through host memory";
    assert!(slow_with(&[(Signal::GpuDirect, 0.0, 1.0)]).contains(staged));
    let everywhere = slow_with(&[(Signal::GpuDirect, 0.0, 0.0)]);
    assert!(everywhere.contains("carries") && !everywhere.contains(staged), "{everywhere}");
    assert!(!slow_with(&[]).contains("Reason"), "not measured");
    // A narrow path is an incident of its own, which explains the other.
    let narrow =
        slow_with(&[(Signal::PcieRate, RATE / 2.0, RATE * 2.0), (Signal::PcieRateMax, RATE * 2.0, RATE * 2.0)]);
    assert!(narrow.contains("PCIe path runs at 25 %"), "{narrow}");
}

#[test]
fn rails_come_from_agents() {
    // Each host has a third port, for storage, and one port of each rail is quiet because the rail's other port carries
    // its traffic.
    let mut fabric = rails();
    for h in 0..4 {
        for port in ["3", "4"] {
            let at = fabric.measured_port(&format!("h{h}"), port).unwrap();
            fabric.jobs[0].ports.push(at);
        }
        for (port, rail) in [("1", "0"), ("2", "1"), ("4", "1")] {
            fabric.topology.rails.insert(LinkEnd { node: h, port: port.into() }, rail.into());
        }
    }
    let moves = |fabric: &Fabric, storage: f64, second: f64| {
        watch_on(
            fabric,
            Thresholds::default(),
            |_, _| (),
            [90, 40, 0],
            move |fabric, frame| {
                for h in 0..4 {
                    // If all hosts shifted, the application would use its rails differently.
                    let [second, storage] = if h == 3 { [0.7, 0.7] } else { [second, storage] };
                    for (at, part) in fabric.ports.of_node(h).iter().zip([0.7, second, storage, 0.7]) {
                        frame.set(Signal::Tx, *at, part * USUAL);
                        frame.set(Signal::Rx, *at, part * USUAL);
                    }
                }
            },
        )
    };
    let told = |fabric: &Fabric| [moves(fabric, 0.0, 0.7), moves(fabric, 0.9, 0.1)].map(|found| !found.is_empty());
    assert_eq!(told(&fabric), [false, false], "storage is no rail, and a rail may have two ports");
    fabric.topology.rails.clear();
    assert_eq!(told(&fabric), [true, true], "nobody names rails: each port is one");
}

#[test]
fn slow_host_is_one_incident() {
    let slow = |nics: usize| {
        let found = watch_on(
            &rails(),
            Thresholds::default(),
            |_, _| (),
            [80, 40, 0],
            move |fabric, frame| {
                for port in fabric.ports.of_node(2).iter().take(nics) {
                    frame.set(Signal::PauseTx, *port, 0.4);
                    frame.set(Signal::PauseRx, fabric.ports.list[*port].peer.unwrap(), 0.4);
                    frame.set(Signal::PauseFrames, *port, 9_000.0);
                    frame.set(Signal::QueueMax, *port, 1e6);
                }
            },
        );
        found.into_iter().map(|i| (i.kind, i.root)).collect::<Vec<_>>()
    };
    assert_eq!(slow(2), [(IncidentKind::SlowReceiver, Location::Host { node: "h2".into() })]);
    let port = Location::Port { node: "h2".into(), port: "1".into() };
    assert_eq!(slow(1), [(IncidentKind::SlowReceiver, port)], "its other NIC is well");
}

#[test]
fn incast_at_all_nics_of_a_host_is_one_incident() {
    let many_to_one = |notifications: f64| {
        watch_on(
            &rails(),
            Thresholds::default(),
            |_, _| (),
            [80, 40, 0],
            move |fabric, frame| {
                for h in 0..4 {
                    for host in fabric.ports.of_node(h) {
                        let leaf = fabric.ports.list[*host].peer.unwrap();
                        if h == 2 {
                            frame.set(Signal::Tx, leaf, 0.99 * RATE);
                            frame.set(Signal::Queue, leaf, 3e6);
                            frame.set(Signal::Rx, *host, 0.99 * RATE);
                            frame.set(Signal::EcnRx, *host, 2e6);
                            frame.set(Signal::CnpTx, *host, notifications);
                        } else {
                            frame.set(Signal::PauseRx, *host, 0.2);
                            frame.set(Signal::PauseTx, leaf, 0.2);
                        }
                    }
                }
            },
        )
    };
    let found = only(many_to_one(2e4));
    assert_eq!((found.kind, found.root), (IncidentKind::Incast, Location::Host { node: "h2".into() }));
    assert_eq!(found.culprit_jobs, ["all"]);
    let silent: Vec<_> = many_to_one(0.0).into_iter().map(|i| i.kind).collect();
    assert_eq!(silent, [IncidentKind::EcnMisconfigured], "nobody tells the senders");
}
