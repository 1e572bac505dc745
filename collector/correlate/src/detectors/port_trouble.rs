//! What the counters of single ports show that may keep their host from the network.

use crate::baseline::window::Window;
use crate::detectors::hold_signal::{CREDITS, PAUSED};
use crate::detectors::thresholds::Thresholds;
use crate::model::frame::Frame;
use crate::model::signal::Signal;

/// Signals of lost packets, each with what a port does that shows it.
const LOSSES: [(Signal, &str); 4] = [
    (Signal::Timeouts, "waited for acknowledgements in vain"),
    (Signal::Retransmits, "sent packets again"),
    (Signal::RetriesExceeded, "had queue pairs that gave up"),
    (Signal::Discards, "discarded packets"),
];
/// Signals of which one has samples where a port is measured.
const MEASURED: [Signal; 3] = [Signal::Tx, Signal::Rx, Signal::Up];

/// What the counters of a host's ports show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortTrouble {
    /// No port has samples.
    Unknown,
    /// Nothing that keeps it from the network.
    None,
    /// A port, and what it did.
    At(usize, &'static str),
}

/// What the counters of these ports show in known frames from an instant on, Unix nanoseconds.
pub(super) fn port_trouble(history: &Window, limits: &Thresholds, ports: &[usize], since_ns: i64) -> PortTrouble {
    let frames = history.frames();
    let frames = &frames[frames.partition_point(|frame| frame.time_ns < since_ns)..];
    let at = |frame: &Frame| ports.iter().find_map(|port| Some((*port, trouble(limits, frame, *port)?)));
    if let Some((port, what)) = frames.iter().find_map(|frame| at(frame)) {
        return PortTrouble::At(port, what);
    }
    let measured =
        |frame: &Frame| ports.iter().any(|port| MEASURED.iter().any(|signal| frame.get(*signal, *port).is_some()));
    if frames.iter().any(|frame| measured(frame)) { PortTrouble::None } else { PortTrouble::Unknown }
}

fn trouble(limits: &Thresholds, frame: &Frame, port: usize) -> Option<&'static str> {
    let at_least = |signal, least: f64| frame.get(signal, port).is_some_and(|value| value >= least);
    let lost = || LOSSES.iter().find(|(signal, _)| frame.get(*signal, port).is_some_and(|n| n > 0.0));
    if frame.get(Signal::Up, port) == Some(0.0) {
        Some("was down")
    } else if at_least(Signal::PauseRx, limits.get(&PAUSED)) {
        Some("was paused")
    } else if at_least(Signal::PauseTx, limits.get(&PAUSED)) {
        Some("paused its switch")
    } else if at_least(Signal::XmitWait, limits.get(&CREDITS)) {
        Some("waited for credits")
    } else {
        lost().map(|(_, what)| *what)
    }
}
