//! A link that carries less than it should: it says so itself (its rate fell, or lanes are gone), or it shows: data waits all
//! the time and still no more goes out than a part of the rate; or error correction has ever more to mend.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;

pub(super) const DETECTOR: Detector = Detector {
    name: "degraded_link",
    warm_up_s: 20.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// of its rate before, or of the topology's: below this a link is degraded
    LESS = "degraded_link.rate", 0.9, "share of rate";
    /// of the lanes that it had before: with fewer a link is degraded
    LANES = "degraded_link.width", 1.0, "share of lanes";
    /// how long its rate needs for what waits at both ends of a tick in which the port had something to send all the time
    BACKLOG = "degraded_link.backlog", 5e-6, "seconds";
    /// such ticks that are needed of a link that was seen to carry more
    TICKS = "degraded_link.samples", 4.0, "samples";
    /// of these: how many are needed of another
    UNSEEN = "degraded_link.unseen", 3.0, "times";
    /// of what it sends at most now: what it once did
    FELL = "degraded_link.fell", 1.25, "times";
    /// of its rate: what a port sends at most in such ticks, for the link to be degraded
    SERVED = "degraded_link.served", 0.8, "share of rate";
    /// of its rate: how much more it may send in any other tick
    ABOVE = "degraded_link.above", 0.05, "share of rate";
    /// paused more than this it is another that is slow
    PAUSED = "degraded_link.paused", 0.01, "share of time";
    /// what error correction mends, beside a day ago: a link that soon loses
    TREND = "degraded_link.mended", 10.0, "times";
    /// below this nobody cares
    MENDED = "degraded_link.mended_least", 100.0, "per second";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let ports = &ctx.fabric.ports;
    let links = ctx.fabric.topology.links.iter().enumerate().map(|(at, link)| {
        let ends = link.ends.each_ref().map(|end| ports.at(end));
        (LocationId::Link(at), ends.into_iter().flatten().collect())
    });
    // Where nobody knows the cables, a port stands for its own.
    let alone = (0..ports.list.len()).filter(|p| ports.list[*p].link.is_none()).map(|p| (LocationId::Port(p), vec![p]));
    let judge = |(root, ports): (LocationId, Vec<usize>)| {
        let first = |judge: Judge| ports.iter().find_map(|p| judge(ctx, &root, *p));
        first(says).or_else(|| first(narrows)).or_else(|| first(shows)).or_else(|| first(wears))
    };
    links.chain(alone).filter_map(judge).collect()
}

type Judge = fn(&DetectorContext<'_>, &LocationId, usize) -> Option<Finding>;

/// Its rate fell.
fn says(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    let rate = ctx.window.last_value(Signal::Rate, port)?;
    let should = ctx.line_rate(port)?.max(ctx.fabric.nominal_rate(port).unwrap_or(0.0));
    let least = ctx.threshold(&LESS) * should;
    if is_down(ctx, port) || rate <= 0.0 || rate >= least {
        return None;
    }
    let began = ctx.first_time(|f| f.get(Signal::Rate, port).is_some_and(|rate| rate < least));
    let evidence = evidence(ctx, Signal::Rate, port, rate, least);
    let lost = lanes(ctx, port);
    let why = lost.as_ref().map_or_else(String::new, |(_, what)| format!(": {what}"));
    let text = format!("the link at {} runs at {} of its rate{why}.", name(ctx, port), percent(rate / should));
    let found = Finding::new(IncidentKind::DegradedLink, root.clone(), 0.97, evidence, text).began_at(began);
    Some(lost.into_iter().fold(found, |found, (width, _)| found.with_evidence(width)))
}

/// A port that is down tells any rate and width.
fn is_down(ctx: &DetectorContext<'_>, port: usize) -> bool {
    ctx.window.last_value(Signal::Up, port) == Some(0.0)
}

/// Lanes are gone, though nobody tells the rate, or it is what it was.
fn narrows(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    let (width, what) = lanes(ctx, port).filter(|_| !is_down(ctx, port))?;
    let began = ctx.first_time(|f| f.get(Signal::Width, port).is_some_and(|lanes| lanes < width.threshold));
    let text = format!("the link at {} lost lanes: {what}.", name(ctx, port));
    Some(Finding::new(IncidentKind::DegradedLink, root.clone(), 0.97, width, text).began_at(began))
}

/// Lanes of a port, if it had more, and how that is called.
fn lanes(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let is = ctx.window.last_value(Signal::Width, port)?;
    let was = ctx.baseline_mean(Signal::Width, port)?;
    let least = ctx.threshold(&LANES) * was;
    let what = format!("{was:.0}x became {is:.0}x");
    (is > 0.0 && is < least).then(|| (evidence(ctx, Signal::Width, port, is, least), what))
}

/// It does not carry what waits.
fn shows(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    // Few ports tell their queue.
    ctx.mean(Signal::Queue, port)?;
    let rate = ctx.line_rate(port)?;
    let paused = ctx.mean(Signal::PauseRx, port).unwrap_or(0.0);
    if paused > ctx.threshold(&PAUSED) {
        return None;
    }
    let backlog = ctx.threshold(&BACKLOG) * rate;
    let waits = |frame: &Frame| frame.get(Signal::Queue, port).is_some_and(|queue| queue >= backlog);
    let pairs = ctx.window.frames().windows(2).filter(|pair| waits(&pair[0]) && waits(&pair[1]));
    let most = ctx.threshold(&SERVED);
    let served: Vec<f64> = pairs.filter_map(|pair| Some(pair[1].get(Signal::Tx, port)? / rate)).collect();
    if served.is_empty() {
        return None;
    }
    let fast = served.iter().copied().fold(0.0, f64::max);
    let top = ctx.window.max(Signal::Tx, port)? / rate;
    // It once carried more: fewer such ticks are enough.
    let fell =
        ctx.baseline.window.max(Signal::Tx, port).is_some_and(|baseline| baseline >= ctx.threshold(&FELL) * top * rate);
    let enough = ctx.threshold(&TICKS) * if fell { 1.0 } else { ctx.threshold(&UNSEEN) };
    if (served.len() as f64) < enough || fast > most || top > most + ctx.threshold(&ABOVE) {
        return None;
    }
    let share = mean(served.iter().copied())?;
    let waited = ctx.window.max(Signal::Queue, port)?;
    let sent = evidence(ctx, Signal::Tx, port, share * rate, most * rate);
    let queue = evidence(ctx, Signal::Queue, port, waited, backlog);
    let text = format!(
        "the link at {} carries {} of its rate while data waits for it, and nobody pauses it: it is slower than it says.",
        name(ctx, port),
        percent(share)
    );
    Some(Finding::new(IncidentKind::DegradedLink, root.clone(), 0.9, sent, text).with_evidence(queue).as_inferred())
}

/// Error correction mends far more than it did a day ago.
fn wears(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    let last = |signal| ctx.window.last_value(signal, port);
    // Minutes say nothing: rates over five of them grow as a collector or an agent begins.
    let before = last(Signal::FecMendedBefore)?;
    let (mended, least) = (last(Signal::FecMended)?, ctx.threshold(&MENDED).max(ctx.threshold(&TREND) * before));
    if mended < least {
        return None;
    }
    let evidence = evidence(ctx, Signal::FecMended, port, mended, least);
    let text = format!(
        "error correction at {} mends {mended:.0} a second, {:.0} times what it did: the link wears out, and loses nothing yet.",
        name(ctx, port),
        mended / before.max(1.0)
    );
    Some(Finding::new(IncidentKind::DegradedLink, root.clone(), 0.5, evidence, text))
}
