//! A link that carries less than its nominal rate. Either it reports that (its rate fell, or lanes are missing), or
//! data waits for it all the time while less than its rate goes out, or error correction has more and more to correct.

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
    /// rate below which a link is degraded, relative to its former or nominal rate
    LESS = "degraded_link.rate", 0.9, "share of rate";
    /// lanes below which a link is degraded, relative to its former lanes
    LANES = "degraded_link.width", 1.0, "share of lanes";
    /// time to send the queue at both ends of a sample, above which the port had data to send all the time
    BACKLOG = "degraded_link.backlog", 5e-6, "seconds";
    /// such samples that a link needs if it once carried more
    TICKS = "degraded_link.samples", 4.0, "samples";
    /// factor on these samples if it never carried more
    UNSEEN = "degraded_link.unseen", 3.0, "times";
    /// factor by which its highest rate must have been above its present highest rate to count as once carried
    FELL = "degraded_link.fell", 1.25, "times";
    /// highest load in such samples at which the link is degraded
    SERVED = "degraded_link.served", 0.8, "share of rate";
    /// how far the highest load may be above the lower quartile of such samples: a link that is the limit carries as much in each,
    /// while traffic that comes in bursts leaves a queue at some instants at any load
    EVEN = "degraded_link.even", 0.1, "share of load";
    /// how much higher its load may be in other samples
    ABOVE = "degraded_link.above", 0.05, "share of rate";
    /// share of time paused above which another port is the slow one
    PAUSED = "degraded_link.paused", 0.01, "share of time";
    /// growth of FEC corrections since a day ago above which the link is about to fail
    TREND = "degraded_link.mended", 10.0, "times";
    /// FEC corrections below which the link is healthy
    MENDED = "degraded_link.mended_least", 100.0, "per second";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let ports = &ctx.fabric.ports;
    let links = (0..ctx.fabric.topology.links.len()).map(|at| (LocationId::Link(at), ports.of_link(at)));
    // Without known cables each port stands for its own link.
    let alone: Vec<usize> = (0..ports.list.len()).filter(|p| ports.list[*p].link.is_none()).collect();
    let alone = alone.chunks(1).map(|port| (LocationId::Port(port[0]), port));
    let judges: Vec<Judge> =
        JUDGES.iter().filter(|(signal, _)| ctx.window.measures(*signal)).map(|(_, judge)| *judge).collect();
    let judge = |(root, ports): (LocationId, &[usize])| {
        judges.iter().find_map(|judge| ports.iter().find_map(|port| judge(ctx, &root, *port)))
    };
    links.chain(alone).filter_map(judge).collect()
}

type Judge = fn(&DetectorContext<'_>, &LocationId, usize) -> Option<Finding>;

/// What says that a link is slow, each with the signal without which it finds nothing.
const JUDGES: [(Signal, Judge); 4] = [
    (Signal::Rate, rate_fell),
    (Signal::Width, lost_lanes),
    (Signal::Queue, queue_grows),
    (Signal::FecMendedBefore, wears_out),
];

/// The reported rate fell.
fn rate_fell(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    let rate = ctx.window.last_value(Signal::Rate, port)?;
    let should = ctx.line_rate(port)?.max(ctx.fabric.nominal_rate(port).unwrap_or(0.0));
    let least = ctx.threshold(&LESS) * should;
    if rate <= 0.0 || rate >= least || is_down(ctx, port) {
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

/// A port that is down reports arbitrary rates and widths.
fn is_down(ctx: &DetectorContext<'_>, port: usize) -> bool {
    ctx.window.last_value(Signal::Up, port) == Some(0.0)
}

/// Lanes are missing, while the rate is unknown or unchanged.
fn lost_lanes(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    let (width, what) = lanes(ctx, port).filter(|_| !is_down(ctx, port))?;
    let began = ctx.first_time(|f| f.get(Signal::Width, port).is_some_and(|lanes| lanes < width.threshold));
    let text = format!("the link at {} lost lanes: {what}.", name(ctx, port));
    Some(Finding::new(IncidentKind::DegradedLink, root.clone(), 0.97, width, text).began_at(began))
}

/// Lanes of a port, if it had more before, and a description of the change.
fn lanes(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let is = ctx.window.last_value(Signal::Width, port)?;
    let was = ctx.baseline_mean(Signal::Width, port)?;
    let least = ctx.threshold(&LANES) * was;
    let what = format!("{was:.0}x became {is:.0}x");
    (is > 0.0 && is < least).then(|| (evidence(ctx, Signal::Width, port, is, least), what))
}

/// Data waits for the link, but it sends less than its rate.
fn queue_grows(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    // Few ports report their queue, and most of them have none.
    let queued = ctx.window.sum(Signal::Queue, port)?;
    let rate = ctx.line_rate(port)?;
    let backlog = ctx.threshold(&BACKLOG) * rate;
    if queued < backlog || ctx.mean(Signal::PauseRx, port).is_some_and(|paused| paused > ctx.threshold(&PAUSED)) {
        return None;
    }
    let waits = |frame: &Frame| frame.get(Signal::Queue, port).is_some_and(|queue| queue >= backlog);
    let pairs = ctx.window.frames().windows(2).filter(|pair| waits(&pair[0]) && waits(&pair[1]));
    let most = ctx.threshold(&SERVED);
    let mut served: Vec<f64> = pairs.filter_map(|pair| Some(pair[1].get(Signal::Tx, port)? / rate)).collect();
    if served.is_empty() {
        return None;
    }
    served.sort_by(f64::total_cmp);
    let (fast, usual) = (served[served.len() - 1], served[served.len() / 4]);
    let top = ctx.window.max(Signal::Tx, port)? / rate;
    if top > (1.0 + ctx.threshold(&EVEN)) * usual {
        return None;
    }
    // A link that once carried more needs fewer such samples.
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
        "the link at {} carries {} of its rate while data waits for it and it is not paused: it is slower than it \
         reports.",
        name(ctx, port),
        percent(share)
    );
    Some(Finding::new(IncidentKind::DegradedLink, root.clone(), 0.9, sent, text).with_evidence(queue).as_inferred())
}

/// Error correction corrects far more than a day ago.
fn wears_out(ctx: &DetectorContext<'_>, root: &LocationId, port: usize) -> Option<Finding> {
    let last = |signal| ctx.window.last_value(signal, port);
    // Minutes prove nothing: rates over five minutes rise while a collector or an agent starts.
    let before = last(Signal::FecMendedBefore)?;
    let (mended, least) = (last(Signal::FecMended)?, ctx.threshold(&MENDED).max(ctx.threshold(&TREND) * before));
    if mended < least {
        return None;
    }
    let evidence = evidence(ctx, Signal::FecMended, port, mended, least);
    let text = format!(
        "error correction at {} corrects {mended:.0} errors per second, {:.0} times as many as a day ago: the link \
         is wearing out, but loses nothing yet.",
        name(ctx, port),
        mended / before.max(1.0)
    );
    Some(Finding::new(IncidentKind::DegradedLink, root.clone(), 0.5, evidence, text))
}
