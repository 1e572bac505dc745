//! Verdicts on a fabric whose traffic is known.

use crate::common::{RATE, USUAL, egress, fabric, host, link, moves, only, watch, watch_on};
use fabriclens_correlate::{Fabric, Frame, IncidentKind, Signal, Thresholds};
use fabriclens_correlate::{Location, Severity};

fn port(node: &str) -> Location {
    Location::Port { node: node.into(), port: "1".into() }
}

#[test]
fn a_healthy_fabric_yields_nothing() {
    assert_eq!(watch(300, 0, 0, |_, _| ()).len(), 0);
}

/// A NIC holds its switch half of the time: what it gets falls to a half, and so does all of its job.
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
fn a_nic_that_pauses_with_a_full_buffer_does_not_drain() {
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
fn a_job_that_was_low_before_is_no_victim_unless_it_loses_more() {
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
}

#[test]
fn a_nic_that_pauses_with_an_empty_buffer_is_a_storm() {
    // 335.5 us each: the longest pause that a frame can ask for at 100 Gb/s.
    let frames = 0.5 / 335.5e-6;
    let with = only(watch(80, 40, 0, |fabric, frame| held(frame, fabric, 3, 0.5, frames, Some(0.0))));
    assert_eq!((with.kind, with.root), (IncidentKind::PfcStorm, port("h3")));
    let without = only(watch(80, 40, 0, |fabric, frame| held(frame, fabric, 3, 0.5, frames, None)));
    assert_eq!(without.kind, IncidentKind::PfcStorm, "no NIC tells its buffer; what a frame comes to must do");
    assert!(without.confidence < with.confidence);
}

#[test]
fn a_full_buffer_is_no_storm_however_long_its_pauses_are() {
    let found = only(watch(80, 40, 0, |fabric, frame| held(frame, fabric, 3, 0.5, 0.5 / 335.5e-6, Some(3e5))));
    assert_eq!(found.kind, IncidentKind::SlowReceiver);
}

#[test]
fn what_was_trouble_does_not_become_usual() {
    // Long enough to fill what is remembered; then calm for hardly longer than an incident takes to be over.
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
fn a_link_that_says_that_it_is_slow_and_one_that_does_not() {
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
fn what_waits_for_a_fast_link_must_be_more() {
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
fn a_full_link_is_not_slow() {
    let found = watch(80, 40, 0, |fabric, frame| {
        let uplink = fabric.ports.of_node(8)[4];
        frame.set(Signal::Tx, uplink, 0.98 * RATE);
        frame.set(Signal::Queue, uplink, 4e5);
        frame.set(Signal::Marks, uplink, 1e5);
    });
    assert!(found.iter().all(|i| i.kind != IncidentKind::DegradedLink), "{found:?}");
}

#[test]
fn errors_of_the_wire_name_the_link() {
    let found = only(watch(80, 40, 0, |fabric, frame| frame.set(Signal::WireErrors, fabric.ports.of_node(10)[0], 3.0)));
    let link = link("leaf0", "spine0");
    assert_eq!((found.kind, found.root, found.victim_jobs.len()), (IncidentKind::LossyLink, link, 0));
    assert_eq!(found.severity, Severity::Warning, "nobody suffers");
}

/// Hosts of job `odd` send to h5 more than it can take; the switch pauses them.
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
    // What leaf0 sends to leaf1 waits for leaf1.
    for port in [fabric.ports.of_node(8)[4], fabric.ports.of_node(10)[1]] {
        frame.set(Signal::PauseRx, port, 0.2);
        frame.set(Signal::PauseTx, fabric.ports.list[port].peer.unwrap(), 0.2);
    }
}

#[test]
fn many_that_send_to_one_are_an_incast_of_their_job() {
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
fn pause_without_marks_is_a_switch_that_does_not_mark() {
    let found = only(watch(80, 40, 0, |fabric, frame| {
        incast(fabric, frame, 0.0);
        fabric.ports.of_node(9).iter().for_each(|port| frame.set(Signal::Marks, *port, 0.0));
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::EcnMisconfigured, Location::Switch { node: "leaf1".into() }));
}

#[test]
fn a_receiver_that_tells_nobody_is_found() {
    let found = only(watch(80, 40, 0, |fabric, frame| {
        frame.set(Signal::EcnRx, host(fabric, 2), 5_000.0);
        frame.set(Signal::CnpTx, host(fabric, 2), 0.0);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::EcnMisconfigured, port("h2")));
}

#[test]
fn senders_that_do_not_slow_down_are_found_by_the_users_numbers() {
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
    // What it sends is as much as before, and more than the least that counts.
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
fn without_any_job_the_place_is_named_all_the_same_and_nobody_accused() {
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
fn two_jobs_on_one_uplink_beside_an_idle_one_collide() {
    let found = only(watch(80, 60, 0, |fabric, frame| {
        let leaf = fabric.ports.of_node(8);
        frame.set(Signal::Tx, leaf[4], 1.7 * USUAL);
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
fn a_job_that_takes_far_more_while_others_lose_is_noisy() {
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
fn a_nic_that_does_not_count_its_pause_is_told_by_its_switch() {
    let found = only(watch(80, 40, 0, |fabric, frame| {
        held(frame, fabric, 3, 0.5, 0.0, Some(3e5));
        frame.set(Signal::PauseTx, host(fabric, 3), 0.0);
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::SlowReceiver, port("h3")));
    assert!(found.evidence.iter().any(|e| e.at.starts_with("leaf0")), "{:?}", found.evidence);
}

#[test]
fn an_agent_that_is_wrong_accuses_nobody() {
    // Its NIC pauses all the time, says one agent. Its switch felt nothing of it, and sends on.
    let says = |frame: &mut Frame, nic| {
        frame.set(Signal::PauseTx, nic, 0.99);
        frame.set(Signal::PauseFrames, nic, 500.0);
    };
    assert_eq!(watch(80, 40, 30, |fabric, frame| says(frame, host(fabric, 3))).len(), 0);
    // Without a word of its switch it is believed, and where another port is its switch's: a cable was moved.
    let believed = |calm: fn(&mut Frame, usize)| {
        let calm = move |fabric: &Fabric, frame: &mut Frame| calm(frame, egress(fabric, 3));
        let found =
            watch_on(&fabric(), Thresholds::default(), calm, [80, 40, 0], |fabric, frame| says(frame, host(fabric, 3)));
        assert_eq!(only(found).root, port("h3"));
    };
    believed(|frame, switch| frame.set(Signal::PauseRx, switch, f64::NAN));
    believed(|frame, switch| frame.set(Signal::Tx, switch, USUAL / 2.0));
    // Nor does what that other port feels count.
    let moved = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Tx, egress(fabric, 3), USUAL / 2.0);
    let found = watch_on(&fabric(), Thresholds::default(), moved, [80, 40, 0], |fabric, frame| {
        frame.set(Signal::PauseRx, egress(fabric, 3), 0.9);
    });
    assert!(found.iter().all(|i| i.root != port("h3")), "{found:?}");
}

#[test]
fn a_host_that_stands_still_alone_makes_its_job_no_victim() {
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
fn a_host_whose_counters_leap_makes_its_job_not_noisy() {
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
