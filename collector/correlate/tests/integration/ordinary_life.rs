//! What happens each day and is no incident, beside the fault that looks like it.

use crate::common::{RATE, USUAL, egress, fabric, host, moves, only, watch, watch_on, watched_each};
use fabriclens_correlate::{Fabric, Frame, IncidentKind, Severity, Signal, Thresholds};

/// A NIC pauses its switch for a share of the time.
fn pauses(fabric: &Fabric, frame: &mut Frame, share: f64) {
    frame.set(Signal::PauseTx, host(fabric, 3), share);
    frame.set(Signal::PauseRx, egress(fabric, 3), share);
    frame.set(Signal::PauseFrames, host(fabric, 3), share * 24_000.0);
}

#[test]
fn hiccup_of_a_nic_is_no_slow_receiver() {
    let kinds = |seconds, share| -> Vec<IncidentKind> {
        watch(80, seconds, 40, |fabric, frame| pauses(fabric, frame, share)).iter().map(|i| i.kind).collect()
    };
    assert_eq!(kinds(5, 0.03), [], "translation misses");
    assert_eq!(kinds(1, 0.3), []);
    assert_eq!(kinds(40, 0.02), [IncidentKind::SlowReceiver], "it does not end");
    assert_eq!(kinds(10, 0.1), [IncidentKind::SlowReceiver]);
    assert_eq!(kinds(3, 0.5), [IncidentKind::SlowReceiver]);
}

/// Of samples of ten seconds, one says how long a NIC paused, and that it was no hiccup.
#[test]
fn one_long_sample_is_enough_if_the_pause_is_long() {
    let found = |share| {
        let fault = move |fabric: &Fabric, frame: &mut Frame| pauses(fabric, frame, share);
        let found = watched_each(10, &fabric(), Thresholds::default(), |_, _| (), [12, 1, 0], fault).0;
        found.iter().any(|incident| incident.kind == IncidentKind::SlowReceiver)
    };
    assert_eq!((found(0.03), found(0.06), found(0.3)), (false, false, true), "0.3, 0.6 and 3 s");
}

/// A long sample proves the pause that an incast makes; what only compares waits for the next one.
#[test]
fn comparisons_need_two_long_samples() {
    let pages = |samples, fault: fn(&Fabric, &mut Frame)| {
        let found = watched_each(10, &fabric(), Thresholds::default(), |_, _| (), [12, samples, 0], fault).0;
        found.iter().any(|incident| incident.severity != Severity::Info)
    };
    assert!(pages(1, |fabric, frame| burst(fabric, frame, 0.3, 0.9)));
    assert_eq!((pages(1, unmarked), pages(2, unmarked)), (false, true));
}

/// Long queues of a switch that marks nothing.
fn unmarked(fabric: &Fabric, frame: &mut Frame) {
    for port in fabric.ports.of_node(9) {
        frame.set(Signal::Marks, *port, 0.0);
        frame.set(Signal::QueueMax, *port, 300_000.0);
    }
}

/// The receive buffer of a NIC fills, in which nothing is ever marked.
#[test]
fn a_host_that_drains_slowly_does_not_fail_to_mark() {
    let found = watch_on(
        &fabric(),
        Thresholds::default(),
        |_, _| (),
        [80, 40, 0],
        |fabric, frame| frame.set(Signal::QueueMax, host(fabric, 3), 300_000.0),
    );
    assert!(found.iter().all(|incident| incident.kind != IncidentKind::EcnMisconfigured), "{found:?}");
}

/// One switch has longer queues than those that others mark, and does not mark them.
#[test]
fn switch_that_never_marked_has_not_ceased_to() {
    let kinds = |unmarked_before: bool| -> Vec<IncidentKind> {
        let calm = move |fabric: &Fabric, frame: &mut Frame| {
            if unmarked_before {
                unmarked(fabric, frame);
            }
        };
        let found = watch_on(&fabric(), Thresholds::default(), calm, [80, 40, 0], unmarked);
        found.iter().map(|incident| incident.kind).collect()
    };
    assert_eq!(kinds(false), [IncidentKind::EcnMisconfigured], "it did mark");
    assert_eq!(kinds(true), []);
}

/// Hosts of a job are paused by their leaf, one of whose ports has a long queue.
fn burst(fabric: &Fabric, frame: &mut Frame, share: f64, load: f64) {
    for h in [4, 5, 6] {
        frame.set(Signal::PauseRx, host(fabric, h), share);
        frame.set(Signal::PauseTx, egress(fabric, h), share);
    }
    frame.set(Signal::Queue, egress(fabric, 7), 3e6);
    frame.set(Signal::QueueMax, egress(fabric, 7), 6e6);
    moves(frame, egress(fabric, 7), load * RATE);
}

#[test]
fn all_to_all_burst_is_no_congestion() {
    let found = |seconds, share, load| watch(80, seconds, 40, move |fabric, frame| burst(fabric, frame, share, load));
    assert_eq!(found(8, 0.03, 0.9).len(), 0, "a few percent for some seconds");
    assert_eq!(found(1, 0.12, 0.9).len(), 0, "more for a second");
    assert_eq!(only(found(40, 0.1, 0.9)).kind, IncidentKind::Incast);
    assert_ne!(only(found(40, 0.1, 0.2)).kind, IncidentKind::Incast, "that port has room: it is not the reason");
}

#[test]
fn longer_rest_of_a_job_is_no_congestion() {
    let found = |slow: bool, uneven: bool| {
        watch(0, 200, 0, move |fabric, frame| {
            let second = frame.time_ns / 1_000_000_000;
            let (late, phase) = (second >= 120, second % 10);
            // Stretches of uneven speed do not compare with each other, only their mean does.
            let usual = if uneven && second / 10 % 2 == 1 { 0.5 * USUAL } else { USUAL };
            // It sends for five seconds of ten; then it computes for longer, or sends at half the rate.
            let rate = match (late, slow) {
                (true, true) => usual / 2.0,
                (true, false) if phase >= 3 => 0.0,
                _ if phase >= 5 => 0.0,
                _ => usual,
            };
            fabric.jobs[0].ports.iter().for_each(|port| moves(frame, *port, rate));
            if late {
                fabric.jobs[0].ports.iter().for_each(|port| frame.set(Signal::EcnRx, *port, 300.0));
            }
        })
        .len()
    };
    assert_eq!((found(false, false), found(true, false)), (0, 1));
    assert_eq!((found(false, true), found(true, true)), (0, 1));
}

#[test]
fn new_traffic_is_no_collision() {
    let collisions = |change: fn(&Fabric, &mut Frame)| {
        let found = watch(80, 60, 0, move |fabric, frame| {
            let leaf = fabric.ports.of_node(9);
            frame.set(Signal::Tx, leaf[4], 0.1 * USUAL);
            frame.set(Signal::Tx, leaf[5], 1.9 * USUAL);
            fabric.jobs[1].ports.iter().for_each(|port| moves(frame, *port, 0.7 * USUAL));
            change(fabric, frame);
        });
        found.iter().filter(|i| i.kind == IncidentKind::EcmpCollision).count()
    };
    assert_eq!(collisions(|_, _| ()), 1, "the same traffic takes another uplink");
    let room = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Tx, fabric.ports.of_node(9)[5], 1.7 * USUAL);
    assert_eq!(collisions(room), 0, "the uplink has room for more");
    let marks = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::Tx, fabric.ports.of_node(9)[5], 1.7 * USUAL);
        frame.set(Signal::Marks, fabric.ports.of_node(9)[5], 5_000.0);
    };
    assert_eq!(collisions(marks), 1, "bursts fill it");
    let begins = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Tx, host(fabric, 4), 1.9 * USUAL);
    assert_eq!(collisions(begins), 0, "a host of the leaf sends as much more as the uplink");
    let converges = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Rx, host(fabric, 1), 1.3 * USUAL);
    assert_eq!(collisions(converges), 0, "the job sends to one of its hosts");
    let waits = |fabric: &Fabric, frame: &mut Frame| {
        for port in &fabric.jobs[1].ports {
            frame.set(Signal::EcnRx, *port, 60.0);
            frame.set(Signal::CnpRx, *port, 6.0);
        }
    };
    assert_eq!(collisions(waits), 0, "the job waits for its own slow rank, and meets less congestion");
}
