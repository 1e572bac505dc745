//! Jobs that their own ranks hold back. Always an observation: it pages nobody, and says why such a
//! job is no victim of the network.

use crate::detectors::acquittal::{Acquittal, THRESHOLDS, acquittal};
use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::in_brackets;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;

pub(super) const DETECTOR: Detector = Detector {
    name: "application_straggler",
    warm_up_s: 5.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

/// Confidence: that the process is behind is certain, that it costs the job anything is not.
const SURE: f64 = 0.4;
/// Ranks that an explanation names.
const NAMED: usize = 4;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    acquitted(ctx, 0..ctx.fabric.jobs.len())
}

/// Why each of these jobs is no victim of the network; nothing for those that may be.
pub fn acquitted(ctx: &DetectorContext<'_>, jobs: impl Iterator<Item = usize>) -> Vec<Finding> {
    if ctx.fabric.collectives.is_empty() {
        return Vec::new();
    }
    let begin_ns = ctx.window.time_range_ns()[0];
    let of = |job: usize| Some((job, acquittal(ctx.fabric, ctx.thresholds, ctx.history, begin_ns, job)?));
    jobs.filter_map(of).map(|(job, found)| finding(ctx, job, &found)).collect()
}

fn finding(ctx: &DetectorContext<'_>, job: usize, found: &Acquittal<'_>) -> Finding {
    let Acquittal { communicator, ranks, hosts } = found;
    let id = &ctx.fabric.jobs[job].id;
    let root = match hosts.first() {
        Some(host) if hosts.iter().all(|other| other == host) => LocationId::Host(*host),
        _ => LocationId::Job(job),
    };
    let named = ranks.iter().take(NAMED).map(|rank| format!("rank {}{}", rank.rank, in_brackets(rank)));
    let operation = ranks.first().map_or("", |rank| &rank.operation);
    let (launching, series) = match communicator.is_mpi() {
        true => ("entering", "fabric_collective_mpi_entered_total"),
        false => ("launching", "fabric_collective_behind"),
    };
    let far = communicator.distance(operation).map(|far| format!(", by {far}")).unwrap_or_default();
    let (own, stay, their) = match ranks.len() {
        1 => ("rank", "stays", "its host's"),
        _ => ("ranks", "stay", "their hosts'"),
    };
    let text = format!(
        "Job {id} waits for its own {own}: {} of communicator {} {stay} behind in {launching} {operation}{far}, and the counters of \
         {their} ports show nothing. The network is not the reason.",
        named.collect::<Vec<_>>().join(", "),
        communicator.id
    );
    let evidence = Evidence {
        metric: series.to_owned(),
        at: id.clone(),
        value: communicator.behind.into(),
        threshold: 1.0,
        window_ns: ctx.window.time_range_ns(),
    };
    Finding::new(IncidentKind::ApplicationStraggler, root, SURE, evidence, text).with_victims(vec![job])
}
