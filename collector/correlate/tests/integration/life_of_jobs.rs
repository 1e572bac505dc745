//! What jobs do by themselves is no incident: they begin, evaluate, save, and use one rail more than another.

use crate::common::{ETHERNET, RATE, USUAL, egress, fabric, host, moves, rails, watch_on, watched_each};
use crate::infiniband::{infiniband, waits, watch};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, Signal, Thresholds};

fn count(found: &[Incident], kind: IncidentKind) -> usize {
    found.iter().filter(|incident| incident.kind == kind).count()
}

/// Job `even` rests from the 100th second to the 200th, then moves a multiple of what it did at first, while job `odd` loses
/// and all are notified.
fn goes_on(times: f64, began_s: i64) -> usize {
    let mut fabric = fabric();
    fabric.jobs[0].since_ns = began_s * 1_000_000_000;
    let change = move |fabric: &Fabric, frame: &mut Frame| {
        let (at, own) = (frame.time_ns / 1_000_000_000, &fabric.jobs[0].ports);
        let part = if (100..200).contains(&at) {
            0.3
        } else if at < 100 {
            1.0
        } else {
            times
        };
        own.iter().for_each(|port| moves(frame, *port, part * USUAL));
        if at >= 200 {
            fabric.jobs[1].ports.iter().for_each(|port| moves(frame, *port, 0.6 * USUAL));
            fabric.host_ports().for_each(|port| frame.set(Signal::CnpRx, port, 100.0));
        }
    };
    let found = watch_on(&fabric, Thresholds::default(), change, [200, 60, 0], |_, _| ());
    count(&found, IncidentKind::NoisyNeighbour)
}

#[test]
fn a_job_that_goes_on_after_a_long_rest_is_no_noisy_neighbor() {
    assert_eq!(goes_on(2.2, i64::MIN / 1_000_000_000), 1, "it never moved so much");
    assert_eq!(goes_on(1.0, i64::MIN / 1_000_000_000), 0, "it moved as much before its rest");
}

#[test]
fn a_job_that_just_began_is_no_noisy_neighbor() {
    assert_eq!(goes_on(2.2, 60), 1, "it has run for more than two minutes");
    assert_eq!(goes_on(2.2, 150), 0, "it has loaded its data until now");
}

/// Hosts of a job move less over their second rail.
fn lagging(hosts: usize) -> usize {
    let found = watch_on(
        &rails(),
        Thresholds::default(),
        |_, _| (),
        [90, 40, 0],
        move |fabric, frame| {
            for h in 0..4 {
                let [first, second] = [0, 1].map(|rail| fabric.ports.of_node(h)[rail]);
                moves(frame, first, 0.6 * USUAL);
                moves(frame, second, if h < hosts { 0.1 } else { 0.6 } * USUAL);
            }
        },
    );
    count(&found, IncidentKind::StragglerRail)
}

#[test]
fn a_job_that_uses_one_rail_for_a_while_has_no_straggler() {
    assert_eq!((lagging(1), lagging(4)), (1, 0));
}

/// The second rail of a host sends at a constant rate while the others send in bursts, and `more` is moved over the first rails.
fn constant(more: f64) -> usize {
    let calm = |fabric: &Fabric, frame: &mut Frame| infiniband(0.001)(fabric, frame);
    let found = watch_on(&rails(), Thresholds::default(), calm, [70, 60, 0], move |fabric, frame| {
        let burst = if (frame.time_ns / 1_000_000_000) % 2 == 0 { 1.0 } else { 0.0 };
        for h in 0..4 {
            let [first, second] = [0, 1].map(|rail| fabric.ports.of_node(h)[rail]);
            moves(frame, first, (burst + more) * USUAL);
            moves(frame, second, burst * USUAL);
        }
        frame.set(Signal::Tx, fabric.ports.of_node(2)[1], 0.5 * USUAL);
    });
    count(&found, IncidentKind::StragglerRail)
}

#[test]
fn a_rail_that_saves_a_checkpoint_makes_no_straggler_of_its_sibling() {
    assert_eq!((constant(0.0), constant(0.4)), (1, 0));
}

/// A switch port to host 6 is full in bursts; other hosts of its job receive so many times what they did.
fn receives(others: f64) -> usize {
    let found = watch(0.0, move |fabric, frame| {
        for h in [0, 2, 4] {
            frame.set(Signal::Rx, host(fabric, h), others * USUAL);
        }
        frame.set(Signal::Rx, host(fabric, 6), 0.6 * RATE);
        frame.set(Signal::Tx, egress(fabric, 6), 0.6 * RATE);
        waits(frame, fabric.ports.of_node(10)[1], 0.3);
        waits(frame, host(fabric, 0), 0.3);
    });
    count(&found, IncidentKind::Incast)
}

#[test]
fn a_job_that_is_faster_overloads_none_of_its_hosts() {
    assert_eq!((receives(1.0), receives(1.8)), (1, 0));
}

/// Switches pause hosts and no marked packet arrives, while hosts move this part of what they did; before, marked packets
/// arrived in so many of ten seconds.
fn unmarked(of_ten: i64, moved: f64) -> usize {
    let calm = move |fabric: &Fabric, frame: &mut Frame| {
        for port in fabric.switch_ports() {
            ETHERNET.iter().chain(&[Signal::Tx, Signal::Rx]).for_each(|signal| frame.set(*signal, port, f64::NAN));
        }
        let marks = if (frame.time_ns / 1_000_000_000) % 10 < of_ten { 300.0 } else { 0.0 };
        fabric.host_ports().for_each(|port| frame.set(Signal::EcnRx, port, marks));
    };
    let found = watched_each(1, &fabric(), Thresholds::default(), calm, [90, 8, 0], |fabric, frame| {
        for port in fabric.host_ports() {
            moves(frame, port, moved * USUAL);
            frame.set(Signal::PauseRx, port, 0.1);
            frame.set(Signal::EcnRx, port, 0.0);
        }
    });
    count(&found.0, IncidentKind::EcnMisconfigured)
}

#[test]
fn marks_that_came_now_and_then_have_not_ceased() {
    assert_eq!((unmarked(10, 1.0), unmarked(2, 1.0)), (1, 0));
}

#[test]
fn jobs_that_compute_mark_nothing() {
    assert_eq!((unmarked(10, 0.7), unmarked(10, 0.2)), (1, 0));
}
