//! A job whose RDMA stopped while its TCP took over, or that never used RDMA. It runs, but many times slower than it
//! could.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::of_job;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "tcp_fallback",
    warm_up_s: 30.0,
    baseline_s: 20.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// RDMA traffic, relative to the baseline, below which it has stopped
    CEASED = "tcp_fallback.rdma_left", 0.1, "times usual";
    /// growth of TCP traffic, relative to former RDMA traffic
    TAKEN = "tcp_fallback.tcp_grown", 0.1, "share of usual RDMA";
    /// TCP load of the job's links from which a job without RDMA should use it
    ALL = "tcp_fallback.tcp_only", 0.05, "share of rate";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    ctx.jobs().filter_map(|job| judge(ctx, job)).collect()
}

fn judge(ctx: &DetectorContext<'_>, job: usize) -> Option<Finding> {
    let ports = || ctx.fabric.jobs[job].ports.iter().copied();
    // Without RDMA ports the job has nothing else to use.
    ports().find(|p| ctx.mean(Signal::RdmaTx, *p).is_some())?;
    let (rdma, tcp) = (ctx.sum(Signal::RdmaTx, ports()), ctx.sum(Signal::NetdevTx, ports()));
    let (rdma_before, tcp_before) =
        (ctx.baseline_sum(Signal::RdmaTx, ports()), ctx.baseline_sum(Signal::NetdevTx, ports()));
    let id = &ctx.fabric.jobs[job].id;
    let taken = ctx.threshold(&TAKEN) * rdma_before;
    if rdma_before > tcp_before && rdma < ctx.threshold(&CEASED) * rdma_before && tcp - tcp_before >= taken {
        let grown = of_job(ctx, Signal::NetdevTx, job, tcp, tcp_before + taken);
        let ceased = of_job(ctx, Signal::RdmaTx, job, rdma, ctx.threshold(&CEASED) * rdma_before);
        let text = format!(
            "RDMA of {id} has stopped, and TCP carries {:.1} times its former traffic.",
            tcp / tcp_before.max(1.0)
        );
        let found = Finding::new(IncidentKind::TcpFallback, LocationId::Job(job), 0.7, grown, text);
        return Some(found.with_evidence(ceased).with_culprits(vec![job]));
    }
    let rate: f64 = ports().filter_map(|p| ctx.line_rate(p)).sum();
    let least = ctx.threshold(&ALL) * rate;
    let never = rdma <= 0.0 && rdma_before <= 0.0;
    (never && least > 0.0 && tcp >= least).then(|| {
        let evidence = of_job(ctx, Signal::NetdevTx, job, tcp, least);
        let text = format!("{id} sends everything over TCP, although its hosts have RDMA ports.");
        Finding::new(IncidentKind::TcpFallback, LocationId::Job(job), 0.45, evidence, text).with_culprits(vec![job])
    })
}
