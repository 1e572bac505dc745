//! Detectors for adapters, modules, transport and InfiniBand, on a small fabric.

use crate::common::{ETHERNET, RATE, USUAL, egress, fabric, host, link, only, port, rails_at, watch, watch_on};
use fabriclens_correlate::{Fabric, Frame, IncidentKind, Severity, Signal, Thresholds};
use fabriclens_correlate::{Incident, Location};

#[test]
fn storm_events_are_believed_at_once() {
    let error = only(watch(60, 3, 0, |fabric, frame| frame.set(Signal::StormErrors, host(fabric, 3), 1.0)));
    assert_eq!((error.kind, &error.root), (IncidentKind::PfcStorm, &port("h3", "1")));
    assert!(error.detected_ns - error.start_ns <= 2_000_000_000, "{}", error.detected_ns - error.start_ns);
    let warning = only(watch(60, 3, 0, |fabric, frame| frame.set(Signal::StormWarnings, host(fabric, 3), 1.0)));
    assert_eq!((warning.kind, warning.root), (IncidentKind::PfcStorm, port("h3", "1")));
    assert!(warning.confidence < error.confidence);
}

#[test]
fn watchdogs_of_switches_name_the_port_at_once() {
    // One report, and a switch that is read seldom: its pause is not known yet.
    let storm = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::WatchdogStorms, egress(fabric, 3), 1.0);
        frame.set(Signal::PauseTx, host(fabric, 3), 0.3);
    };
    let found = only(watch(60, 1, 5, storm));
    assert_eq!((found.kind, &found.root), (IncidentKind::PfcStorm, &port("h3", "1")));
    assert!(found.detected_ns - found.start_ns <= 2_000_000_000, "{}", found.detected_ns - found.start_ns);
    let evidence = found.evidence.iter().find(|e| e.metric == "fabric_pfc_watchdog_notices_total").unwrap();
    assert_eq!(evidence.at, "leaf0 port 4");
    assert_ne!(found.severity, Severity::Info);
    // Neither end counts any pause: the incident is an observation.
    let denied = watch(60, 1, 5, |fabric, frame| frame.set(Signal::WatchdogStorms, egress(fabric, 3), 1.0));
    assert!(denied.iter().all(|found| found.severity == Severity::Info), "{denied:?}");
    // A queue between switches is paused by the next switch, and no host is accused.
    let between = watch(60, 1, 5, |fabric, frame| {
        let uplink = fabric.ports.of_node(fabric.topology.node("leaf0").unwrap())[4];
        frame.set(Signal::WatchdogStorms, uplink, 1.0);
    });
    assert_eq!(between.len(), 0, "{between:?}");
}

#[test]
fn headroom_that_overflows_explains_lost_packets() {
    let losses = |drops: f64, paused: f64| {
        only(watch(60, 60, 0, move |fabric, frame| {
            frame.set(Signal::SequenceNaks, host(fabric, 2), 20.0);
            frame.set(Signal::PauseTx, egress(fabric, 5), paused);
            frame.set(Signal::HeadroomDrops, egress(fabric, 5), drops);
        }))
    };
    let found = losses(9.0, 0.001);
    assert_eq!(found.kind, IncidentKind::TransportErrors);
    assert!(found.explanation.contains("leaf1 port 2 dropped packets because its headroom was full"), "{found:?}");
    assert!(found.evidence.iter().any(|e| e.metric == "fabric_port_priority_group_discards_total"));
    assert_eq!(losses(0.0, 0.001).kind, IncidentKind::LossyLink, "nothing was full");
    let lossy = losses(9.0, 0.0);
    assert!(!lossy.explanation.contains("headroom"), "lossy priorities drop and pause nobody: {lossy:?}");
}

/// A driver that counts pause frames but no time.
fn no_durations(fabric: &Fabric, frame: &mut Frame) {
    for port in 0..fabric.ports.list.len() {
        frame.set(Signal::PauseTx, port, f64::NAN);
        frame.set(Signal::PauseRx, port, f64::NAN);
    }
}

#[test]
fn pause_frames_alone_are_an_estimate() {
    let frames = |share: f64| {
        let fault = move |fabric: &Fabric, frame: &mut Frame| {
            frame.set(Signal::PauseFrames, host(fabric, 3), share / 335.5e-6);
        };
        watch_on(&fabric(), Thresholds::default(), no_durations, [60, 30, 0], fault)
    };
    let found = only(frames(0.5));
    assert_eq!((found.kind, found.root.clone()), (IncidentKind::SlowReceiver, port("h3", "1")));
    assert!(found.explanation.contains("estimated") && found.confidence < 0.8, "{found:?}");
    assert_eq!(frames(0.05).len(), 0, "as measured time it would be enough");
}

#[test]
fn storm_has_the_priority_of_its_frames() {
    let found = only(watch_on(&fabric(), Thresholds::default(), no_durations, [60, 30, 0], |fabric, frame| {
        let frames = 0.5 / 335.5e-6;
        frame.set(Signal::PauseFrames, host(fabric, 3), frames + 1.0);
        frame.set_priority(Signal::PauseFrames, 3, host(fabric, 3), frames);
        frame.set_priority(Signal::PauseFrames, 4, host(fabric, 3), 1.0);
    }));
    assert_eq!((found.kind, found.priorities.iter().collect()), (IncidentKind::SlowReceiver, vec![3]));
    assert!(found.explanation.contains("in priority 3"), "{}", found.explanation);
}

/// InfiniBand: no pause, no marks, no queue counters.
fn infiniband(fabric: &Fabric, frame: &mut Frame) {
    for port in 0..fabric.ports.list.len() {
        ETHERNET.iter().for_each(|s| frame.set(*s, port, f64::NAN));
        frame.set(Signal::XmitWait, port, 0.001);
    }
}

fn watch_credits(fault: impl Fn(&Fabric, &mut Frame)) -> Vec<Incident> {
    watch_on(&fabric(), Thresholds::default(), infiniband, [60, 60, 0], fault)
}

#[test]
fn idle_infiniband_is_quiet() {
    assert_eq!(watch_credits(|_, _| ()).len(), 0);
    let busy = watch_credits(|fabric, frame| frame.set(Signal::XmitWait, host(fabric, 1), 0.03));
    assert_eq!(busy.len(), 0, "ports that share a link wait a little");
}

#[test]
fn missing_credits_are_a_slow_receiver() {
    let found = only(watch_credits(|fabric, frame| {
        frame.set(Signal::XmitWait, egress(fabric, 3), 0.7);
        frame.set(Signal::Tx, egress(fabric, 3), 0.2 * RATE);
        // Its traffic waits at the other leaf and at its senders.
        frame.set(Signal::XmitWait, fabric.ports.of_node(10)[0], 0.4);
        frame.set(Signal::XmitWait, host(fabric, 5), 0.4);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::SlowReceiver, port("h3", "1")));
    assert_eq!(found.evidence[0].metric, "fabric_port_xmit_wait_bytes_total");
}

#[test]
fn waiting_senders_name_the_full_port() {
    let full = |at: fn(&Fabric) -> usize| {
        watch_credits(move |fabric, frame| {
            frame.set(Signal::Tx, at(fabric), 0.99 * RATE);
            [1, 3].iter().for_each(|h| frame.set(Signal::XmitWait, host(fabric, *h), 0.4));
        })
    };
    let uplink = only(full(|fabric| fabric.ports.of_node(8)[4]));
    assert_eq!((uplink.kind, uplink.root), (IncidentKind::UplinkCongestion, link("leaf0", "spine0")));
    let incast = only(full(|fabric| egress(fabric, 2)));
    assert_eq!((incast.kind, incast.root), (IncidentKind::Incast, port("h2", "1")));
    assert_eq!(incast.culprit_jobs, ["even"]);
    let unknown = only(watch_credits(|fabric, frame| frame.set(Signal::XmitWait, host(fabric, 1), 0.4)));
    assert_eq!((unknown.kind, unknown.root), (IncidentKind::FabricCongestion, Location::Fabric));
    assert!(unknown.explanation.contains("could not send"), "{}", unknown.explanation);
}

#[test]
fn credit_cycle_is_a_deadlock() {
    let waits = |share: f64| {
        only(watch_credits(move |fabric, frame| {
            // leaf1, spine1, leaf0, spine0.
            for (node, at) in [(9, 5), (11, 0), (8, 4), (10, 1)] {
                let port = fabric.ports.of_node(node)[at];
                frame.set(Signal::XmitWait, port, share);
                frame.set(Signal::Tx, port, (1.0 - share) * USUAL);
            }
            (0..8).for_each(|h| frame.set(Signal::XmitWait, host(fabric, h), 0.8 * share));
        }))
    };
    let dead = waits(1.0);
    assert_eq!(dead.kind, IncidentKind::FabricCongestion);
    assert!(dead.explanation.contains("a deadlock") && !dead.explanation.contains("priorit"), "{}", dead.explanation);
    assert!(!waits(0.6).explanation.contains("a deadlock"), "something still moves");
}

#[test]
fn error_trickle_depends_on_line_rate() {
    // At 100 Gb/s 1e-14 is 0.72 errors in 12 minutes, but one error is a coincidence; at 400 Gb/s it is 2.88.
    let errors = |short: f64, long: f64, rate: f64| {
        let calm = move |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Rate, host(fabric, 6), rate);
        watch_on(&fabric(), Thresholds::default(), calm, [60, 20, 0], move |fabric, frame| {
            frame.set(Signal::WireErrorsShort, host(fabric, 6), short);
            frame.set(Signal::WireErrorsLong, host(fabric, 6), long);
        })
    };
    assert_eq!(errors(1.0, 1.0, RATE).len(), 0);
    assert_eq!(errors(2.0, 2.0, 4.0 * RATE).len(), 0, "a faster link may have more");
    let (bad, worse) = (only(errors(0.0, 3.0, 4.0 * RATE)), only(errors(3.0, 3.0, 4.0 * RATE)));
    assert_eq!((bad.kind, worse.kind), (IncidentKind::LossyLink, IncidentKind::LossyLink));
    assert_eq!(bad.root, link("h6", "leaf1"));
    assert!(bad.confidence < worse.confidence);
}

#[test]
fn fec_failures_and_fec_wear() {
    let lost = only(watch(60, 20, 0, |fabric, frame| frame.set(Signal::FecLost, host(fabric, 6), 0.5)));
    assert_eq!((lost.kind, lost.root), (IncidentKind::LossyLink, link("h6", "leaf1")));
    let mends = |now: f64, before: f64| {
        watch(60, 30, 0, move |fabric, frame| {
            frame.set(Signal::FecMended, host(fabric, 6), now);
            frame.set(Signal::FecMendedBefore, host(fabric, 6), before);
        })
    };
    assert_eq!(only(mends(5000.0, 400.0)).kind, IncidentKind::DegradedLink);
    assert_eq!((mends(3000.0, 400.0).len(), mends(50.0, 1.0).len()), (0, 0));
    // Without a value of a day ago, minutes prove nothing: a rate over five minutes grows while history grows.
    let begins = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::FecMended, host(fabric, 6), if frame.time_ns < 60_000_000_000 { 15.0 } else { 210.0 });
    };
    assert_eq!(
        watch(60, 30, 0, begins).len() + watch_on(&fabric(), Thresholds::default(), begins, [60, 30, 0], begins).len(),
        0
    );
}

#[test]
fn timeouts_of_one_host_and_of_several() {
    let timeouts = |hosts: &'static [usize]| {
        watch(60, 30, 0, move |fabric, frame| {
            hosts.iter().for_each(|h| frame.set(Signal::Timeouts, host(fabric, *h), 0.5));
        })
    };
    let one = only(timeouts(&[2]));
    assert_eq!((one.kind, one.root), (IncidentKind::TransportErrors, port("h2", "1")));
    assert_eq!(only(timeouts(&[1, 2])).root, Location::Switch { node: "leaf0".into() });
    assert_eq!(only(timeouts(&[1, 6])).root, Location::Fabric);
    let usual = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Timeouts, host(fabric, 2), 0.5);
    assert_eq!(watch_on(&fabric(), Thresholds::default(), usual, [60, 30, 0], |_, _| ()).len(), 0, "no surge");
}

#[test]
fn storm_may_begin_within_a_sample() {
    let found = watch(60, 20, 0, |fabric, frame| {
        let began = frame.time_ns == 60_000_000_000;
        frame.set(Signal::PauseTx, host(fabric, 2), if began { 0.4 } else { 1.01 });
        frame.set(Signal::PauseRx, egress(fabric, 2), if began { 0.4 } else { 1.01 });
        // Refreshed twice as often as needed: no frame lasts its longest.
        frame.set(Signal::PauseFrames, host(fabric, 2), if began { 2400.0 } else { 6000.0 });
        frame.set(Signal::Rx, host(fabric, 2), if began { 0.6 * USUAL } else { 0.0 });
    });
    let found = only(found);
    assert_eq!((found.kind, found.start_ns), (IncidentKind::PfcStorm, 60_000_000_000));
    assert_eq!(found.detected_ns, 61_000_000_000, "one sample with pause may be a burst");
}

#[test]
fn naks_replace_missing_retransmit_counter() {
    let naks = |a_second: f64| {
        watch(60, 30, 0, move |fabric, frame| frame.set(Signal::SequenceNaks, host(fabric, 2), a_second))
    };
    let found = only(naks(2.0));
    assert_eq!((found.kind, found.root), (IncidentKind::LossyLink, port("h2", "1")));
    assert_eq!(naks(0.2).len(), 0, "four in 20 s");
}

#[test]
fn lossy_flows_name_their_common_place() {
    // One port retransmits a twentieth of its bytes; others hardly any, but more than usual.
    let lost = |worst: usize, few: &'static [usize], to: &'static [usize]| {
        only(watch(60, 30, 0, move |fabric, frame| {
            frame.set(Signal::Retransmits, host(fabric, worst), 0.05 * USUAL / 4096.0);
            few.iter().for_each(|h| frame.set(Signal::Retransmits, host(fabric, *h), 2.0));
            to.iter().for_each(|h| frame.set(Signal::OutOfSequence, host(fabric, *h), 2.0));
        }))
        .root
    };
    assert_eq!(lost(2, &[], &[5, 6]), port("h2", "1"), "whoever it sends to: its own");
    assert_eq!(lost(2, &[1, 3], &[4, 5, 6]), Location::Switch { node: "leaf0".into() });
    assert_eq!(lost(2, &[1, 7], &[4, 5, 6]), Location::Switch { node: "leaf1".into() });
    assert_eq!(lost(2, &[1, 7], &[5]), port("h5", "1"));
    assert_eq!(lost(2, &[1, 7], &[3, 5]), Location::Fabric);
}

#[test]
fn loss_without_full_buffers_is_corruption() {
    let again = |paused: f64| {
        watch(60, 30, 0, move |fabric, frame| {
            // A twentieth of what it sends.
            frame.set(Signal::Retransmits, host(fabric, 2), 0.05 * USUAL / 4096.0);
            frame.set(Signal::PauseRx, host(fabric, 6), paused);
        })
    };
    let lossy = only(again(0.0));
    assert_eq!((lossy.kind, lossy.root), (IncidentKind::LossyLink, port("h2", "1")));
    let full = only(again(0.1));
    assert_ne!(full.kind, IncidentKind::LossyLink, "somebody was paused: packets may have been dropped");
}

/// h2 sends again what a link corrupts that counts it, so h2 is not at fault.
#[test]
fn corruption_that_a_link_counts_accuses_no_host() {
    let found = only(watch(60, 30, 0, move |fabric, frame| {
        frame.set(Signal::Retransmits, host(fabric, 2), 0.05 * USUAL / 4096.0);
        frame.set(Signal::WireErrors, fabric.ports.of_node(10)[0], 0.05 * USUAL / 4096.0);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::LossyLink, link("leaf0", "spine0")));
    // A single error of the wire explains nothing.
    let found = only(watch(60, 30, 0, move |fabric, frame| {
        frame.set(Signal::Retransmits, host(fabric, 2), 0.05 * USUAL / 4096.0);
        frame.set(
            Signal::WireErrors,
            fabric.ports.of_node(10)[0],
            if frame.time_ns == 70_000_000_000 { 1.0 } else { 0.0 },
        );
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::LossyLink, port("h2", "1")));
}

#[test]
fn short_burst_of_marks_is_normal() {
    // Seen from hosts alone, without any paused port.
    let marks = |seconds: usize| {
        let blind = |fabric: &Fabric, frame: &mut Frame| {
            for port in fabric.switch_ports() {
                for signal in [Signal::Tx, Signal::Rx, Signal::Marks, Signal::Queue, Signal::QueueMax] {
                    frame.set(signal, port, f64::NAN);
                }
            }
        };
        watch_on(&fabric(), Thresholds::default(), blind, [60, seconds, 30], |fabric, frame| {
            frame.set(Signal::EcnRx, host(fabric, 5), 0.9 * USUAL / 4096.0);
        })
    };
    assert_eq!(marks(3).len(), 0);
    assert_eq!(only(marks(15)).kind, IncidentKind::Incast);
}

#[test]
fn narrow_pcie_path_explains_slow_receiver() {
    let narrow = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::PcieRate, host(fabric, 3), 7.8e9);
        frame.set(Signal::PcieRateMax, host(fabric, 3), 15.7e9);
    };
    let alone = only(watch(60, 30, 0, narrow));
    assert_eq!((alone.kind, alone.root), (IncidentKind::PcieBottleneck, port("h3", "1")));
    let slow = watch_on(
        &fabric(),
        Thresholds::default(),
        |_, _| (),
        [60, 30, 0],
        move |fabric, frame| {
            narrow(fabric, frame);
            frame.set(Signal::PauseTx, host(fabric, 3), 0.5);
            frame.set(Signal::PauseRx, egress(fabric, 3), 0.5);
            frame.set(Signal::PauseFrames, host(fabric, 3), 12_000.0);
        },
    );
    let slow = only(slow);
    assert_eq!((slow.kind, slow.evidence.len()), (IncidentKind::SlowReceiver, 3));
    assert!(slow.explanation.contains("50 %"), "{}", slow.explanation);
    let enough = watch(60, 30, 0, |fabric, frame| {
        frame.set(Signal::PcieRate, host(fabric, 3), 15.7e9);
        frame.set(Signal::PcieRateMax, host(fabric, 3), 31.5e9);
    });
    assert_eq!(enough.len(), 0, "half of what it could, and more than its link");
    let platform = watch(60, 30, 0, |fabric, frame| {
        frame.set(Signal::PcieRate, host(fabric, 3), 7.8e9);
        frame.set(Signal::PcieRateMax, host(fabric, 3), 7.8e9);
    });
    assert_eq!(platform.len(), 0, "less than its link, and all that the slot offers");
    let stalls = only(watch(60, 40, 0, |fabric, frame| frame.set(Signal::PcieStall, host(fabric, 3), 0.8)));
    assert_eq!(stalls.kind, IncidentKind::PcieBottleneck);
}

#[test]
fn planes_of_an_adapter_share_its_path_to_memory() {
    let of = |ports: [&str; 2], is: f64| {
        watch_on(
            &rails_at(ports),
            Thresholds::default(),
            |_, _| (),
            [60, 30, 0],
            move |fabric, frame| {
                for plane in fabric.ports.of_node(3) {
                    frame.set(Signal::PcieRate, *plane, is);
                    frame.set(Signal::PcieRateMax, *plane, 4.0 * RATE);
                }
            },
        )
    };
    let found = only(of(["mlx5_0/3", "mlx5_0/6"], 1.5 * RATE));
    assert_eq!(
        (found.kind, found.root),
        (IncidentKind::PcieBottleneck, port("h3", "mlx5_0/3")),
        "one adapter, one incident"
    );
    assert_eq!(of(["mlx5_0/1", "mlx5_1/1"], 1.5 * RATE).len(), 0, "each adapter has enough for its own link");
    assert_eq!(of(["mlx5_0/3", "mlx5_0/6"], 2.5 * RATE).len(), 0, "enough for both");
}

#[test]
fn dark_or_hot_modules() {
    let light = |now: f64| {
        let calm = |fabric: &Fabric, frame: &mut Frame| {
            frame.set(Signal::RxPower, host(fabric, 6), 1e-3);
            frame.set(Signal::ModuleTemperature, host(fabric, 6), 55.0);
        };
        watch_on(&fabric(), Thresholds::default(), calm, [90, 90, 0], move |fabric, frame| {
            frame.set(Signal::RxPower, host(fabric, 6), now);
        })
    };
    let dim = only(light(2e-4));
    assert_eq!((dim.kind, dim.root), (IncidentKind::OpticsDegraded, link("h6", "leaf1")));
    assert_eq!((light(8e-4).len(), light(0.0).len()), (0, 0), "a little less, and a cable without optics");
    let hot = only(watch(60, 90, 0, |fabric, frame| frame.set(Signal::ModuleTemperature, host(fabric, 6), 78.0)));
    assert_eq!((hot.kind, hot.root), (IncidentKind::OpticsDegraded, port("h6", "1")));
}

#[test]
fn tcp_fallback_is_found() {
    let calm = |fabric: &Fabric, frame: &mut Frame| {
        for port in fabric.host_ports() {
            frame.set(Signal::RdmaTx, port, USUAL);
            frame.set(Signal::NetdevTx, port, 1e6);
        }
    };
    let falls = |tcp: f64| {
        watch_on(&fabric(), Thresholds::default(), calm, [90, 40, 0], move |fabric, frame| {
            for port in &fabric.jobs[1].ports {
                frame.set(Signal::RdmaTx, *port, 0.0);
                frame.set(Signal::NetdevTx, *port, tcp);
            }
        })
    };
    let found = only(falls(0.2 * USUAL));
    assert_eq!((found.kind, found.root), (IncidentKind::TcpFallback, Location::Job { job: "odd".into() }));
    assert_eq!(falls(1e6).len(), 0, "it computes, or is over");
    let never = |fabric: &Fabric, frame: &mut Frame| {
        for port in fabric.host_ports() {
            frame.set(Signal::RdmaTx, port, 0.0);
            frame.set(Signal::NetdevTx, port, 0.2 * RATE);
        }
    };
    let all = watch_on(&fabric(), Thresholds::default(), never, [90, 0, 0], |_, _| ());
    assert!(all.iter().all(|i| i.kind == IncidentKind::TcpFallback) && !all.is_empty(), "{all:?}");
}

#[test]
fn thresholds_can_be_overridden() {
    let mut strict = Thresholds::default();
    strict.set("host_pause.held", 0.6).unwrap();
    let held = |limits: Thresholds| {
        watch_on(
            &fabric(),
            limits,
            |_, _| (),
            [60, 20, 0],
            |fabric, frame| {
                frame.set(Signal::PauseTx, host(fabric, 3), 0.5);
                frame.set(Signal::PauseRx, egress(fabric, 3), f64::NAN);
                frame.set(Signal::PauseFrames, host(fabric, 3), 12_000.0);
            },
        )
    };
    assert_eq!(only(held(Thresholds::default())).evidence[0].threshold, 0.01);
    assert_eq!(held(strict).len(), 0);
}
