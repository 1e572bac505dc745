//! The counter that shows that a port is kept from sending: pause on Ethernet, missing credits on InfiniBand.

use crate::baseline::window::Window;
use crate::detectors::thresholds::{Threshold, thresholds};
use crate::model::signal::Signal;

thresholds! {
    /// share of time paused from which a port takes part in the wait graph
    PAUSED = "wait.paused", 0.01, "share of time";
    /// the same on InfiniBand: unable to send (ports that lose arbitration count a little too)
    CREDITS = "wait.credits", 0.05, "share of line rate";
}

/// The counter that shows that a port is held back, and its threshold.
pub fn hold_signal(now: &Window, port: usize) -> Option<(Signal, &'static Threshold)> {
    let rows = [(Signal::PauseRx, &PAUSED), (Signal::XmitWait, &CREDITS)];
    rows.into_iter().find(|(signal, _)| now.mean(*signal, port).is_some())
}
