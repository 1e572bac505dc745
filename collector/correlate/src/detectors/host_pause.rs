//! A NIC that pauses its switch. A host forwards nothing, so a pausing host is the cause: either it drains its receive
//! buffer too slowly (`slow_receiver`), or it pauses without need (`pfc_storm`).
//!
//! Both pause for the same share of time. The difference: a slow receiver has a full buffer when it pauses, and resumes
//! as soon as there is room, so one pause frame stands for a short time. A storm repeats the longest pause. A NIC with
//! stall prevention reports its own storms. A switch with a PFC watchdog stops obeying a storm after some time and discards
//! what is for that NIC, which ends the pause at its port but not the storm. The watchdog's own report names the port at once.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::paused_time::{last_minute, paused_seconds};
use crate::detectors::pcie;
use crate::detectors::slow_hosts;
use crate::detectors::thresholds::thresholds;
use crate::detectors::watchdog;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use crate::model::stats::mean;

pub(super) const DETECTOR: Detector = Detector {
    name: "host_pause",
    warm_up_s: 3.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// share of time from which a NIC's pause counts
    HELD = "host_pause.held", 0.01, "share of time";
    /// the same where a driver counts frames but no time: each frame is taken for the longest pause, so this is an
    /// upper bound
    ESTIMATED = "host_pause.held_estimated", 0.1, "share of time";
    /// samples of a minute in which it does: a hiccup shows in one
    SAMPLES = "host_pause.samples", 2.0, "samples";
    /// time paused from which one sample is enough, because no hiccup lasts so long: the watchdogs of switches act after
    /// 0.2 to 0.4 s
    AT_ONCE = "host_pause.at_once", 0.9, "seconds";
    /// time paused from which it is no hiccup: 1 % for most of a minute, 10 % for five seconds, 30 % for two
    PAUSED = "host_pause.paused", 0.5, "seconds in a minute";
    /// the same where it is estimated from frames
    PAUSED_ESTIMATED = "host_pause.paused_estimated", 2.0, "seconds in a minute";
    /// share of time from which nothing gets through, a storm if nothing is received (SONiC's watchdog: 0.99, formerly
    /// 0.8)
    DEAD = "host_pause.dead", 0.95, "share of time";
    /// pause per frame, relative to the longest pause, from which it is never resumed early
    LONG = "host_pause.long", 0.8, "share of 65,535 quanta";
    /// bytes in a NIC's buffer above which it has something to drain
    FILLED = "host_pause.filled", 16_384.0, "bytes";
    /// highest receive load of a NIC that stands still
    STILL = "host_pause.still", 0.02, "share of rate";
}

/// Bits of time of the longest pause that one frame asks for: 65,535 quanta of 512 bits.
const LONGEST_BITS: f64 = 65_535.0 * 512.0;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let of = |port| {
        let events = storm_events(ctx, port).or_else(|| watchdog_storm(ctx, port));
        let judged = judge(ctx, port, events.is_some());
        events.into_iter().chain(judged)
    };
    slow_hosts::merge(ctx, ctx.host_ports().flat_map(of).collect())
}

/// Storms that the NIC itself reports.
fn storm_events(ctx: &DetectorContext<'_>, port: usize) -> Option<Finding> {
    let events = |signal| ctx.count(signal, port).filter(|n| *n > 0.0);
    let (signal, events, sure, what) = match (events(Signal::StormErrors), events(Signal::StormWarnings)) {
        (Some(n), _) => (Signal::StormErrors, n, 0.98, "detected that it paused without end, and stopped the pause"),
        (None, Some(n)) => (Signal::StormWarnings, n, 0.7, "warns that it pauses for too long without interruption"),
        (None, None) => return None,
    };
    let began = ctx.first_time(|f| f.get(signal, port).is_some_and(|n| n > 0.0));
    let evidence = evidence(ctx, signal, port, events, 0.0);
    let text = format!("{} {what} (its own storm events).", name(ctx, port));
    let which = ctx.priorities(Signal::PauseTx, port, ctx.threshold(&HELD));
    Some(
        Finding::new(IncidentKind::PfcStorm, LocationId::Port(port), sure, evidence, text)
            .in_priorities(which)
            .began_at(began),
    )
}

/// Storms that the PFC watchdog of the switch reports of the queue to a NIC: it was paused for 0.2 s or more, in which nothing
/// was sent, and only the NIC can pause it.
fn watchdog_storm(ctx: &DetectorContext<'_>, port: usize) -> Option<Finding> {
    let report = watchdog::report(ctx, ctx.fabric.ports.list[port].peer?)?;
    let peer = ctx.confirmed_peer(port)?;
    let filled = ctx.window.max(Signal::QueueMax, port).is_some_and(|bytes| bytes >= ctx.threshold(&FILLED));
    let kind = if filled { IncidentKind::SlowReceiver } else { IncidentKind::PfcStorm };
    // A NIC that counts its pause and paused nothing may have been accused by a wrong cable.
    let paused = ctx.window.max(Signal::PauseTx, port);
    let denied = paused.is_some_and(|share| share < ctx.threshold(&HELD))
        && ctx.mean(Signal::PauseRx, peer).is_none_or(|share| share < ctx.threshold(&HELD));
    let sure = if denied { 0.45 } else { 0.9 };
    let text = format!(
        "{} paused its switch for so long that the PFC watchdog of {} found a storm; the watchdog drops what is for it.",
        name(ctx, port),
        name(ctx, peer)
    );
    let found = Finding::new(kind, LocationId::Port(port), sure, report, text).began_at(watchdog::first_ns(ctx, peer));
    Some(found.in_priorities(ctx.priorities(Signal::PauseRx, peer, ctx.threshold(&HELD))))
}

/// Share of time for which a port paused its peer: measured at either end, or an upper bound.
struct Held {
    /// The switch port, if traffic confirms the cable; a topology file may be outdated.
    peer: Option<usize>,
    estimated: bool,
    /// Packets for the NIC that its switch discards, per second, while the NIC pauses all the time: the switch's watchdog acts, and
    /// no longer obeys.
    discarded: Option<f64>,
    least: f64,
    /// Seconds that the longest pause of one frame lasts.
    longest: Option<f64>,
}

impl Held {
    fn new(ctx: &DetectorContext<'_>, port: usize) -> Option<Self> {
        let longest = ctx.line_rate(port).map(|rate| LONGEST_BITS / (rate * 8.0));
        let peer = ctx.confirmed_peer(port);
        let felt = peer.and_then(|peer| ctx.mean(Signal::PauseRx, peer));
        let estimated = ctx.mean(Signal::PauseTx, port).is_none() && felt.is_none();
        if estimated && (longest.is_none() || ctx.mean(Signal::PauseFrames, port).is_none()) {
            return None;
        }
        let least = ctx.threshold(if estimated { &ESTIMATED } else { &HELD });
        let dead = ctx.mean(Signal::PauseTx, port).is_some_and(|share| share >= ctx.threshold(&DEAD));
        let discards = peer.filter(|_| dead).and_then(|peer| ctx.mean(Signal::Discards, peer));
        let discarded = discards.filter(|packets| *packets > 0.0);
        let obeys = felt.is_none_or(|share| share >= least);
        // A switch port that was not paused and discards nothing disproves the NIC's counter.
        (obeys || discarded.is_some()).then_some(Self { peer, estimated, discarded, least, longest })
    }

    fn share(&self, frame: &Frame, port: usize) -> Option<f64> {
        if self.estimated {
            return Some((frame.largest_priority(Signal::PauseFrames, port)? * self.longest?).min(1.0));
        }
        // A broken NIC may pause without counting it.
        let felt = self.peer.and_then(|peer| frame.get(Signal::PauseRx, peer));
        felt.into_iter().chain(frame.get(Signal::PauseTx, port)).reduce(f64::max)
    }

    fn holds(&self, frame: &Frame, port: usize) -> bool {
        self.share(frame, port).is_some_and(|share| share >= self.least)
    }

    /// Priorities, by the counter that shows the pause.
    fn priorities(&self, ctx: &DetectorContext<'_>, signal: Signal, at: usize) -> Priorities {
        let each = if self.estimated { self.longest.unwrap_or(0.0) } else { 1.0 };
        ctx.priorities(signal, at, self.least / each)
    }

    /// The counter that shows the pause, and its port.
    fn counter(&self, ctx: &DetectorContext<'_>, port: usize) -> (Signal, usize) {
        let counts = ctx.mean(Signal::PauseTx, port).is_some_and(|share| share >= self.least);
        match self.peer {
            _ if self.estimated => (Signal::PauseFrames, port),
            Some(peer) if !counts => (Signal::PauseRx, peer),
            _ => (Signal::PauseTx, port),
        }
    }
}

/// Whether neither the NIC nor its switch counted any pause in the window.
fn never_paused(ctx: &DetectorContext<'_>, port: usize) -> bool {
    let none = |signal, port| ctx.window.sum(signal, port).is_none_or(|sum| sum <= 0.0);
    let felt_none = || ctx.fabric.ports.list[port].peer.is_none_or(|peer| none(Signal::PauseRx, peer));
    none(Signal::PauseTx, port) && none(Signal::PauseFrames, port) && felt_none()
}

fn judge(ctx: &DetectorContext<'_>, port: usize, warns: bool) -> Option<Finding> {
    if never_paused(ctx, port) {
        return None;
    }
    let how = Held::new(ctx, port)?;
    let frames = || ctx.window.frames().iter();
    let held = mean(frames().filter_map(|f| how.share(f, port)))?;
    if held < how.least {
        return None;
    }
    // A receiver may stall now and then.
    let samples = last_minute(ctx).filter(|f| how.holds(f, port)).count();
    let enough = ctx.threshold(if how.estimated { &PAUSED_ESTIMATED } else { &PAUSED });
    let paused_s = paused_seconds(ctx, |f| how.share(f, port));
    let at_once = !how.estimated && paused_s >= ctx.threshold(&AT_ONCE);
    let again = samples as f64 >= ctx.threshold(&SAMPLES) && paused_s >= enough;
    if !at_once && !again {
        return None;
    }
    let (signal, at) = how.counter(ctx, port);
    let which = how.priorities(ctx, signal, at);
    let (storm, sure, cause) = is_storm(ctx, port, &how, held, warns);
    let (kind, what) = if storm && how.discarded.is_some() {
        (IncidentKind::PfcStorm, "until the switch's watchdog discards what is for it")
    } else if storm {
        (IncidentKind::PfcStorm, "without need: its receive buffer was not full")
    } else {
        (IncidentKind::SlowReceiver, "because its host does not drain the receive buffer")
    };
    let began = ctx.first_time(|f| how.holds(f, port));
    let mut own = evidence(ctx, signal, at, held, how.least);
    let (most, sure) = if how.estimated { ("at most (estimated from frames) ", sure - 0.2) } else { ("", sure) };
    if how.estimated {
        "estimated_pause_share".clone_into(&mut own.metric);
    }
    let text = format!(
        "{} pauses its switch{} {most}{} of the time, {what}.",
        name(ctx, port),
        which.words(),
        percent(held.min(1.0))
    );
    let found = Finding::new(kind, LocationId::Port(port), sure, own, text).in_priorities(which).began_at(began);
    let found = cause.into_iter().fold(found, Finding::with_evidence);
    Some(if storm { found } else { pcie::refine(ctx, port, found) })
}

/// Whether a NIC pauses without need (it may warn about that itself), the confidence, and the evidence that separates
/// the two kinds.
fn is_storm(ctx: &DetectorContext<'_>, port: usize, how: &Held, held: f64, warns: bool) -> (bool, f64, Vec<Evidence>) {
    let rate = ctx.line_rate(port).unwrap_or(f64::NAN);
    // A NIC that does not count its own pause has no usable frame counter either.
    let (signal, at) = how.counter(ctx, port);
    let counted = |of| ctx.mean_in_priority(Signal::PauseFrames, port, of).filter(|n| *n > 0.0);
    let frames = counted(ctx.dominant_priority(signal, at)).unwrap_or(f64::NAN);
    // Pause per frame, relative to the longest pause. For an estimate that is 1 by construction and says nothing.
    let each = if how.estimated { f64::NAN } else { held / frames / how.longest.unwrap_or(f64::NAN) };
    // Only whole frames of pause count: in the first one it may still have worked for a while.
    let all = ctx.window.frames();
    let whole = || all.windows(2).filter(|pair| how.holds(&pair[0], port)).map(|pair| &pair[1]);
    let paused = || whole().filter(|f| how.holds(f, port));
    let share = mean(paused().filter_map(|f| how.share(f, port))).unwrap_or(f64::NAN);
    let received = mean(paused().filter_map(|f| f.get(Signal::Rx, port))).unwrap_or(f64::NAN);
    let dead = share >= ctx.threshold(&DEAD) && received < ctx.threshold(&STILL) * rate;
    let fullest = ctx.window.max(Signal::QueueMax, port);
    let filled = fullest.map(|bytes| bytes >= ctx.threshold(&FILLED));
    let long = each >= ctx.threshold(&LONG);
    let storm = filled != Some(true) && (long || dead || warns || how.discarded.is_some());
    let buffer = fullest.map(|bytes| evidence(ctx, Signal::QueueMax, port, bytes, ctx.threshold(&FILLED)));
    let frame = each.is_finite().then(|| Evidence {
        metric: "pause_of_a_frame".to_owned(),
        ..evidence(ctx, Signal::PauseFrames, port, each, ctx.threshold(&LONG))
    });
    let watchdog = how.peer.zip(how.discarded).map(|(peer, n)| evidence(ctx, Signal::Discards, peer, n, 0.0));
    let nothing = (storm && dead).then(|| evidence(ctx, Signal::Rx, port, received, ctx.threshold(&STILL) * rate));
    let cause = buffer.into_iter().chain(frame).chain(nothing).chain(watchdog).collect();
    (storm, if filled == Some(!storm) { 0.96 } else { 0.94 }, cause)
}
