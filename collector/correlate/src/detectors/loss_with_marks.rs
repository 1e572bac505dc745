//! Jobs that lose while more of their packets are marked.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{marked_ports, of_job, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "loss_with_marks",
    warm_up_s: 30.0,
    baseline_s: 45.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// what a job must have lost
    LOSS = "loss_with_marks.loss", 0.15, "share of usual bytes";
    /// noise up to which a job's loss says something about the fabric
    STEADY = "loss_with_marks.steady", 0.1, "share of usual bytes";
    /// how many times its noise the loss must exceed: otherwise the job merely behaves differently
    CHANCES = "loss_with_marks.chances", 2.0, "chances";
    /// growth of marked packets
    GROWN = "loss_with_marks.grown", 1.5, "times usual";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    congested_job(ctx).into_iter().collect()
}

/// The job that loses most while more of its packets are marked.
fn congested_job(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let limit = |row| ctx.threshold(row);
    let lost = |job: usize| {
        let slowdown = ctx.slowdown(job).filter(|f| f.slowed_more_than(limit(&LOSS)))?;
        // The noise of a job that rests now and then says nothing of how evenly it sends.
        let sends = slowdown.sending.filter(|(ratio, doubt)| ratio + limit(&CHANCES) * doubt < 1.0 - limit(&LOSS));
        let steady =
            slowdown.noise < limit(&STEADY) && slowdown.ratio + limit(&CHANCES) * slowdown.noise < 1.0 - limit(&LOSS);
        if !steady && sends.is_none() {
            return None;
        }
        let ports = || ctx.fabric.jobs[job].ports.iter().copied();
        let signals = [Signal::EcnRx, Signal::CnpRx];
        let grown = signals.map(|s| ctx.sum(s, ports()) / ctx.baseline_sum(s, ports())).into_iter().fold(0.0, f64::max);
        (grown >= limit(&GROWN)).then_some((job, slowdown.ratio, grown))
    };
    let (job, ratio, grown) = ctx.jobs().filter_map(lost).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fabric = ctx.fabric;
    let id = &fabric.jobs[job].id;
    let met = of_job(ctx, Signal::EcnRx, job, grown, limit(&GROWN));
    let moved = of_job(ctx, Signal::Tx, job, ratio, 1.0 - limit(&LOSS));
    let text = format!(
        "{id} moves {} of its former throughput, while {grown:.1} times as many of its packets meet congestion; \
         the counters do not show where.",
        percent(ratio)
    );
    let senders = marked_ports(ctx, job, limit(&GROWN));
    let found = Finding::new(IncidentKind::FabricCongestion, LocationId::Fabric, 0.3, met, text)
        .with_evidence(moved)
        .with_receivers(senders);
    Some(Finding { observed_at: fabric.jobs[job].ports.first().copied(), ..found })
}
