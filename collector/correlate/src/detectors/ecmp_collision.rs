//! Flows share one of several equal-cost uplinks of a leaf while the others idle: the leaf sends no more than before,
//! one uplink carries more and a larger share, and jobs lose.

use crate::detectors::context::{DetectorContext, JobSlowdown};
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, meets_more, name, percent};
use crate::detectors::link_load::by_job;
use crate::detectors::sprayed_uplink::sprays;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use crate::model::topology::Role;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "ecmp_collision",
    warm_up_s: 20.0,
    baseline_s: 40.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// growth of a link's share of its leaf's traffic
    SHIFT = "ecmp_collision.shift", 0.1, "share of leaf";
    /// the same growth, relative to the former share
    TIMES = "ecmp_collision.times", 1.35, "times usual";
    /// growth of the link's own traffic: new flows bring their bytes, otherwise another link merely carries less
    MORE = "ecmp_collision.more", 1.2, "times usual";
    /// highest load of the link from which its flows may be slowed by it
    FULL = "ecmp_collision.full", 0.6, "share of rate";
    /// growth of the packets that it marks that shows the same: bursts fill a link that is empty on average
    MARKED = "ecmp_collision.marked", 1.4, "times usual";
    /// how far the share must exceed the highest share in any baseline window of this length
    BEYOND = "ecmp_collision.beyond", 0.03, "share of leaf";
    /// growth of the leaf's traffic up to which it is no additional load
    SAME = "ecmp_collision.same", 1.15, "times usual";
    /// throughput of a job relative to its highest from which the job is the cause, not a collision
    LOUD = "ecmp_collision.loud", 1.3, "times";
    /// growth of what the leaf's hosts send, up to which the link's growth is that of moved flows: new ones come with jobs that begin,
    /// or work in another phase
    NEW = "ecmp_collision.new", 0.7, "share of the link's growth";
    /// growth of what a host of the job receives, from which the job sends elsewhere than before: a collision slows all of its hosts
    CHANGED = "ecmp_collision.changed", 1.1, "times usual";
    /// marks, notifications or pause that a job must still meet: fewer reach one that sends less for reasons of its own
    MEETS = "ecmp_collision.meets", 0.9, "times usual";
    /// what a job must have lost
    LOSS = "ecmp_collision.loss", 0.05, "share of usual bytes";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let fabric = ctx.fabric;
    let leaves = ctx.domain.nodes.iter().copied().filter(|n| fabric.topology.nodes[*n].role == Role::Leaf);
    let mut found: Vec<Collision> = leaves.filter_map(|leaf| judge(ctx, leaf)).collect();
    found.sort_by(|a, b| b.grown.total_cmp(&a.grown));
    // A job that loses at one leaf sends less at its other leaves too, which is no second collision.
    let mut lose = BTreeSet::new();
    found.retain(|one| {
        let is_first = one.lose.is_disjoint(&lose);
        lose.extend(one.lose.iter().copied());
        is_first
    });
    found.into_iter().map(|one| one.finding).collect()
}

struct Collision {
    finding: Finding,
    /// Growth of the link's share of the leaf's traffic.
    grown: f64,
    /// Jobs of the leaf that lose.
    lose: BTreeSet<usize>,
}

fn judge(ctx: &DetectorContext<'_>, leaf: usize) -> Option<Collision> {
    let fabric = ctx.fabric;
    let limit = |row| ctx.threshold(row);
    let up = |port: &usize| fabric.peer_node(*port).is_some_and(|n| fabric.topology.nodes[n].role != Role::Host);
    let ports: Vec<usize> = fabric.ports.of_node(leaf).iter().copied().filter(up).collect();
    let (now, baseline) =
        (ctx.sum(Signal::Tx, ports.iter().copied()), ctx.baseline_sum(Signal::Tx, ports.iter().copied()));
    // Where packets are sprayed there are no flows that could collide.
    if ports.len() < 2 || sprays(ctx, leaf) || now <= 0.0 || baseline <= 0.0 || now > limit(&SAME) * baseline {
        return None;
    }
    let shift = |port: usize| Some(ctx.mean(Signal::Tx, port)? / now - ctx.baseline_mean(Signal::Tx, port)? / baseline);
    let (port, grown) = ports.iter().filter_map(|p| Some((*p, shift(*p)?))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (sent, before) = (ctx.mean(Signal::Tx, port)?, ctx.baseline_mean(Signal::Tx, port)?);
    if grown < limit(&SHIFT) || sent < limit(&MORE) * before || !is_full(ctx, port) {
        return None;
    }
    // Shares vary from one window to the next as jobs take turns.
    let part = |stretch: &[Arc<Frame>]| {
        let sent = |p: &usize| mean(stretch.iter().filter_map(|f| f.get(Signal::Tx, *p)));
        Some(sent(&port)? / ports.iter().filter_map(sent).sum::<f64>())
    };
    let long = ctx.window.ticks().min(ctx.baseline.window.ticks() / 2).max(1);
    let highest = ctx.baseline.window.frames().windows(long).filter_map(part).fold(0.0, f64::max);
    let is = part(ctx.window.frames())?;
    // Jobs whose flows leave this leaf.
    let own = || {
        ctx.slowdowns().filter(|(job, _)| fabric.jobs[*job].ports.iter().any(|p| fabric.peer_node(*p) == Some(leaf)))
    };
    let loud = own().any(|(_, slowdown)| slowdown.ratio >= limit(&LOUD) * slowdown.peak);
    let loses = |(job, slowdown): &(usize, JobSlowdown)| {
        slowdown.slowed_more_than(limit(&LOSS)) && meets_more(ctx, *job, limit(&MEETS))
    };
    let lose: BTreeSet<usize> = own().filter(loses).map(|(job, _)| job).collect();
    if sent_more(ctx, leaf) > limit(&NEW) * (sent - before) || lose.iter().any(|job| changed(ctx, *job)) {
        return None;
    }
    if is < limit(&TIMES) * before / baseline || is < highest + limit(&BEYOND) || loud || lose.is_empty() {
        return None;
    }
    let evidence = evidence(ctx, Signal::Tx, port, sent, limit(&MORE) * before);
    let text = format!(
        "{} carries {} more of its leaf's traffic than before, although the leaf sends no more: flows share this \
         uplink while parallel ones have room.{}",
        name(ctx, port),
        percent(grown),
        by_job(ctx, port)
    );
    let link = fabric.ports.list[port].link?;
    let finding = Finding::new(IncidentKind::EcmpCollision, LocationId::Link(link), 0.75, evidence, text);
    Some(Collision { finding, grown, lose })
}

/// Whether a link carries so much, or marks so many packets more than before, that its flows may be slowed by it.
fn is_full(ctx: &DetectorContext<'_>, port: usize) -> bool {
    let highest = ctx.window.max(Signal::Tx, port).zip(ctx.line_rate(port));
    let marks = [ctx.mean(Signal::Marks, port), ctx.baseline_mean(Signal::Marks, port)].map(|n| n.unwrap_or(0.0));
    highest.is_none_or(|(sent, rate)| sent >= ctx.threshold(&FULL) * rate)
        || marks[0] > ctx.threshold(&MARKED) * marks[1]
}

/// Bytes per second that hosts of a leaf send beyond their baseline. Hosts that send less are not subtracted.
fn sent_more(ctx: &DetectorContext<'_>, leaf: usize) -> f64 {
    let list = &ctx.fabric.ports.list;
    let hosts = ctx.fabric.ports.of_node(leaf).iter().filter_map(|p| list[*p].peer).filter(|p| ctx.fabric.is_host(*p));
    let more = |p| Some(ctx.mean(Signal::Tx, p)? - ctx.baseline_mean(Signal::Tx, p)?);
    hosts.filter_map(more).map(|more| more.max(0.0)).sum()
}

/// Whether a host of a job receives more than before.
fn changed(ctx: &DetectorContext<'_>, job: usize) -> bool {
    let more =
        |p: &usize| Some(ctx.mean(Signal::Rx, *p)? > ctx.threshold(&CHANGED) * ctx.baseline_mean(Signal::Rx, *p)?);
    ctx.fabric.jobs[job].ports.iter().filter_map(more).any(|more| more)
}
