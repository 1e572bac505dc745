//! InfiniBand congestion. There is no pause but credits: a port with data and without credits (or that loses
//! arbitration) counts what it could not send. What is usual of a port is no trouble: flows that share a link wait for
//! each other. With switch counters the tree of waits names the location.

use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::credit_bottleneck::{self, HELD};
use crate::detectors::credit_tree::{CreditTree, credit_wait};
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::detectors::{credit_hosts, deadlock};
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const HOT_ROW: Detector = Detector {
    name: "credits_hot",
    warm_up_s: HOT_S,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run: hot,
};

pub(super) const GROWN_ROW: Detector = Detector {
    name: "credits",
    warm_up_s: 10.0,
    baseline_s: 20.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: credit_bottleneck::THRESHOLDS,
    run: more,
};

/// How many times the least wait proves a slow receiver at once.
const CERTAIN: f64 = 1.5;
/// Seconds of a window without a baseline: bursts last seconds.
const HOT_S: f64 = 30.0;

thresholds! {
    /// share of the line rate that could not be sent, over half a minute
    HOT = "credits_hot.held", 0.2, "share of line rate";
}

/// Ports that wait half a minute, whatever is usual: the collector may have started in the middle of it.
fn hot(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if ctx.seconds() < HOT_S {
        return Vec::new();
    }
    let least = ctx.threshold(&HOT);
    let waits = |port: usize| {
        let share = credit_wait(ctx, port)?;
        (share >= least && is_known(ctx, port)).then_some((port, share))
    };
    let host =
        |(port, share): (usize, f64)| Some(slow_receiver(ctx, ctx.fabric.ports.list[port].peer?, port, share, least));
    let to_host = |(port, _): &(usize, f64)| ctx.fabric.ports.list[*port].peer.is_some_and(|p| ctx.fabric.is_host(p));
    let mut hosts: Vec<(usize, f64)> = ctx.ports().filter_map(waits).filter(to_host).collect();
    hosts.sort_by(|a, b| b.1.total_cmp(&a.1));
    if !hosts.is_empty() {
        return hosts.into_iter().filter_map(host).collect();
    }
    let worst = ctx.ports().filter_map(waits).max_by(|a, b| a.1.total_cmp(&b.1));
    worst.into_iter().map(|(port, share)| cycle_or_unknown(ctx, port, share, least)).collect()
}

/// Whether the waits of a port are known for two thirds of the window: a port that is read since a moment has not waited half
/// a minute for all we know.
fn is_known(ctx: &DetectorContext<'_>, port: usize) -> bool {
    let frames = ctx.window.frames();
    3 * frames.iter().filter(|frame| frame.get(Signal::XmitWait, port).is_some()).count() >= 2 * frames.len()
}

/// Ports that wait more than usual, in a window with samples of all switches: where hosts are read more often, their newest
/// waits would else be compared with what switches carried before.
fn more(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    match ctx.until_all_switches() {
        None => grown(ctx),
        Some(earlier) => grown(&ctx.with_window(&earlier, &SlowdownCache::new())),
    }
}

fn grown(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let least = ctx.threshold(&HELD);
    let tree = CreditTree::of(ctx, least);
    let Some((worst, share)) = tree.worst() else { return Vec::new() };
    let receivers = tree.receivers(ctx);
    if !receivers.is_empty() {
        let found = |(host, port, share)| slow_receiver(ctx, host, port, share, least);
        return receivers.into_iter().map(found).collect();
    }
    // What is usual of a fabric is unknown while one of its jobs is new.
    if ctx
        .jobs()
        .any(|job| ctx.baseline.job(ctx.fabric, job).is_none() && ctx.slowdown(job).is_none() && moves(ctx, job))
    {
        return Vec::new();
    }
    let ends = tree.bottlenecks(ctx);
    let mut found: Vec<Finding> = Vec::new();
    for end in &ends {
        let longest = end.waiters.iter().copied().max_by(|a, b| tree.waits[a].total_cmp(&tree.waits[b]));
        let first = longest.and_then(|port| began(ctx, port, tree.waits[&port]));
        let one = credit_bottleneck::judge(ctx, end, &ends).map(|finding| finding.began_at(first));
        found.extend(one.filter(|one| !found.iter().any(|known| known.is_same_as(one))));
    }
    if found.is_empty() && !ctx.switches_report(Signal::XmitWait) {
        found.extend(credit_hosts::judge(ctx, &tree));
    }
    if found.is_empty() {
        found.push(cycle_or_unknown(ctx, worst, share, least));
    }
    found
}

/// When a port began to wait more than usual: from then on the sum of what it waits beyond half of the growth is largest.
/// Single samples exceed the usual before as well.
fn began(ctx: &DetectorContext<'_>, port: usize, growth: f64) -> Option<i64> {
    let level = ctx.mean(Signal::XmitWait, port)? - growth / 2.0;
    let (mut sum, mut most, mut at_ns) = (0.0, 0.0, None);
    for frame in ctx.window.frames().iter().rev() {
        sum += frame.get(Signal::XmitWait, port).map_or(0.0, |wait| wait - level);
        if sum > most {
            (most, at_ns) = (sum, Some(frame.time_ns));
        }
    }
    at_ns
}

fn moves(ctx: &DetectorContext<'_>, job: usize) -> bool {
    ctx.fabric.jobs[job].ports.iter().any(|port| ctx.mean(Signal::Tx, *port).is_some_and(|rate| rate > 0.0))
}

/// A host forwards nothing: a host that gives its switch no credits is the cause.
fn slow_receiver(ctx: &DetectorContext<'_>, host: usize, port: usize, share: f64, least: f64) -> Finding {
    let began = began(ctx, port, share);
    let text = format!(
        "{} gives its switch no credits {} of the time: its host does not drain the receive buffer.",
        name(ctx, host),
        percent(share)
    );
    let waits = evidence(ctx, Signal::XmitWait, port, share, least);
    let found = Finding::new(IncidentKind::SlowReceiver, LocationId::Port(host), 0.9, waits, text).began_at(began);
    let found = found.observed_at(port);
    // A little more than the least may be a hiccup.
    if share < CERTAIN * least { found.as_inferred() } else { found }
}

/// A cycle of waits, or congestion without a known cause.
fn cycle_or_unknown(ctx: &DetectorContext<'_>, worst: usize, share: f64, least: f64) -> Finding {
    let waits = evidence(ctx, Signal::XmitWait, worst, share, least);
    let began = began(ctx, worst, share);
    if let Some(found) = deadlock::find(ctx, worst, None, &waits) {
        return found.began_at(began);
    }
    let text = format!(
        "{} could not send {} of its link rate (no credits, or lost arbitration); the counters do not show where that \
         begins.",
        name(ctx, worst),
        percent(share)
    );
    Finding::new(IncidentKind::FabricCongestion, LocationId::Fabric, 0.4, waits, text)
        .began_at(began)
        .observed_at(worst)
}
