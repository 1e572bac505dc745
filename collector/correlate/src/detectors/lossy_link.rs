//! A link that corrupts frames. The receiving end counts them, but the finding names the link, because a counter cannot
//! tell the cable from the transceivers at its ends.
//!
//! Errors come either in a burst above the baseline, or in a trickle, counted over 12 and 125 minutes against what the
//! line rate allows (bit error rates of 1e-14 and 1e-15, as accepted for links of 400 Gb/s). A fleet always has links with a
//! frame lost now and then, which costs no job anything: those are observations.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "lossy_link",
    warm_up_s: 20.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// errors in the window from which they are no coincidence
    ERRORS = "lossy_link.errors", 2.0, "frames";
    /// growth of errors against the baseline
    MORE = "lossy_link.more", 3.0, "times usual";
    /// bit error rate over 12 minutes above which a link is bad
    BER_SHORT = "lossy_link.ber_12m", 1e-14, "errors per bit";
    /// bit error rate over 125 minutes above which a link is getting bad
    BER_LONG = "lossy_link.ber_125m", 1e-15, "errors per bit";
    /// bit error rate above which loss costs a job something
    BER_COST = "lossy_link.ber_cost", 3e-12, "errors per bit";
    /// errors in a second above which it does: each costs a time-out at most
    RATE_COST = "lossy_link.rate_cost", 0.33, "frames per second";
    /// code words that error correction could not correct
    LOST = "lossy_link.fec_lost", 1.0, "code words";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let moves = |signals: &[Signal]| signals.iter().any(|signal| ctx.window.moves(*signal));
    let judges: Vec<Judge> = JUDGES.iter().filter(|(signals, _)| moves(signals)).map(|(_, judge)| *judge).collect();
    if judges.is_empty() {
        return Vec::new();
    }
    let find = |port: usize| {
        let root = ctx.fabric.link_or_port(port);
        judges.iter().find_map(|judge| judge(ctx, port, root.clone()))
    };
    ctx.ports().filter_map(find).collect()
}

type Judge = fn(&DetectorContext<'_>, usize, LocationId) -> Option<Finding>;

/// What says that a link has errors, each with the signals of which it counts the errors.
const JUDGES: [(&[Signal], Judge); 3] = [
    (&[Signal::WireErrors], burst),
    (&[Signal::FecLost], uncorrectable),
    (&[Signal::WireErrorsShort, Signal::WireErrorsLong], trickle),
];

/// Shortest time in seconds over which errors make a rate.
const SHORTEST_S: f64 = 15.0;

/// Whether so many errors in so many seconds cost no job anything.
fn is_harmless(ctx: &DetectorContext<'_>, port: usize, errors: f64, seconds: f64) -> bool {
    let rate = errors / seconds.max(SHORTEST_S);
    let rare = rate < ctx.threshold(&RATE_COST);
    let few = ctx.line_rate(port).is_some_and(|bytes| rate < ctx.threshold(&BER_COST) * bytes * 8.0);
    rare && few
}

fn burst(ctx: &DetectorContext<'_>, port: usize, root: LocationId) -> Option<Finding> {
    let errors = ctx.count(Signal::WireErrors, port)?;
    if errors < ctx.threshold(&ERRORS) {
        return None;
    }
    let before = ctx.baseline_mean(Signal::WireErrors, port).unwrap_or(0.0) * ctx.seconds();
    if errors < ctx.threshold(&MORE) * before {
        return None;
    }
    let began = ctx.first_time(|f| f.get(Signal::WireErrors, port).is_some_and(|rate| rate > 0.0));
    let evidence = evidence(ctx, Signal::WireErrors, port, errors, ctx.threshold(&ERRORS));
    let peer = ctx.fabric.ports.list[port].peer;
    let both = peer.is_some_and(|p| ctx.mean(Signal::WireErrors, p).is_some_and(|rate| rate > 0.0));
    let whose = if both { "; so did the other end, so it is the cable" } else { "" };
    let text = format!("{} received {errors:.0} frames that the link had corrupted{whose}.", name(ctx, port));
    let harmless = is_harmless(ctx, port, errors, ctx.seconds());
    Some(Finding::new(IncidentKind::LossyLink, root, 0.92, evidence, text).began_at(began).harmless_if(harmless))
}

/// Error correction failed, so frames were lost.
fn uncorrectable(ctx: &DetectorContext<'_>, port: usize, root: LocationId) -> Option<Finding> {
    let lost = ctx.count(Signal::FecLost, port)?;
    if lost < ctx.threshold(&LOST) {
        return None;
    }
    let began = ctx.first_time(|f| f.get(Signal::FecLost, port).is_some_and(|rate| rate > 0.0));
    let evidence = evidence(ctx, Signal::FecLost, port, lost, ctx.threshold(&LOST));
    let text = format!(
        "{} could not correct {lost:.0} code words that the link had corrupted: frames were lost.",
        name(ctx, port)
    );
    let harmless = is_harmless(ctx, port, lost, ctx.seconds());
    Some(Finding::new(IncidentKind::LossyLink, root, 0.7, evidence, text).began_at(began).harmless_if(harmless))
}

/// More errors in a long time than a good link of this rate has.
fn trickle(ctx: &DetectorContext<'_>, port: usize, root: LocationId) -> Option<Finding> {
    let windows = [
        (Signal::WireErrorsShort, 720.0, &BER_SHORT, 0.75, "12 minutes: the link is bad"),
        (Signal::WireErrorsLong, 7500.0, &BER_LONG, 0.6, "125 minutes: the link is getting bad"),
    ];
    windows.into_iter().find_map(|(signal, seconds, limit, sure, told)| {
        let errors = ctx.window.last_value(signal, port)?;
        // A single error is a coincidence, however slow the link.
        if errors < ctx.threshold(&ERRORS) {
            return None;
        }
        let bits = ctx.line_rate(port)? * 8.0;
        let most = (bits * seconds * ctx.threshold(limit)).max(ctx.threshold(&ERRORS));
        if errors < most {
            return None;
        }
        let evidence = evidence(ctx, signal, port, errors, most);
        let text = format!(
            "{} received {errors:.0} errors, while a good link of its rate has at most {most:.1} in {told}.",
            name(ctx, port)
        );
        let harmless = is_harmless(ctx, port, errors, seconds);
        Some(Finding::new(IncidentKind::LossyLink, root.clone(), sure, evidence, text).harmless_if(harmless))
    })
}
