//! Who is kept from sending: Ethernet holds back by pause, in one priority or in all; InfiniBand by giving no credits, which
//! the sender counts as waiting. [`crate::detectors::wait_graph`] joins them to who waits for whom.

use crate::detectors::context::DetectorContext;
use crate::detectors::hold_signal::{PAUSED, hold_signal};
use crate::detectors::thresholds::{Threshold, thresholds};
use crate::model::frame::Frame;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use std::sync::Arc;

thresholds! {
    /// of the time in which a port does not send, this must be explained by its peer, for it to wait for that
    EXPLAINED = "wait.explained", 0.5, "share of idle time";
    /// of the longest queue of a switch: ports with less are not why it holds others back
    PART = "wait.queue_part", 0.25, "share of bytes";
    /// what a port sends of its link's rate, while others wait for its switch: from here on it is full
    FULL = "wait.full", 0.7, "share of rate";
    /// who began to be held so much later than another is not why the other is
    LATER = "wait.later", 2.0, "samples";
    /// held so long, in a circle of which each waits for the next: nothing moves there any more
    DEAD = "wait.dead", 0.9, "share of time";
}

/// Samples: what is so again before more than that have passed was so all the time.
const AGAIN: usize = 5;

/// A counter that tells that a port is held, where it is, and from which value on.
#[derive(Clone, Copy)]
pub struct HoldSignal {
    signal: Signal,
    at: usize,
    least: &'static Threshold,
}

/// Since when somebody is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Onset {
    /// Unix nanoseconds.
    pub at_ns: i64,
    /// It was seen not to be so before; otherwise it may have begun earlier.
    pub observed: bool,
}

impl HoldSignal {
    /// That this port is kept from sending: it is paused, or where pause is not measured without credits.
    pub fn of(ctx: &DetectorContext<'_>, port: usize) -> Option<Self> {
        hold_signal(ctx.window, port).map(|(signal, least)| Self { signal, at: port, least })
    }

    /// That this port keeps its peer from sending, by its own word or else by the peer's.
    pub fn of_peer(ctx: &DetectorContext<'_>, port: usize) -> Option<Self> {
        let own = ctx.mean(Signal::PauseTx, port).map(|_| Self { signal: Signal::PauseTx, at: port, least: &PAUSED });
        own.or_else(|| Self::of(ctx, ctx.fabric.ports.list[port].peer?))
    }

    /// Share of time, as far as it may be of a priority.
    pub fn share(&self, ctx: &DetectorContext<'_>, priority: Option<usize>) -> f64 {
        ctx.mean_in_priority(self.signal, self.at, priority).unwrap_or(0.0)
    }

    /// Whether that is more than a hiccup.
    pub fn holds(&self, ctx: &DetectorContext<'_>, priority: Option<usize>) -> bool {
        self.share(ctx, priority) >= ctx.threshold(self.least)
    }

    /// In which priorities.
    pub fn priorities(&self, ctx: &DetectorContext<'_>) -> Priorities {
        ctx.priorities(self.signal, self.at, ctx.threshold(self.least))
    }

    /// Since when, in a priority.
    pub fn onset(&self, ctx: &DetectorContext<'_>, priority: Option<usize>) -> Option<Onset> {
        let least = ctx.threshold(self.least);
        Onset::of(ctx, |frame| Some(frame.in_priority(self.signal, self.at, priority)? >= least))
    }
}

impl Onset {
    /// Since when something is so; `None` in a frame: nobody measured it.
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

    /// Whether it surely began too late to be why something is that began then (Unix ns).
    pub fn is_later(&self, ctx: &DetectorContext<'_>, then_ns: i64) -> bool {
        let later_ns = ctx.threshold(&LATER) * ctx.step_s * 1e9;
        self.observed && (self.at_ns - then_ns) as f64 >= later_ns
    }
}

/// Share of its link that a port sends.
pub fn load(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    Some(ctx.mean(Signal::Tx, port)? / ctx.line_rate(port)?)
}

/// How much those before a switch wait for it, by frame.
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

/// Share of its link that a port sends while others wait, by how much ([`waited_for`] its switch): what is full for moments
/// is not so on average.
pub fn load_while(ctx: &DetectorContext<'_>, waits: &[f64], port: usize) -> Option<f64> {
    let rate = ctx.line_rate(port)?;
    let (mut sent, mut waited) = (0.0, 0.0);
    for (frame, wait) in ctx.window.frames().iter().zip(waits).filter(|(_, wait)| **wait > 0.0) {
        let Some(load) = frame.get(Signal::Tx, port) else { continue };
        (sent, waited) = (sent + wait * load / rate, waited + wait);
    }
    (waited > 0.0).then(|| sent / waited)
}

/// Share of time in which a port was kept from sending: paused, or where pause is not measured without credits.
pub fn held(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    HoldSignal::of(ctx, port).map(|hold| hold.share(ctx, None))
}

/// Whether that is more than a hiccup.
pub fn is_held(ctx: &DetectorContext<'_>, port: usize) -> bool {
    HoldSignal::of(ctx, port).is_some_and(|hold| hold.holds(ctx, None))
}

/// In which priorities.
pub fn priorities(ctx: &DetectorContext<'_>, port: usize) -> Priorities {
    HoldSignal::of(ctx, port).map_or(Priorities::UNKNOWN, |hold| hold.priorities(ctx))
}
