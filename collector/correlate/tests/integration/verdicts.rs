//! Detectors on a small fabric whose traffic the test decides.

use crate::common::{RATE, USUAL, egress, fabric, host, link, moves, only, watch, watch_on};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, Signal, Thresholds};
use fabriclens_correlate::{Location, Severity};

fn port(node: &str) -> Location {
    Location::Port { node: node.into(), port: "1".into() }
}

#[test]
fn healthy_fabric_has_no_incidents() {
    assert_eq!(watch(300, 0, 0, |_, _| ()).len(), 0);
}

/// A NIC pauses its switch half of the time: its traffic halves, and so does that of its job.
fn held(frame: &mut Frame, fabric: &Fabric, h: usize, share: f64, frames: f64, buffer: Option<f64>) {
    let (nic, switch) = (host(fabric, h), egress(fabric, h));
    frame.set(Signal::PauseTx, nic, share);
    frame.set(Signal::PauseFrames, nic, frames);
    frame.set(Signal::PauseRx, switch, share);
    if let Some(bytes) = buffer {
        frame.set(Signal::QueueMax, nic, bytes);
    }
    for port in &fabric.jobs[h % 2].ports {
        moves(frame, *port, USUAL * (1.0 - share));
    }
}

#[test]
fn full_buffer_is_a_slow_receiver() {
    let found = only(watch(80, 40, 30, |fabric, frame| held(frame, fabric, 3, 0.5, 12_000.0, Some(3e5))));
    assert_eq!((found.kind, found.root.clone()), (IncidentKind::SlowReceiver, port("h3")));
    assert_eq!((found.victim_jobs, found.severity), (vec!["odd".to_owned()], Severity::Critical));
    assert_eq!(found.culprit_jobs, [""; 0], "a device is at fault, no job");
    assert_eq!(found.start_ns, 80_000_000_000);
    assert!(found.detected_ns <= 82_000_000_000, "{}", found.detected_ns);
    let end = found.end_ns.unwrap();
    assert!((119_000_000_000..125_000_000_000).contains(&end), "{end}");
}

#[test]
fn low_job_is_no_victim_unless_it_loses_more() {
    let then = |before: f64, after: f64| {
        let found = only(watch(80, 80, 0, |fabric, frame| {
            let late = frame.time_ns >= 100_000_000_000;
            for port in &fabric.jobs[0].ports {
                let rate = USUAL * if late { after } else { before };
                moves(frame, *port, rate);
            }
            if late {
                held(frame, fabric, 3, 0.5, 12_000.0, Some(3e5));
            }
        }));
        assert_eq!((found.kind, found.start_ns), (IncidentKind::SlowReceiver, 100_000_000_000));
        found.victim_jobs
    };
    assert_eq!(then(0.6, 0.6), ["odd"]);
    assert_eq!(then(0.6, 0.3), ["even", "odd"]);
    assert_eq!(then(0.6, 0.8), ["odd"], "it recovers");
    assert_eq!(then(0.0, 0.0), ["odd"], "it stood still");
    assert_eq!(then(0.0, 0.5), ["even", "odd"], "it went on, but more slowly than before it stood still");
    assert_eq!(then(0.0, 1.0), ["odd"], "it went on as before");
}

#[test]
fn empty_buffer_is_a_storm() {
    // 335.5 us each: the longest pause that a frame can ask for at 100 Gb/s.
    let frames = 0.5 / 335.5e-6;
    let with = only(watch(80, 40, 0, |fabric, frame| held(frame, fabric, 3, 0.5, frames, Some(0.0))));
    assert_eq!((with.kind, with.root), (IncidentKind::PfcStorm, port("h3")));
    let without = only(watch(80, 40, 0, |fabric, frame| held(frame, fabric, 3, 0.5, frames, None)));
    assert_eq!(without.kind, IncidentKind::PfcStorm, "no NIC tells its buffer; what a frame comes to must do");
    assert!(without.confidence < with.confidence);
}

#[test]
fn watchdog_that_discards_does_not_end_a_storm() {
    // After ten seconds the switch no longer obeys, and discards what is for the NIC; others miss those packets.
    let storm = |discards: f64, share: f64| {
        watch(80, 60, 0, move |fabric, frame| {
            let obeys = frame.time_ns < 90_000_000_000;
            held(frame, fabric, 3, share, 373.0, Some(0.0));
            frame.set(Signal::Discards, egress(fabric, 3), if obeys { 0.0 } else { discards });
            if !obeys {
                frame.set(Signal::PauseRx, egress(fabric, 3), 0.0);
                frame.set(Signal::Timeouts, host(fabric, 5), 10.0);
                frame.set(Signal::Retransmits, host(fabric, 5), 1e4);
            }
        })
    };
    let found = only(storm(500.0, 1.0));
    assert_eq!((found.kind, &found.root), (IncidentKind::PfcStorm, &port("h3")));
    assert!(found.evidence.iter().any(|e| e.metric == "fabric_port_discards_total"), "{:?}", found.evidence);
    assert!(found.end_ns.is_none());
    let ended = |found: Vec<Incident>| found.iter().any(|i| i.root == port("h3") && i.end_ns.is_some());
    assert!(ended(storm(0.0, 1.0)), "the switch is not paused: the NIC's counter is wrong");
    assert!(ended(storm(500.0, 0.5)), "no watchdog acts on a port that may send in between");
}

#[test]
fn full_buffer_is_never_a_storm() {
    let found = only(watch(80, 40, 0, |fabric, frame| held(frame, fabric, 3, 0.5, 0.5 / 335.5e-6, Some(3e5))));
    assert_eq!(found.kind, IncidentKind::SlowReceiver);
}

#[test]
fn incident_does_not_join_the_baseline() {
    // Long enough to fill the history; then calm for little longer than an incident takes to end.
    let gap = 200_000_000_000..224_000_000_000;
    let found = watch(80, 160, 30, |fabric, frame| {
        if !gap.contains(&frame.time_ns) {
            held(frame, fabric, 3, 0.5, 12_000.0, Some(3e5));
        }
    });
    let victims: Vec<&[String]> = found.iter().map(|i| &i.victim_jobs[..]).collect();
    assert_eq!(victims, [["odd"], ["odd"]], "the second loses as much as the first");
}

#[test]
fn slow_links_with_and_without_reported_rate() {
    let uplink = |fabric: &Fabric| fabric.ports.of_node(8)[4];
    let says = only(watch(80, 40, 0, |fabric, frame| frame.set(Signal::Rate, uplink(fabric), RATE / 4.0)));
    let link = link("leaf0", "spine0");
    assert_eq!((says.kind, &says.root, says.start_ns), (IncidentKind::DegradedLink, &link, 80_000_000_000));
    let shows = only(watch(80, 40, 0, |fabric, frame| {
        frame.set(Signal::Tx, uplink(fabric), RATE / 4.0);
        frame.set(Signal::Queue, uplink(fabric), 4e5);
        frame.set(Signal::Marks, uplink(fabric), 1e5);
    }));
    assert_eq!((shows.kind, shows.root), (IncidentKind::DegradedLink, link));
}

#[test]
fn fast_links_need_longer_queues() {
    let uplink = |fabric: &Fabric| fabric.ports.of_node(8)[4];
    let waits = |queue: f64| {
        let fast = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Rate, uplink(fabric), 4.0 * RATE);
        watch_on(&fabric(), Thresholds::default(), fast, [80, 40, 0], |fabric, frame| {
            frame.set(Signal::Tx, uplink(fabric), RATE);
            frame.set(Signal::Queue, uplink(fabric), queue);
        })
    };
    assert!(waits(2e5).iter().all(|i| i.kind != IncidentKind::DegradedLink), "4 µs of 400 Gb/s");
    assert_eq!(only(waits(8e5)).kind, IncidentKind::DegradedLink);
}

#[test]
fn full_link_is_not_degraded() {
    let found = watch(80, 40, 0, |fabric, frame| {
        let uplink = fabric.ports.of_node(8)[4];
        frame.set(Signal::Tx, uplink, 0.98 * RATE);
        frame.set(Signal::Queue, uplink, 4e5);
        frame.set(Signal::Marks, uplink, 1e5);
    });
    assert!(found.iter().all(|i| i.kind != IncidentKind::DegradedLink), "{found:?}");
}

/// Traffic in bursts leaves a queue at most instants, at any load; only a link that is the limit carries the same in each
/// sample.
#[test]
fn queues_of_uneven_traffic_are_no_slow_link() {
    let kinds = |load: fn(i64) -> f64| {
        let found = watch(80, 40, 0, |fabric, frame| {
            let uplink = fabric.ports.of_node(8)[4];
            frame.set(Signal::Tx, uplink, load(frame.time_ns / 1_000_000_000) * RATE);
            frame.set(Signal::Queue, uplink, 4e5);
            frame.set(Signal::Marks, uplink, 1e5);
        });
        found.iter().map(|i| i.kind).collect::<Vec<_>>()
    };
    assert!(kinds(|_| 0.55).contains(&IncidentKind::DegradedLink), "half a rate, each second");
    assert!(!kinds(|second| [0.5, 0.61, 0.54, 0.6][second as usize % 4]).contains(&IncidentKind::DegradedLink));
}

#[test]
fn wire_errors_name_the_link() {
    let found = only(watch(80, 40, 0, |fabric, frame| frame.set(Signal::WireErrors, fabric.ports.of_node(10)[0], 3.0)));
    let link = link("leaf0", "spine0");
    assert_eq!((found.kind, found.root, found.victim_jobs.len()), (IncidentKind::LossyLink, link, 0));
    assert_eq!(found.severity, Severity::Warning, "nobody suffers");
}

/// Hosts of job `odd` send more to h5 than it can take; the switch pauses them.
fn incast(fabric: &Fabric, frame: &mut Frame, marks: f64) {
    let full = egress(fabric, 5);
    frame.set(Signal::Tx, full, 0.99 * RATE);
    frame.set(Signal::Queue, full, 3e6);
    frame.set(Signal::QueueMax, full, 5e6);
    frame.set(Signal::Marks, full, marks);
    frame.set(Signal::Rx, host(fabric, 5), 0.99 * RATE);
    frame.set(Signal::RxPackets, host(fabric, 5), 0.99 * RATE / 4096.0);
    frame.set(Signal::EcnRx, host(fabric, 5), marks);
    for h in [1, 3, 7] {
        frame.set(Signal::PauseRx, host(fabric, h), 0.2);
        frame.set(Signal::PauseTx, egress(fabric, h), 0.2);
        frame.set(Signal::Tx, host(fabric, h), USUAL / 3.0);
        frame.set(Signal::CnpRx, host(fabric, h), marks / 100.0);
    }
    // Traffic from leaf0 to leaf1 waits for leaf1.
    for port in [fabric.ports.of_node(8)[4], fabric.ports.of_node(10)[1]] {
        frame.set(Signal::PauseRx, port, 0.2);
        frame.set(Signal::PauseTx, fabric.ports.list[port].peer.unwrap(), 0.2);
    }
}

#[test]
fn many_to_one_is_an_incast() {
    let found = only(watch(80, 40, 0, |fabric, frame| incast(fabric, frame, 2e6)));
    assert_eq!((found.kind, found.root), (IncidentKind::Incast, port("h5")));
    assert_eq!(found.culprit_jobs, ["odd"]);
    assert!(
        found.victim_jobs.is_empty(),
        "{:?}: the culprit is no victim, the other job lost nothing",
        found.victim_jobs
    );
}

#[test]
fn pause_without_marks_names_the_switch() {
    let found = only(watch(80, 40, 0, |fabric, frame| {
        incast(fabric, frame, 0.0);
        fabric.ports.of_node(9).iter().for_each(|port| frame.set(Signal::Marks, *port, 0.0));
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::EcnMisconfigured, Location::Switch { node: "leaf1".into() }));
}

#[test]
fn silent_receiver_is_found() {
    let found = only(watch(80, 40, 0, |fabric, frame| {
        frame.set(Signal::EcnRx, host(fabric, 2), 5_000.0);
        frame.set(Signal::CnpTx, host(fabric, 2), 0.0);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::EcnMisconfigured, port("h2")));
}

#[test]
fn deaf_senders_depend_on_thresholds() {
    let deaf = |limits: Thresholds| {
        let calm = |_: &Fabric, _: &mut Frame| ();
        watch_on(&fabric(), limits, calm, [80, 60, 0], |fabric, frame| {
            for h in [1, 3, 5, 7] {
                frame.set(Signal::CnpRx, host(fabric, h), 5_000.0);
                frame.set(Signal::PauseRx, host(fabric, h), 0.2);
            }
        })
    };
    let found = only(deaf(Thresholds::default()));
    assert_eq!(found.kind, IncidentKind::EcnMisconfigured);
    let told: Vec<&str> = found.evidence.iter().map(|e| e.metric.as_str()).collect();
    assert_eq!(told, ["fabric_cnp_packets_total", "fabric_port_io_bytes_total"]);
    // It sends as much as before, and more than the least that counts.
    assert!(found.evidence.iter().all(|e| e.value >= e.threshold), "{:?}", found.evidence);
    for (name, value) in [
        ("ecn_reaction.same", 1.5),
        ("ecn_reaction.sends", 0.5),
        ("ecn_reaction.ports", 5.0),
        ("ecn_reaction.job_least", 1.2),
        ("ecn_reaction.job_most", 0.95),
    ] {
        let mut limits = Thresholds::default();
        limits.set(name, value).unwrap();
        let kinds: Vec<IncidentKind> = deaf(limits).into_iter().map(|i| i.kind).collect();
        assert_eq!(kinds, [IncidentKind::FabricCongestion], "{name}");
    }
}

#[test]
fn without_jobs_there_are_no_culprits() {
    let mut nobody = fabric();
    nobody.jobs.clear();
    let nobody = Fabric::new(nobody.topology, nobody.ports, Vec::new());
    let run = |fault: &dyn Fn(&Fabric, &mut Frame)| {
        let found = only(watch_on(&nobody, Thresholds::default(), |_, _| (), [80, 30, 20], fault));
        assert_eq!((found.culprit_jobs.len(), found.victim_jobs.len()), (0, 0), "{found:?}");
        (found.kind, found.root)
    };
    let storm = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::PauseTx, host(fabric, 3), 0.6);
        frame.set(Signal::PauseFrames, host(fabric, 3), 1_800.0);
        frame.set(Signal::PauseRx, egress(fabric, 3), 0.6);
    };
    assert_eq!(run(&storm), (IncidentKind::PfcStorm, port("h3")));
    let many = |fabric: &Fabric, frame: &mut Frame| incast(fabric, frame, 100.0);
    assert_eq!(run(&many).0, IncidentKind::Incast);
    let errors = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::WireErrors, fabric.ports.of_node(10)[0], 3.0);
    assert_eq!(run(&errors).0, IncidentKind::LossyLink);
    assert_eq!(watch_on(&nobody, Thresholds::default(), |_, _| (), [80, 60, 0], |_, _| ()).len(), 0, "calm");
}

#[test]
fn shared_uplink_is_an_ecmp_collision() {
    let found = only(watch(80, 60, 0, |fabric, frame| {
        let leaf = fabric.ports.of_node(8);
        frame.set(Signal::Tx, leaf[4], 1.9 * USUAL);
        frame.set(Signal::Tx, leaf[5], 0.1 * USUAL);
        for port in &fabric.jobs[1].ports {
            moves(frame, *port, 0.7 * USUAL);
        }
    }));
    let link = link("leaf0", "spine0");
    assert_eq!((found.kind, found.root), (IncidentKind::EcmpCollision, link));
    assert_eq!(found.victim_jobs, ["odd"]);
}

#[test]
fn loud_job_is_a_noisy_neighbor() {
    let found = only(watch(80, 60, 0, |fabric, frame| {
        for (job, times) in [(0, 2.2), (1, 0.6)] {
            for port in &fabric.jobs[job].ports {
                moves(frame, *port, times * USUAL);
                frame.set(Signal::CnpRx, *port, 100.0);
            }
        }
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::NoisyNeighbour, Location::Job { job: "even".into() }));
    assert_eq!((found.culprit_jobs, found.victim_jobs), (vec!["even".to_owned()], vec!["odd".to_owned()]));
}

#[test]
fn uncounted_pause_shows_at_the_switch() {
    let found = only(watch(80, 40, 0, |fabric, frame| {
        held(frame, fabric, 3, 0.5, 0.0, Some(3e5));
        frame.set(Signal::PauseTx, host(fabric, 3), 0.0);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::SlowReceiver, port("h3")));
    assert!(found.evidence.iter().any(|e| e.at.starts_with("leaf0")), "{:?}", found.evidence);
}

#[test]
fn wrong_agent_causes_no_incident() {
    // The agent reports that its NIC pauses all the time. Its switch received no pause and sends on.
    let says = |frame: &mut Frame, nic| {
        frame.set(Signal::PauseTx, nic, 0.99);
        frame.set(Signal::PauseFrames, nic, 500.0);
    };
    assert_eq!(watch(80, 40, 30, |fabric, frame| says(frame, host(fabric, 3))).len(), 0);
    // Without its switch it is believed, and also if its switch has another port: the cable was moved.
    let believed = |calm: fn(&mut Frame, usize)| {
        let calm = move |fabric: &Fabric, frame: &mut Frame| calm(frame, egress(fabric, 3));
        let found =
            watch_on(&fabric(), Thresholds::default(), calm, [80, 40, 0], |fabric, frame| says(frame, host(fabric, 3)));
        assert_eq!(only(found).root, port("h3"));
    };
    believed(|frame, switch| frame.set(Signal::PauseRx, switch, f64::NAN));
    believed(|frame, switch| frame.set(Signal::Tx, switch, USUAL / 2.0));
    // Nor does the pause of that other port count.
    let moved = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Tx, egress(fabric, 3), USUAL / 2.0);
    let found = watch_on(&fabric(), Thresholds::default(), moved, [80, 40, 0], |fabric, frame| {
        frame.set(Signal::PauseRx, egress(fabric, 3), 0.9);
    });
    assert!(found.iter().all(|i| i.root != port("h3")), "{found:?}");
}

#[test]
fn stalled_host_makes_no_victim() {
    let beside = |paused: f64| {
        let found = only(watch(80, 40, 30, |fabric, frame| {
            held(frame, fabric, 3, 0.5, 12_000.0, Some(3e5));
            moves(frame, host(fabric, 4), 0.0);
            frame.set(Signal::PauseRx, host(fabric, 4), paused);
        }));
        found.victim_jobs
    };
    assert_eq!(beside(0.0), ["odd"], "the rest of its job goes on: its counters are stuck");
    assert_eq!(beside(1.0), ["even", "odd"], "it is kept from sending");
}

#[test]
fn counter_glitch_makes_no_noisy_job() {
    let moved = |leap: f64| {
        watch(80, 60, 0, |fabric, frame| {
            let times = |port: &usize| if *port == host(fabric, 4) { leap } else { 1.0 };
            for port in fabric.jobs[0].ports.iter().filter(|port| times(port) > 1.0) {
                moves(frame, *port, times(port) * USUAL);
            }
            for port in &fabric.jobs[1].ports {
                moves(frame, *port, 0.8 * USUAL);
                frame.set(Signal::CnpRx, *port, 100.0);
            }
        })
    };
    let kinds = |leap| moved(leap).iter().map(|i| i.kind).collect::<Vec<_>>();
    assert_eq!(kinds(6.0), [IncidentKind::NoisyNeighbour], "as much as two links carry");
    assert!(!kinds(7.0).contains(&IncidentKind::NoisyNeighbour), "more than any can");
}
