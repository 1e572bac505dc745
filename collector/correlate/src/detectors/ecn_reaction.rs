//! Receivers that do not notify senders of congestion, and senders that do not slow down.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, nth};
use crate::detectors::pause::is_paused;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;

pub(super) const DETECTOR: Detector = Detector {
    name: "ecn_reaction",
    warm_up_s: 10.0,
    baseline_s: 10.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// quantile of samples by number of marks below which a notification need not follow
    FAINT = "ecn_reaction.faint", 0.5, "share of samples";
    /// lowest chance that a marked sample passes without a notification; a few seconds of baseline cannot prove a
    /// smaller one
    CHANCE = "ecn_reaction.chance", 0.05, "chance";
    /// chance below which silence is no coincidence, among many hosts and many seconds
    IMPOSSIBLE = "ecn_reaction.impossible", 1e-8, "chance";
    /// growth of notifications from which a sender should send less
    MORE = "ecn_reaction.more", 3.0, "times usual";
    /// notifications to one port below which it need not react
    FEW = "ecn_reaction.notifications", 2_000.0, "per second";
    /// share of its former rate from which a sender did not react
    SAME = "ecn_reaction.same", 0.85, "times usual";
    /// load below which a sender does not matter
    SENDS = "ecn_reaction.sends", 0.1, "share of rate";
    /// ports that fail to react at the same time
    PORTS = "ecn_reaction.ports", 2.0, "ports";
    /// least throughput of their job
    LEAST = "ecn_reaction.job_least", 0.9, "times usual";
    /// highest throughput of their job: a job that sends more is notified more often, which is no fault
    MOST = "ecn_reaction.job_most", 1.3, "times usual";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    [silent_receivers(ctx), deaf_senders(ctx)].into_iter().flatten().collect()
}

fn found(root: LocationId, confidence: f64, evidence: Evidence, explanation: String) -> Finding {
    Finding::new(IncidentKind::EcnMisconfigured, root, confidence, evidence, explanation)
}

/// Receivers that get marked packets and send no notification, for too long to be a coincidence.
fn silent_receivers(ctx: &DetectorContext<'_>) -> Option<Finding> {
    // Candidates are few, and the baseline of all hosts is expensive to read.
    let never = |port: &usize| {
        ctx.mean(Signal::CnpTx, *port) == Some(0.0) && ctx.mean(Signal::EcnRx, *port).is_some_and(|marks| marks > 0.0)
    };
    let suspects: Vec<usize> = ctx.host_ports().filter(never).collect();
    if suspects.is_empty() {
        return None;
    }
    // How often a sample with that many marks usually passes without a notification, on any host.
    let marked = |frame: &Frame, port| frame.get(Signal::EcnRx, port).filter(|marks| *marks > 0.0);
    let quiet = |frame: &Frame, port| frame.get(Signal::CnpTx, port) == Some(0.0);
    let mut baseline: Vec<(f64, bool)> = Vec::new();
    for frame in ctx.baseline.window.frames() {
        let hosts = ctx.host_ports();
        baseline.extend(hosts.filter_map(|p| Some((marked(frame, p)?, quiet(frame, p)))));
    }
    baseline.sort_by(|a, b| a.0.total_cmp(&b.0));
    let faint = nth(&baseline, ctx.threshold(&FAINT))?.0;
    let many = baseline.iter().filter(|u| u.0 >= faint);
    let chance = mean(many.map(|u| if u.1 { 1.0 } else { 0.0 }))?.max(ctx.threshold(&CHANCE));
    let silent = |port: usize| {
        let frames = || ctx.window.frames().iter().filter(move |f| marked(f, port).is_some_and(|m| m >= faint));
        let ticks = frames().count();
        (chance.powi(ticks as i32) < ctx.threshold(&IMPOSSIBLE)).then_some((port, ticks))
    };
    let (port, ticks) = suspects.into_iter().filter_map(silent).max_by_key(|s| s.1)?;
    let marks = ctx.mean(Signal::EcnRx, port)?;
    let got = evidence(ctx, Signal::EcnRx, port, marks, faint);
    let passed = evidence(ctx, Signal::CnpTx, port, chance.powi(ticks as i32), ctx.threshold(&IMPOSSIBLE));
    let text = format!(
        "{} received marked packets in {ticks} samples and sent no notification: its senders are not notified to \
         slow down.",
        name(ctx, port)
    );
    let passed = Evidence { metric: "chance_of_no_notification".to_owned(), ..passed };
    Some(found(LocationId::Port(port), 0.9, got, text).with_evidence(passed).with_receivers(vec![port]))
}

/// A port that sends as before although it is notified: its notifications and rate, each with the threshold.
struct Deaf {
    port: usize,
    told: f64,
    many: f64,
    sent: f64,
    same: f64,
}

/// Senders that are notified to slow down and do not.
fn deaf_senders(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let deaf = |port: usize| {
        // Few ports are notified that often, and the baseline is expensive to sum.
        let told = ctx.mean(Signal::CnpRx, port).filter(|told| *told >= ctx.threshold(&FEW))?;
        let before = ctx.baseline_mean(Signal::CnpRx, port)?;
        let (sent, baseline) = (ctx.mean(Signal::Tx, port)?, ctx.baseline_mean(Signal::Tx, port)?);
        let same = (ctx.threshold(&SAME) * baseline).max(ctx.threshold(&SENDS) * ctx.line_rate(port)?);
        let many = ctx.threshold(&FEW).max(ctx.threshold(&MORE) * before);
        // Backpressure reaches the senders that do not slow down before all others.
        (told >= many && sent >= same && is_paused(ctx, port)).then_some(Deaf { port, told, many, sent, same })
    };
    let mut ports: Vec<Deaf> = ctx.host_ports().filter_map(deaf).collect();
    ports.sort_by(|a, b| b.told.total_cmp(&a.told));
    let &Deaf { port: worst, told, many, sent, same } = ports.first()?;
    // A job that sends more than before is notified more often, which is no fault.
    let job = ctx.fabric.job_of(worst)?;
    let slowdown = ctx.slowdown(job)?;
    let as_before = ctx.threshold(&LEAST)..ctx.threshold(&MOST);
    if (ports.len() as f64) < ctx.threshold(&PORTS) || !as_before.contains(&slowdown.ratio) {
        return None;
    }
    let told_of = evidence(ctx, Signal::CnpRx, worst, told, many);
    let sends = evidence(ctx, Signal::Tx, worst, sent, same);
    let text = format!(
        "{} and {} more ports of {} get {told:.0} congestion notifications per second and send as much as before, \
         until they are paused: they do not react to notifications.",
        name(ctx, worst),
        ports.len() - 1,
        ctx.fabric.jobs[job].id
    );
    Some(found(LocationId::Port(worst), 0.88, told_of, text).with_evidence(sends))
}
