//! A job that moves much more than before while other jobs lose.

use crate::detectors::context::{DetectorContext, JobSlowdown};
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{marked_ports, meets_more, of_job};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "noisy_neighbour",
    warm_up_s: 15.0,
    baseline_s: 40.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// throughput of a job relative to its highest from which it is noisy
    LOUD = "noisy_neighbour.loud", 1.4, "times";
    /// growth of congestion notifications
    GROWN = "noisy_neighbour.grown", 1.4, "times usual";
    /// what another job must have lost
    LOSS = "noisy_neighbour.loss", 0.05, "share of usual bytes";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let loudest = ctx
        .slowdowns()
        .filter(|(_, slowdown)| slowdown.ratio >= ctx.threshold(&LOUD) * slowdown.highest)
        .max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let Some((job, slowdown)) = loudest else { return Vec::new() };
    let signal = |signal| {
        let now = ctx.sum(signal, ctx.ports());
        now / ctx.baseline_sum(signal, ctx.ports())
    };
    let grown = signal(Signal::CnpRx);
    let loses = |slowdown: JobSlowdown| slowdown.slowed_more_than(ctx.threshold(&LOSS));
    let lose = ctx
        .slowdowns()
        .any(|(other, slowdown)| other != job && loses(slowdown) && meets_more(ctx, other, ctx.threshold(&GROWN)));
    if !(grown >= ctx.threshold(&GROWN) && lose) {
        return Vec::new();
    }
    let id = &ctx.fabric.jobs[job].id;
    let moved = of_job(ctx, Signal::Tx, job, slowdown.ratio, ctx.threshold(&LOUD) * slowdown.highest);
    let told = Evidence { at: "fabric".to_owned(), ..of_job(ctx, Signal::CnpRx, job, grown, ctx.threshold(&GROWN)) };
    let text = format!(
        "{id} moves {:.1} times its former throughput, congestion notifications grew {grown:.1} times, and other \
         jobs lose throughput.",
        slowdown.ratio
    );
    let ports = marked_ports(ctx, job, 1.0);
    vec![
        Finding::new(IncidentKind::NoisyNeighbour, LocationId::Job(job), 0.8, moved, text)
            .with_evidence(told)
            .with_culprits(vec![job])
            .with_receivers(ports),
    ]
}
