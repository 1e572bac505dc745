//! Backpressure: Ethernet ports are paused, in one priority or in all; InfiniBand ports run out of credits, which the
//! sender counts as waiting. `wait_graph` follows it to its cause.

use crate::detectors::context::DetectorContext;
use crate::detectors::hold_signal::{PAUSED, hold_signal};
use crate::detectors::thresholds::{Threshold, thresholds};
use crate::model::frame::Frame;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use std::sync::Arc;

thresholds! {
    /// share of the time in which a port does not send that its peer's backpressure must explain
    EXPLAINED = "wait.explained", 0.5, "share of idle time";
    /// share of a switch's longest queue: ports with shorter queues do not cause its backpressure
    PART = "wait.queue_part", 0.25, "share of bytes";
    /// load while others wait for the switch, from which a port counts as full
    FULL = "wait.full", 0.7, "share of rate";
    /// a port that was held back so much later than another does not cause the other's backpressure
    LATER = "wait.later", 2.0, "samples";
    /// share of time held back from which nothing moves any more in a wait cycle
    DEAD = "wait.dead", 0.9, "share of time";
}

/// Gaps of up to so many frames count as continuous.
const AGAIN: usize = 5;

/// The counter that shows that a port is held back: its port and threshold.
#[derive(Clone, Copy)]
pub struct HoldSignal {
    signal: Signal,
    at: usize,
    least: &'static Threshold,
}

/// When something began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Onset {
    /// Unix nanoseconds.
    pub at_ns: i64,
    /// Whether frames before it show the opposite; otherwise it may have begun earlier.
    pub observed: bool,
}

impl HoldSignal {
    /// Whether this port is kept from sending: paused, or without credits where pause is not measured.
    pub fn of(ctx: &DetectorContext<'_>, port: usize) -> Option<Self> {
        hold_signal(ctx.window, port).map(|(signal, least)| Self { signal, at: port, least })
    }

    /// Whether this port keeps its peer from sending, by its own counter or else by the peer's.
    pub fn of_peer(ctx: &DetectorContext<'_>, port: usize) -> Option<Self> {
        let own = ctx.mean(Signal::PauseTx, port).map(|_| Self { signal: Signal::PauseTx, at: port, least: &PAUSED });
        own.or_else(|| Self::of(ctx, ctx.fabric.ports.list[port].peer?))
    }

    /// Share of time in a priority, or in all if the driver does not count by priority.
    pub fn share(&self, ctx: &DetectorContext<'_>, priority: Option<usize>) -> f64 {
        ctx.mean_in_priority(self.signal, self.at, priority).unwrap_or(0.0)
    }

    /// Whether the share reaches the threshold.
    pub fn holds(&self, ctx: &DetectorContext<'_>, priority: Option<usize>) -> bool {
        self.share(ctx, priority) >= ctx.threshold(self.least)
    }

    /// Priorities in which the share reaches the threshold.
    pub fn priorities(&self, ctx: &DetectorContext<'_>) -> Priorities {
        ctx.priorities(self.signal, self.at, ctx.threshold(self.least))
    }

    /// When it began, in a priority.
    pub fn onset(&self, ctx: &DetectorContext<'_>, priority: Option<usize>) -> Option<Onset> {
        let least = ctx.threshold(self.least);
        Onset::of(ctx, |frame| Some(frame.in_priority(self.signal, self.at, priority)? >= least))
    }
}

impl Onset {
    /// When a condition began to hold; frames for which `so` returns `None` have no samples.
    pub fn of(ctx: &DetectorContext<'_>, so: impl Fn(&Frame) -> Option<bool>) -> Option<Self> {
        let (mut at_ns, mut not) = (None, 0);
        for frame in ctx.history.frames().iter().rev() {
            match so(frame) {
                Some(true) => (at_ns, not) = (Some(frame.time_ns), 0),
                Some(false) if at_ns.is_some() => not += 1,
                _ => {}
            }
            if not > AGAIN {
                break;
            }
        }
        Some(Self { at_ns: at_ns?, observed: not > 0 })
    }

    /// Whether it began too late to have caused something that began at `then_ns`.
    pub fn is_later(&self, ctx: &DetectorContext<'_>, then_ns: i64) -> bool {
        let later_ns = ctx.threshold(&LATER) * ctx.step_s * 1e9;
        self.observed && (self.at_ns - then_ns) as f64 >= later_ns
    }
}

/// Share of its line rate that a port sends.
pub fn load(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    Some(ctx.mean(Signal::Tx, port)? / ctx.line_rate(port)?)
}

/// How much the peers of a switch wait for it, by frame.
pub fn waited_for(ctx: &DetectorContext<'_>, node: usize) -> Vec<f64> {
    let list = &ctx.fabric.ports.list;
    let before = ctx.fabric.ports.of_node(node).iter().filter_map(|p| list[*p].peer);
    let before: Vec<usize> = before.filter(|p| is_held(ctx, *p)).collect();
    let wait = |frame: &Arc<Frame>| {
        let held = |p: &usize| frame.get(Signal::PauseRx, *p).or_else(|| frame.get(Signal::XmitWait, *p));
        before.iter().filter_map(held).sum()
    };
    ctx.window.frames().iter().map(wait).collect()
}

/// Share of its line rate that a port sends while others wait, weighted by [`waited_for`] its switch. The plain mean
/// hides ports that are full for moments only.
pub fn load_while(ctx: &DetectorContext<'_>, waits: &[f64], port: usize) -> Option<f64> {
    let rate = ctx.line_rate(port)?;
    let (mut sent, mut waited) = (0.0, 0.0);
    for (frame, wait) in ctx.window.frames().iter().zip(waits).filter(|(_, wait)| **wait > 0.0) {
        let Some(load) = frame.get(Signal::Tx, port) else { continue };
        (sent, waited) = (sent + wait * load / rate, waited + wait);
    }
    (waited > 0.0).then(|| sent / waited)
}

/// Share of time in which a port was kept from sending: paused, or without credits where pause is not measured.
pub fn held(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    HoldSignal::of(ctx, port).map(|hold| hold.share(ctx, None))
}

/// Whether a port was kept from sending for longer than its threshold.
pub fn is_held(ctx: &DetectorContext<'_>, port: usize) -> bool {
    HoldSignal::of(ctx, port).is_some_and(|hold| hold.holds(ctx, None))
}

/// Priorities in which a port was kept from sending.
pub fn priorities(ctx: &DetectorContext<'_>, port: usize) -> Priorities {
    HoldSignal::of(ctx, port).map_or(Priorities::UNKNOWN, |hold| hold.priorities(ctx))
}
