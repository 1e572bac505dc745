//! Counters that cannot be right. They accuse nobody (what is judged leaves them out, or hears the other end); whose they are
//! is kept for a while, because somebody should look at that agent, driver or cable.

use crate::baseline::window::Window;
use crate::detectors::context::DetectorContext;
use crate::detectors::host_pause::HELD;
use crate::model::frame::Frame;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds from one look to the next, and seconds without a sign after which nothing is in doubt any more.
const LOOK_S: f64 = 5.0;
const KEPT_S: f64 = 300.0;
/// Ticks that are looked at, and those of them in which all stands still. What is usual begins twenty ticks ago, so it is
/// still of before.
const LOOK: usize = 18;
const STILL: usize = 15;
const BRIEF: usize = 5;
/// Ticks that tell what a port usually does.
const KNOWN: usize = 45;
/// Of what its ports usually move: what a job must move for one of them to be odd.
const GOES_ON: f64 = 0.5;
/// Times what one end of a cable says of pause: the other end does not mean the same.
const DIFFERS: f64 = 2.0;
/// Ports in doubt at most: with more, what all have in common is wrong.
const MOST: usize = 100;

/// What is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImplausibleReason {
    /// A port that always moved something moves nothing, and the rest of its job goes on.
    StandsStill,
    /// It moved more than twice what its link carries.
    Leaps,
    /// A NIC says that it pauses, and its switch was not kept from sending.
    PauseNotFelt,
    /// A switch is kept from sending, by a NIC that counts no pause.
    PauseNotCounted,
}

impl ImplausibleReason {
    /// Name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::StandsStill => "stands_still",
            Self::Leaps => "leaps",
            Self::PauseNotFelt => "pause_not_felt",
            Self::PauseNotCounted => "pause_not_counted",
        }
    }

    /// In plain words.
    pub fn text(self) -> &'static str {
        match self {
            Self::StandsStill => "it moves nothing while the rest of its job goes on as before",
            Self::Leaps => "it moved more than twice what its link carries",
            Self::PauseNotFelt => "it says that it pauses its switch, which was not kept from sending",
            Self::PauseNotCounted => "its switch was kept from sending by it, and it counts no pause",
        }
    }
}

/// Ports and what is wrong with them, as lately seen.
#[derive(Default)]
pub struct CounterSanity {
    /// When there was a sign last, Unix ns.
    seen_ns: BTreeMap<(usize, ImplausibleReason), i64>,
    looked_ns: i64,
}

impl CounterSanity {
    /// Those of now.
    pub fn all(&self) -> impl Iterator<Item = (usize, ImplausibleReason)> + '_ {
        self.seen_ns.keys().copied()
    }

    /// Takes over a sign.
    pub fn record(&mut self, port: usize, reason: ImplausibleReason, now_ns: i64) {
        if self.seen_ns.len() < MOST || self.seen_ns.contains_key(&(port, reason)) {
            self.seen_ns.insert((port, reason), now_ns);
        }
    }

    /// These ports are gone.
    pub fn remove_ports(&mut self, ports: &[usize]) {
        self.seen_ns.retain(|(port, _), _| !ports.contains(port));
    }

    /// Ticks that a look needs, if one is due.
    pub fn due(&mut self, now_ns: i64) -> Option<usize> {
        let due = now_ns.saturating_sub(self.looked_ns) as f64 >= LOOK_S * 1e9;
        due.then(|| {
            self.looked_ns = now_ns;
            LOOK
        })
    }

    /// Looks for signs, and forgets what had none for a while.
    pub fn look(&mut self, ctx: &DetectorContext<'_>) {
        let now_ns = self.looked_ns;
        for port in ctx.host_ports() {
            if let Some(reason) = pause(ctx, port) {
                self.record(port, reason, now_ns);
            }
        }
        for port in still(ctx, |port| self.seen_ns.contains_key(&(port, ImplausibleReason::StandsStill))) {
            self.record(port, ImplausibleReason::StandsStill, now_ns);
        }
        self.seen_ns.retain(|_, seen_ns| now_ns.saturating_sub(*seen_ns) as f64 <= KEPT_S * 1e9);
    }
}

/// Whether the two ends of a cable say of pause what cannot both be.
fn pause(ctx: &DetectorContext<'_>, port: usize) -> Option<ImplausibleReason> {
    let peer = ctx.confirmed_peer(port)?;
    let both = |f: &Arc<Frame>| Some((f.get(Signal::PauseTx, port)?, f.get(Signal::PauseRx, peer)?));
    let ticks: Vec<(f64, f64)> = ctx.window.frames().iter().filter_map(both).collect();
    let [says, felt] = [mean(ticks.iter().map(|both| both.0))?, mean(ticks.iter().map(|both| both.1))?];
    let beyond = |one: f64, other: f64| one >= ctx.threshold(&HELD) && one > DIFFERS * other;
    let reason = if says > felt { ImplausibleReason::PauseNotFelt } else { ImplausibleReason::PauseNotCounted };
    beyond(says.max(felt), says.min(felt)).then_some(reason)
}

/// Ports that stand still alone; what is `known` may have become usual.
fn still(ctx: &DetectorContext<'_>, known: impl Fn(usize) -> bool) -> Vec<usize> {
    let before: &Window = &ctx.baseline.window;
    if before.ticks() < KNOWN {
        return Vec::new();
    }
    let stands = |p: &usize| known(*p) || !before.stalled(*p, BRIEF);
    let goes_on = |job: &usize| ctx.slowdown(*job).is_some_and(|slowdown| slowdown.ratio >= GOES_ON);
    let jobs = ctx.jobs().filter(goes_on);
    jobs.flat_map(|job| ctx.stalled_alone(&ctx.fabric.jobs[job], STILL)).filter(stands).collect()
}
