//! Whose counters cannot be right is told.

use crate::common::{RATE, USUAL, egress, fabric, host, moves, watched};
use fabriclens_correlate::{Fabric, Frame, ImplausibleReason, Signal, Thresholds};

/// HostNames of what is wrong, at ports that are so; `fault` changes seconds 80 to 120 of so many.
fn doubts(seconds: usize, fault: impl Fn(&Fabric, &mut Frame)) -> Vec<(usize, &'static str)> {
    doubts_at([80, 40, seconds - 120], fault)
}

/// The same, with so many seconds before it, of it and after it.
fn doubts_at(times: [usize; 3], fault: impl Fn(&Fabric, &mut Frame)) -> Vec<(usize, &'static str)> {
    let watch = watched(&fabric(), Thresholds::default(), |_, _| (), times, fault).1;
    watch.implausible().map(|(port, reason)| (port, reason.name())).collect()
}

#[test]
fn counters_that_may_be_right_are_not_in_doubt() {
    assert_eq!(doubts(300, |_, _| ()), []);
    // A whole job that rests, a port that is kept from sending, a pause that both ends tell of.
    let rests = |fabric: &Fabric, frame: &mut Frame| {
        fabric.jobs[0].ports.iter().for_each(|port| moves(frame, *port, 0.0));
    };
    assert_eq!(doubts(120, rests), []);
    let kept = |fabric: &Fabric, frame: &mut Frame| {
        moves(frame, host(fabric, 4), 0.0);
        frame.set(Signal::PauseRx, host(fabric, 4), 1.0);
    };
    assert_eq!(doubts(120, kept), []);
    let agree = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::PauseTx, host(fabric, 3), 0.5);
        frame.set(Signal::PauseRx, egress(fabric, 3), 0.4);
    };
    assert_eq!(doubts(120, agree), []);
    // Where no switch is read nobody says otherwise.
    let alone = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::PauseTx, host(fabric, 3), 0.5);
        frame.set(Signal::PauseRx, egress(fabric, 3), f64::NAN);
    };
    assert_eq!(doubts(120, alone), []);
}

#[test]
fn a_port_that_stands_still_alone_is_in_doubt_until_it_has_moved_for_minutes() {
    let stuck = |fabric: &Fabric, frame: &mut Frame| moves(frame, host(fabric, 4), 0.0);
    let told = [(host(&fabric(), 4), ImplausibleReason::StandsStill.name())];
    assert_eq!(doubts(120, stuck), told);
    assert_eq!(doubts(400, stuck), told, "what comes and goes is told once");
    assert_eq!(doubts(450, stuck), []);
    assert_eq!(doubts_at([80, 500, 0], stuck), told, "that it stands still is usual by then");
    // A port that rests now and then.
    let rests = |fabric: &Fabric, frame: &mut Frame| {
        if frame.time_ns / 1_000_000_000 % 50 >= 25 {
            moves(frame, host(fabric, 4), 0.0);
        }
    };
    assert_eq!(doubts_at([0, 550, 0], rests), []);
}

#[test]
fn a_port_that_moves_more_than_its_link_carries_is_in_doubt() {
    let leaps = |times: f64| move |fabric: &Fabric, frame: &mut Frame| moves(frame, host(fabric, 4), times * RATE);
    assert_eq!(doubts(120, leaps(2.1)), [(host(&fabric(), 4), ImplausibleReason::Leaps.name())]);
    assert_eq!(doubts(120, leaps(1.9)), []);
}

#[test]
fn ends_of_a_cable_that_say_different_of_pause_are_in_doubt() {
    let pause = |says: f64, felt: f64, moved: f64| {
        doubts(120, move |fabric, frame| {
            frame.set(Signal::PauseTx, host(fabric, 3), says);
            frame.set(Signal::PauseRx, egress(fabric, 3), felt);
            moves(frame, host(fabric, 3), moved);
        })
    };
    let nic = host(&fabric(), 3);
    assert_eq!(pause(0.99, 0.0, USUAL), [(nic, ImplausibleReason::PauseNotFelt.name())]);
    assert_eq!(pause(0.0, 0.5, USUAL), [(nic, ImplausibleReason::PauseNotCounted.name())]);
    assert_eq!(pause(0.009, 0.0, USUAL), [], "a hiccup");
}
