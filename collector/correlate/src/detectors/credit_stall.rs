//! An InfiniBand adapter that gives no credits at all. Its switch discards what has waited for the head-of-queue
//! lifetime; from hosts alone, it receives nothing while its peers wait.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_tree::{CreditTree, credit_wait};
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "credit_stall",
    warm_up_s: 10.0,
    baseline_s: 10.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// packets that a switch discards at its port to a host that is up
    DISCARDS = "credit_stall.discards", 10.0, "packets in 10 s";
    /// share of samples in which a host receives nothing
    SILENT = "credit_stall.silent", 0.5, "share of samples";
    /// what counts as nothing
    NOTHING = "credit_stall.nothing", 0.005, "times usual";
    /// wait of others, beyond the usual
    HELD = "credit_stall.held", 0.1, "share of line rate";
}

/// How many times more often it must receive nothing than any other host: those behind it wait too.
const ALONE: f64 = 2.0;
/// Load in the baseline from which silence says something, as a share of the line rate.
const USED: f64 = 0.02;
/// Samples that are needed.
const SAMPLES: usize = 4;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let discards: Vec<Finding> = ctx.host_ports().filter_map(|host| discards(ctx, host)).collect();
    // Where switches report their waits, the tree of waits tells more than silence does.
    if discards.is_empty() && !ctx.switches_report(Signal::XmitWait) {
        silent(ctx).into_iter().collect()
    } else {
        discards
    }
}

/// Its switch discards packets for it.
fn discards(ctx: &DetectorContext<'_>, host: usize) -> Option<Finding> {
    let port = ctx.fabric.ports.list[host].peer?;
    // Only InfiniBand has credits. Exporters do not report what a switch's port waits.
    credit_wait(ctx, port).or_else(|| credit_wait(ctx, host))?;
    let dropped = ctx.count(Signal::Discards, port)?;
    let least = ctx.threshold(&DISCARDS);
    // What is sent to a link that is down is discarded too.
    if dropped < least || is_down(ctx, port) || is_down(ctx, host) {
        return None;
    }
    let began = ctx.first_time(|f| f.get(Signal::Discards, port).is_some_and(|rate| rate > 0.0));
    let text = format!(
        "{} gives its switch no credits: the switch discarded {dropped:.0} packets for it at the end of their lifetime.",
        name(ctx, host)
    );
    let lost = evidence(ctx, Signal::Discards, port, dropped / ctx.seconds(), least / ctx.seconds());
    let found = Finding::new(IncidentKind::CreditStall, LocationId::Port(host), 0.95, lost, text);
    Some(found.began_at(began).observed_at(port))
}

fn is_down(ctx: &DetectorContext<'_>, port: usize) -> bool {
    ctx.window.values(Signal::Up, port).any(|up| up <= 0.0)
}

/// The one host that receives nothing while others wait for credits.
fn silent(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let (waiter, wait) = CreditTree::of(ctx, ctx.threshold(&HELD)).worst()?;
    let silence = |host: usize| {
        let usual = ctx.baseline_mean(Signal::Rx, host)?;
        if usual < USED * ctx.line_rate(host)? || is_down(ctx, host) {
            return None;
        }
        let values: Vec<f64> = ctx.window.values(Signal::Rx, host).collect();
        let nothing = values.iter().filter(|rate| **rate <= ctx.threshold(&NOTHING) * usual).count();
        (values.len() >= SAMPLES).then(|| (host, nothing as f64 / values.len() as f64))
    };
    let mut hosts: Vec<(usize, f64)> = ctx.host_ports().filter_map(silence).collect();
    hosts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ((host, share), next) = (*hosts.first()?, hosts.get(1).map_or(0.0, |next| next.1));
    if share < ctx.threshold(&SILENT) || share < ALONE * next {
        return None;
    }
    let usual = ctx.baseline_mean(Signal::Rx, host)?;
    let least = ctx.threshold(&NOTHING) * usual;
    let began = ctx.first_time(|f: &Frame| f.get(Signal::Rx, host).is_some_and(|rate| rate <= least));
    let text = format!(
        "{} receives nothing in {} of the samples, and {} waits for credits: its host does not drain the receive buffer.",
        name(ctx, host),
        percent(share),
        name(ctx, waiter)
    );
    let got = evidence(ctx, Signal::Rx, host, ctx.mean(Signal::Rx, host)?, least);
    let waits = evidence(ctx, Signal::XmitWait, waiter, wait, ctx.threshold(&HELD));
    let found = Finding::new(IncidentKind::CreditStall, LocationId::Port(host), 0.8, got, text);
    Some(found.began_at(began).with_evidence(waits))
}
