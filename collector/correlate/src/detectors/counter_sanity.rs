//! Detects implausible counters. Detectors already ignore them or trust the other end of the cable; the ports are
//! listed so that someone checks the agent, driver or cable.

use crate::baseline::window::Window;
use crate::detectors::context::DetectorContext;
use crate::detectors::host_pause::HELD;
use crate::model::frame::Frame;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds between checks, and seconds after which a reason expires.
const CHECK_S: f64 = 5.0;
const EXPIRES_S: f64 = 300.0;
/// Frames that are checked, and consecutive frames without traffic that count as stalled. The baseline lags twenty
/// frames behind, so it still shows the time before.
const CHECK_TICKS: usize = 18;
const STALLED_TICKS: usize = 15;
const BRIEF_TICKS: usize = 5;
/// Baseline frames from which the usual traffic of a port is known.
const KNOWN_TICKS: usize = 45;
/// Share of its usual throughput that a job must move for one stalled port to be implausible.
const GOES_ON: f64 = 0.5;
/// Factor from which the two ends of a cable contradict each other about pause.
const DIFFERS: f64 = 2.0;
/// Limit of listed ports. More than that have a common cause.
const MAX_LISTED: usize = 100;

/// Why counters are implausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImplausibleReason {
    /// A usually busy port moves nothing while the rest of its job goes on.
    StandsStill,
    /// It moved more than twice its line rate.
    Leaps,
    /// A NIC counts pause that its switch did not receive.
    PauseNotFelt,
    /// A switch counts pause from a NIC that counts none.
    PauseNotCounted,
}

impl ImplausibleReason {
    /// Label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::StandsStill => "stands_still",
            Self::Leaps => "leaps",
            Self::PauseNotFelt => "pause_not_felt",
            Self::PauseNotCounted => "pause_not_counted",
        }
    }

    /// Explanation for an operator.
    pub fn text(self) -> &'static str {
        match self {
            Self::StandsStill => "it counts no traffic while the rest of its job goes on as before",
            Self::Leaps => "it counted more than twice its line rate",
            Self::PauseNotFelt => "it counts pause that its switch did not receive",
            Self::PauseNotCounted => "its switch was paused by it, but it counts no pause",
        }
    }
}

/// Ports with implausible counters, and why.
#[derive(Default)]
pub struct CounterSanity {
    /// Last time of each reason, Unix nanoseconds.
    seen_ns: BTreeMap<(usize, ImplausibleReason), i64>,
    checked_ns: i64,
}

impl CounterSanity {
    /// Current ports and reasons.
    pub fn all(&self) -> impl Iterator<Item = (usize, ImplausibleReason)> + '_ {
        self.seen_ns.keys().copied()
    }

    /// Records a reason.
    pub fn record(&mut self, port: usize, reason: ImplausibleReason, now_ns: i64) {
        if self.seen_ns.len() < MAX_LISTED || self.seen_ns.contains_key(&(port, reason)) {
            self.seen_ns.insert((port, reason), now_ns);
        }
    }

    /// Drops removed ports.
    pub fn remove_ports(&mut self, ports: &[usize]) {
        self.seen_ns.retain(|(port, _), _| !ports.contains(port));
    }

    /// Frames that a check needs, if one is due.
    pub fn due(&mut self, now_ns: i64) -> Option<usize> {
        let due = now_ns.saturating_sub(self.checked_ns) as f64 >= CHECK_S * 1e9;
        due.then(|| {
            self.checked_ns = now_ns;
            CHECK_TICKS
        })
    }

    /// Checks all ports, and drops expired reasons.
    pub fn check(&mut self, ctx: &DetectorContext<'_>) {
        let now_ns = self.checked_ns;
        for port in ctx.host_ports() {
            if let Some(reason) = pause(ctx, port) {
                self.record(port, reason, now_ns);
            }
        }
        for port in still(ctx, |port| self.seen_ns.contains_key(&(port, ImplausibleReason::StandsStill))) {
            self.record(port, ImplausibleReason::StandsStill, now_ns);
        }
        self.seen_ns.retain(|_, seen_ns| now_ns.saturating_sub(*seen_ns) as f64 <= EXPIRES_S * 1e9);
    }
}

/// Whether the two ends of a cable contradict each other about pause.
fn pause(ctx: &DetectorContext<'_>, port: usize) -> Option<ImplausibleReason> {
    let peer = ctx.confirmed_peer(port)?;
    let both = |f: &Arc<Frame>| Some((f.get(Signal::PauseTx, port)?, f.get(Signal::PauseRx, peer)?));
    let ticks: Vec<(f64, f64)> = ctx.window.frames().iter().filter_map(both).collect();
    let [says, felt] = [mean(ticks.iter().map(|both| both.0))?, mean(ticks.iter().map(|both| both.1))?];
    // Its watchdog no longer obeys, and discards what is for the port.
    if says > felt && ctx.mean(Signal::Discards, peer).is_some_and(|packets| packets > 0.0) {
        return None;
    }
    let beyond = |one: f64, other: f64| one >= ctx.threshold(&HELD) && one > DIFFERS * other;
    let reason = if says > felt { ImplausibleReason::PauseNotFelt } else { ImplausibleReason::PauseNotCounted };
    beyond(says.max(felt), says.min(felt)).then_some(reason)
}

/// Ports that stalled alone. The stall of a `known` port may have become part of the baseline.
fn still(ctx: &DetectorContext<'_>, known: impl Fn(usize) -> bool) -> Vec<usize> {
    let before: &Window = &ctx.baseline.window;
    if before.ticks() < KNOWN_TICKS {
        return Vec::new();
    }
    let stands = |p: &usize| known(*p) || !before.stalled(*p, BRIEF_TICKS);
    let goes_on = |job: &usize| ctx.slowdown(*job).is_some_and(|slowdown| slowdown.ratio >= GOES_ON);
    let jobs = ctx.jobs().filter(goes_on);
    jobs.flat_map(|job| ctx.stalled_alone(&ctx.fabric.jobs[job], STALLED_TICKS)).filter(stands).collect()
}
