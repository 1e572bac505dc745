//! An adapter that sends at a constant rate far below what it did, though nothing keeps it from sending: its host fetches
//! data no faster. A job that moves the same bytes over each rail slows down on all of them, so shares do not show it;
//! the other rails still send at their former highest rate, for less of the time.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, of_job, percent};
use crate::detectors::receive_ceiling::{Ceiling, FELL};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "send_ceiling",
    warm_up_s: 20.0,
    baseline_s: 20.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// what the job must have lost
    LOSS = "send_ceiling.loss", 0.1, "share of usual bytes";
    /// share of the line rate that it could not send, above which another port is the slow one
    WAITS = "send_ceiling.waits", 0.05, "share of line rate";
}

/// How much the changes of two rails may differ that carry the same bytes.
const DIFFERS: f64 = 0.25;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let lose = ctx.slowdowns().filter(|(_, slowdown)| slowdown.lost_more_than(ctx.threshold(&LOSS)));
    lose.filter_map(|(job, slowdown)| judge(ctx, job, slowdown.ratio)).collect()
}

/// Whether the bytes of two rails changed alike. A job waits for its slowest rail; if one rail alone moves less, or the
/// other more, the job uses them differently now.
fn moves_alike(ctx: &DetectorContext<'_>, a: usize, b: usize) -> bool {
    let change = |port: usize| Some(ctx.mean(Signal::Tx, port)? / ctx.baseline_mean(Signal::Tx, port)?);
    change(a).zip(change(b)).is_some_and(|(a, b)| (a - b).abs() <= DIFFERS * a.max(b))
}

fn judge(ctx: &DetectorContext<'_>, job: usize, moved: f64) -> Option<Finding> {
    let fabric = ctx.fabric;
    // Only InfiniBand tells that nothing keeps a port from sending.
    let free = |port: usize| ctx.mean(Signal::XmitWait, port).is_some_and(|wait| wait <= ctx.threshold(&WAITS));
    let ceiling = |port: usize| Ceiling::of(ctx, Signal::Tx, port);
    let siblings = |port: usize| {
        let all = fabric.ports.of_node(fabric.ports.list[port].end.node).iter().copied();
        all.filter(move |other| *other != port && fabric.jobs[job].ports.contains(other))
    };
    let falls = |port: usize| {
        let own = ceiling(port).filter(|_| free(port) && siblings(port).all(|other| moves_alike(ctx, port, other)))?;
        let others: Vec<Ceiling> = siblings(port).filter_map(ceiling).collect();
        // A rail that carried more than its siblings moved something else as well, such as a checkpoint.
        let own = own.below(others.iter().map(|other| other.before).reduce(f64::max)?);
        let alone = own.is_low(ctx) && others.iter().all(|other| other.part() > ctx.threshold(&FELL));
        alone.then_some((port, own))
    };
    let ports = fabric.jobs[job].ports.iter().copied();
    let (port, own) = ports.filter_map(falls).min_by(|a, b| a.1.top.total_cmp(&b.1.top))?;
    let text = format!(
        "{} sends at a constant rate, {} of its former highest, though it has credits, and {} loses throughput: its host \
         fetches data slowly.",
        name(ctx, port),
        percent(own.part()),
        fabric.jobs[job].id
    );
    let sent = evidence(ctx, Signal::Tx, port, own.top, ctx.threshold(&FELL) * own.before);
    let lost = of_job(ctx, Signal::Tx, job, moved, 1.0 - ctx.threshold(&LOSS));
    Some(Finding::new(IncidentKind::StragglerRail, LocationId::Port(port), 0.6, sent, text).with_evidence(lost))
}
