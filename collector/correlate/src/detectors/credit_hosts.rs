//! What hosts alone show of missing credits: a host that waits says only that somebody ahead is slow. The one host that
//! receives more than before, while others wait, is overloaded.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_bottleneck::{MORE, overloaded};
use crate::detectors::credit_tree::{Bottleneck, CreditTree, grown};
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

thresholds! {
    /// highest receive rate of a host that may drain slowly, seen from hosts alone
    FELL = "credits.ceiling", 0.7, "times usual";
    /// share of its busy samples at that rate
    FLAT = "credits.flat", 0.45, "share of samples";
}

/// Samples above the ceiling that may be chance, and how near to it a sample counts as on it.
const TOP: usize = 2;
const NEAR: f64 = 0.93;
/// Share of its former highest rate below which a host receives too little to show at which rate it drains.
const LEAST: f64 = 0.05;
/// How much more one host's growth must be than that of any other host.
const ALONE: f64 = 2.0;

/// The overloaded host, or else a host that may drain slowly.
pub(super) fn judge(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    overload(ctx, tree).or_else(|| ceiling(ctx, tree))
}

/// A host that receives at a constant rate far below what it did, less than any other of its job: it drains its buffer
/// no faster. A slow link ahead of it looks alike if it carries the traffic of this host alone, so this is a suspicion.
fn ceiling(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    let (waiter, wait) = tree.worst()?;
    let job = ctx.fabric.job_of(waiter);
    let top = |port: usize| ceiling_of(ctx, Signal::Rx, port).map(|(top, flat)| (port, top, flat));
    let ports = job.map(|job| ctx.fabric.jobs[job].ports.clone())?;
    let rail = |port: &usize| ctx.fabric.rail(*port) == ctx.fabric.rail(waiter);
    let (port, most, flat) = ports.into_iter().filter(rail).filter_map(top).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let before = ctx.baseline.window.max(Signal::Rx, port)?;
    if port == waiter || most < LEAST * before || most > ctx.threshold(&FELL) * before || flat < ctx.threshold(&FLAT) {
        return None;
    }
    let text = format!(
        "{} waits for credits, and {} of the same job receives at a constant rate, {} of its former highest: its host \
         may drain the receive buffer slowly. The switches' counters would show it.",
        name(ctx, waiter),
        name(ctx, port),
        percent(most / before)
    );
    let got = evidence(ctx, Signal::Rx, port, most, ctx.threshold(&FELL) * before);
    let waits = evidence(ctx, Signal::XmitWait, waiter, wait, 0.0);
    let found = Finding::new(IncidentKind::SlowReceiver, LocationId::Port(port), 0.45, got, text);
    Some(found.with_evidence(waits).as_inferred())
}

/// The highest rate of a port in the window but for a few samples, and the share of its busy samples that are near it.
pub(super) fn ceiling_of(ctx: &DetectorContext<'_>, signal: Signal, port: usize) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = ctx.window.values(signal, port).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let top = *values.get(TOP)?;
    let busy: Vec<f64> = values.into_iter().filter(|rate| *rate >= 0.5 * top).collect();
    let flat = busy.iter().filter(|rate| **rate >= NEAR * top).count() as f64 / busy.len() as f64;
    Some((top, flat))
}

fn overload(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    let node = |port: usize| ctx.fabric.ports.list[port].end.node;
    let receives = |host: usize| Some((host, grown(ctx, Signal::Rx, host, ctx.threshold(&MORE))?));
    let all: Vec<(usize, f64)> = ctx.host_ports().filter_map(receives).collect();
    let (host, most) = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let same_job = |other: usize| ctx.fabric.job_of(other).is_some_and(|job| ctx.fabric.job_of(host) == Some(job));
    let alone = all.iter().all(|(other, more)| node(*other) == node(host) || same_job(*other) || most >= ALONE * more);
    let (_, share) = tree.worst()?;
    let end = Bottleneck { node: node(host), waiters: tree.waits.keys().copied().collect(), share };
    alone.then(|| overloaded(ctx, host, &end))
}
