//! Ports with implausible counters are listed.

use crate::common::{RATE, USUAL, egress, fabric, host, moves, watched};
use fabriclens_correlate::{Fabric, Frame, ImplausibleReason, Signal, Thresholds};

/// Ports and reasons; `fault` changes seconds 80 to 120.
fn doubts(seconds: usize, fault: impl Fn(&Fabric, &mut Frame)) -> Vec<(usize, &'static str)> {
    doubts_at([80, 40, seconds - 120], fault)
}

/// The same, with given seconds before, during and after the fault.
fn doubts_at(times: [usize; 3], fault: impl Fn(&Fabric, &mut Frame)) -> Vec<(usize, &'static str)> {
    let watch = watched(&fabric(), Thresholds::default(), |_, _| (), times, fault).1;
    watch.implausible().map(|(port, reason)| (port, reason.name())).collect()
}

#[test]
fn plausible_counters_are_not_listed() {
    assert_eq!(doubts(300, |_, _| ()), []);
    // A job that rests as a whole, a port that is paused, a pause that both ends count.
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
    // Without switch counters nothing contradicts the NIC.
    let alone = |fabric: &Fabric, frame: &mut Frame| {
        frame.set(Signal::PauseTx, host(fabric, 3), 0.5);
        frame.set(Signal::PauseRx, egress(fabric, 3), f64::NAN);
    };
    assert_eq!(doubts(120, alone), []);
}

#[test]
fn stalled_port_is_listed_until_it_recovers() {
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
fn rate_above_line_rate_is_listed() {
    let leaps = |times: f64| move |fabric: &Fabric, frame: &mut Frame| moves(frame, host(fabric, 4), times * RATE);
    assert_eq!(doubts(120, leaps(2.1)), [(host(&fabric(), 4), ImplausibleReason::Leaps.name())]);
    assert_eq!(doubts(120, leaps(1.9)), []);
}

#[test]
fn contradicting_pause_counters_are_listed() {
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
