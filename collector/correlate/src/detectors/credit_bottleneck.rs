//! What a switch at the end of a credit tree is short of: more arrives for one host (incast, a loud job), the same
//! traffic takes one link instead of several, or a link carries less than its rate.

use crate::baseline::window::Window;
use crate::detectors::context::DetectorContext;
use crate::detectors::credit_tree::{Bottleneck, grown};
use crate::detectors::evidence::{evidence, name, of_job, percent};
use crate::detectors::link_load::by_job;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use crate::model::topology::Role;
use std::collections::BTreeSet;

thresholds! {
    /// share of the line rate that could not be sent, beyond the highest usual share
    HELD = "credits.held", 0.05, "share of line rate";
    /// growth of a port's traffic from which new traffic is the reason that others wait
    MORE = "credits.more", 1.2, "times usual";
    /// throughput of a job relative to its highest from which the job is loud
    LOUD = "credits.loud", 1.5, "times";
    /// growth of a leaf's traffic up to which its flows merely take other links
    SAME = "credits.same", 1.15, "times usual";
    /// load that a slow link never exceeds while others wait for it
    SLOW = "credits.slow", 0.6, "share of rate";
    /// what another job must have lost to a loud one
    LOSS = "credits.loss", 0.05, "share of usual bytes";
}

/// Share of the growth at a full port that one receiver's growth must explain.
const RECEIVES: f64 = 0.5;
/// How much higher its highest load must have been before for a link to have become slower.
const FELL: f64 = 1.25;

/// The finding for a switch where a tree ends; `None` if its traffic does not show the reason. `ends` are all such
/// switches.
pub(super) fn judge(ctx: &DetectorContext<'_>, end: &Bottleneck, ends: &[Bottleneck]) -> Option<Finding> {
    let list = &ctx.fabric.ports.list;
    let waits = |port: &usize| end.waiters.iter().any(|waiter| list[*waiter].peer == Some(*port));
    let exits: Vec<usize> =
        ctx.fabric.ports.of_node(end.node).iter().copied().filter(|p| end.waiters.len() > 1 || !waits(p)).collect();
    let more = exits.iter().filter_map(|p| Some((*p, grown(ctx, Signal::Tx, *p, ctx.threshold(&MORE))?)));
    match more.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((port, growth)) => full(ctx, end, port, growth),
        None => slow(ctx, end, ends, &exits),
    }
}

/// A port that sends more than before, and for which others wait.
fn full(ctx: &DetectorContext<'_>, end: &Bottleneck, port: usize, growth: f64) -> Option<Finding> {
    let fabric = ctx.fabric;
    let peer = fabric.ports.list[port].peer?;
    if fabric.is_host(peer) {
        return overloaded(ctx, peer, end);
    }
    let leaf = fabric.ports.list[peer].end.node;
    let behind = |host: &usize| fabric.topology.nodes[leaf].role != Role::Leaf || fabric.peer_node(*host) == Some(leaf);
    let receives = |host: usize| Some((host, grown(ctx, Signal::Rx, host, ctx.threshold(&MORE))?));
    let most = ctx.host_ports().filter(behind).filter_map(receives).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((host, _)) = most.filter(|(_, more)| *more >= RECEIVES * growth) {
        return overloaded(ctx, host, end);
    }
    let link = LocationId::Link(fabric.ports.list[port].link?);
    let sent = evidence(ctx, Signal::Tx, port, ctx.mean(Signal::Tx, port)?, ctx.baseline_mean(Signal::Tx, port)?);
    let found = |kind, sure, text| {
        Some(
            Finding::new(kind, link.clone(), sure, sent.clone(), text)
                .observed_at(port)
                .with_evidence(waited(ctx, end)),
        )
    };
    if is_moved(ctx, port) {
        let text = format!(
            "{} carries more of the traffic than before, although the leaf moves no more in total: routes send several \
             destinations over this link while parallel ones have room{}.{}",
            name(ctx, port),
            whose(ctx, end),
            by_job(ctx, port)
        );
        return found(IncidentKind::EcmpCollision, 0.8, text);
    }
    let text = format!("the traffic out of {} exceeds its link rate; the senders wait for credits.", name(ctx, port));
    found(IncidentKind::UplinkCongestion, 0.6, text)
}

/// Whether a leaf's links together carry no more than before in this port's direction.
fn is_moved(ctx: &DetectorContext<'_>, port: usize) -> bool {
    let fabric = ctx.fabric;
    let is_leaf = |port: usize| fabric.topology.nodes[fabric.ports.list[port].end.node].role == Role::Leaf;
    let between = |p: &usize| fabric.ports.list[*p].peer.is_some_and(|peer| !fabric.is_host(peer));
    let peer = |port: usize| fabric.ports.list[port].peer;
    // Up: what the leaf sends. Down: what the switches above send to it.
    let (leaf, down) = if is_leaf(port) { (Some(port), false) } else { (peer(port).filter(|p| is_leaf(*p)), true) };
    let Some(leaf) = leaf else { return false };
    let links = fabric.ports.of_node(fabric.ports.list[leaf].end.node).iter().copied().filter(between);
    let senders: Vec<usize> = links.filter_map(|p| if down { peer(p) } else { Some(p) }).collect();
    let [now, before] =
        [ctx.sum(Signal::Tx, senders.iter().copied()), ctx.baseline_sum(Signal::Tx, senders.iter().copied())];
    senders.len() > 1 && before > 0.0 && now <= ctx.threshold(&SAME) * before
}

/// A host port that more is sent to than its link carries, or the loud job that it belongs to.
pub(super) fn overloaded(ctx: &DetectorContext<'_>, host: usize, end: &Bottleneck) -> Option<Finding> {
    let fabric = ctx.fabric;
    let job = fabric.job_of(host);
    if job.is_some_and(|job| relieved(ctx, job)) {
        return None;
    }
    if let Some(found) = job.and_then(|job| loud(ctx, job, end)) {
        return Some(found);
    }
    if job.is_some_and(|job| all_receive_more(ctx, job, host)) {
        return None;
    }
    let received = ctx.mean(Signal::Rx, host).or_else(|| ctx.mean(Signal::Tx, fabric.ports.list[host].peer?));
    let before = ctx.baseline_mean(Signal::Rx, host).unwrap_or(0.0);
    let text = format!(
        "the traffic to {}{} exceeds its link rate in bursts; the host takes everything, and senders wait for credits.",
        name(ctx, host),
        job.map_or_else(String::new, |job| format!(" of {}", fabric.jobs[job].id))
    );
    let got = evidence(ctx, Signal::Rx, host, received.unwrap_or(before), before);
    let found =
        Finding::new(IncidentKind::Incast, LocationId::Port(host), 0.85, got, text).with_evidence(waited(ctx, end));
    let found = found.with_culprits(job.into_iter().collect()).with_receivers(vec![host]);
    // Storage, which jobs read and write as fast as it can.
    Some(found.harmless_if(fabric.is_outside_jobs(host)))
}

/// Whether most other hosts of a job receive more as well: it is faster, or in another phase, and sends to all of them.
fn all_receive_more(ctx: &DetectorContext<'_>, job: usize, host: usize) -> bool {
    let fabric = ctx.fabric;
    let node = |port: usize| fabric.ports.list[port].end.node;
    let more = |port: usize| Some(ctx.mean(Signal::Rx, port)? - ctx.baseline_mean(Signal::Rx, port)?);
    let ports = fabric.jobs[job].ports.iter().copied();
    let others = ports.filter(|port| node(*port) != node(host) && fabric.rail(*port) == fabric.rail(host));
    let mut others: Vec<f64> = others.filter_map(more).collect();
    others.sort_by(f64::total_cmp);
    let median = others.get(others.len() / 2).copied();
    median.zip(more(host)).is_some_and(|(median, own)| median >= RECEIVES * own)
}

/// Whether a job moves more because its ports wait less than in the baseline: it was held back then.
fn relieved(ctx: &DetectorContext<'_>, job: usize) -> bool {
    let ports = || ctx.fabric.jobs[job].ports.iter().copied();
    ctx.baseline_sum(Signal::XmitWait, ports()) - ctx.sum(Signal::XmitWait, ports()) >= ctx.threshold(&HELD)
}

/// A job that moves far more than it ever did. InfiniBand without congestion control sends no notifications, so its bytes
/// and the waits of others prove it.
fn loud(ctx: &DetectorContext<'_>, job: usize, end: &Bottleneck) -> Option<Finding> {
    let slowdown = ctx.slowdown(job).filter(|s| s.ratio >= ctx.threshold(&LOUD) * s.highest)?;
    if regained(ctx, job) {
        return None;
    }
    let lose = ctx.slowdowns().any(|(other, s)| other != job && s.lost_more_than(ctx.threshold(&LOSS)));
    let kind = if lose { IncidentKind::NoisyNeighbour } else { IncidentKind::Incast };
    let moved = of_job(ctx, Signal::Tx, job, slowdown.ratio, ctx.threshold(&LOUD) * slowdown.highest);
    let text = format!(
        "{} moves {:.1} times its former throughput, and ports on its paths wait for credits{}.",
        ctx.fabric.jobs[job].id,
        slowdown.ratio,
        if lose { "; other jobs lose throughput" } else { "" }
    );
    let receives = |port: &usize| grown(ctx, Signal::Rx, *port, ctx.threshold(&MORE)).is_some();
    let receivers = ctx.fabric.jobs[job].ports.iter().copied().filter(receives).collect();
    let found = Finding::new(kind, LocationId::Job(job), 0.85, moved, text).with_evidence(waited(ctx, end));
    Some(found.with_culprits(vec![job]).with_receivers(receivers))
}

/// Whether a job moves no more than it did before the baseline, when it may have been slowed down.
fn regained(ctx: &DetectorContext<'_>, job: usize) -> bool {
    let [began_ns, _] = ctx.baseline.window.time_range_ns();
    let before = ctx.history.frames().iter().filter(|frame| frame.time_ns < began_ns).cloned();
    let loads = Window::new(before.collect()).load(ctx.fabric, job);
    let now = mean(ctx.window.load(ctx.fabric, job).into_iter()).unwrap_or(0.0);
    let usual = loads.windows(ctx.window.ticks().max(1)).filter_map(|part| mean(part.iter().copied()));
    now < ctx.threshold(&LOUD) * usual.fold(0.0, f64::max)
}

/// Others wait although no port of the switch sends more than before: a link carries less than it did.
fn slow(ctx: &DetectorContext<'_>, end: &Bottleneck, ends: &[Bottleneck], exits: &[usize]) -> Option<Finding> {
    let fabric = ctx.fabric;
    let list = &fabric.ports.list;
    let errors = |port: usize| {
        let ends = [Some(port), list[port].peer];
        ends.into_iter().flatten().any(|p| ctx.mean(Signal::WireErrors, p).is_some_and(|rate| rate > 0.0))
    };
    if exits.iter().any(|port| errors(*port)) {
        return None;
    }
    let between = |port: &usize| list[*port].peer.is_some_and(|peer| !fabric.is_host(peer));
    let max = |window: &Window, port| Some(window.max(Signal::Tx, port)? / ctx.line_rate(port)?);
    // Both directions of a slow link are full: two branches end at its two switches.
    let both =
        |port: &usize| ends.iter().any(|other| other.node != end.node && fabric.peer_node(*port) == Some(other.node));
    let light = |port: &usize| max(ctx.window, *port).is_some_and(|load| load <= ctx.threshold(&SLOW));
    let fell = |port: &usize| {
        let before = max(&ctx.baseline.window, *port).unwrap_or(0.0);
        light(port) && before > ctx.threshold(&SLOW) && max(ctx.window, *port).is_some_and(|load| before >= FELL * load)
    };
    let one = |so: &dyn Fn(&usize) -> bool| {
        let mut all = exits.iter().copied().filter(between).filter(so);
        all.next().filter(|_| all.next().is_none())
    };
    let (port, sure) = one(&|p| both(p) && light(p)).map(|p| (p, 0.8)).or_else(|| one(&fell).map(|p| (p, 0.65)))?;
    let load = max(ctx.window, port)?;
    let sent = evidence(ctx, Signal::Tx, port, load, ctx.threshold(&SLOW));
    let text = format!(
        "ports wait for the link at {}, although it carries no more than before and never more than {} of its rate: it \
         is slower than it reports.",
        name(ctx, port),
        percent(load)
    );
    let found = Finding::new(IncidentKind::DegradedLink, LocationId::Link(list[port].link?), sure, sent, text);
    Some(found.with_evidence(waited(ctx, end)).as_inferred())
}

/// The wait that a bottleneck causes.
fn waited(ctx: &DetectorContext<'_>, end: &Bottleneck) -> Evidence {
    let first = end.waiters.first().copied().unwrap_or_default();
    let wait = |port: &usize| ctx.mean(Signal::XmitWait, *port).unwrap_or(0.0);
    let worst = end.waiters.iter().copied().max_by(|a, b| wait(a).total_cmp(&wait(b))).unwrap_or(first);
    evidence(ctx, Signal::XmitWait, worst, wait(&worst), wait(&worst) - end.share)
}

/// Jobs whose hosts wait for the bottleneck, as part of a sentence.
fn whose(ctx: &DetectorContext<'_>, end: &Bottleneck) -> String {
    let jobs = end.waiters.iter().filter_map(|port| ctx.fabric.job_of(*port));
    let jobs: BTreeSet<&str> = jobs.map(|job| ctx.fabric.jobs[job].id.as_str()).collect();
    let names: Vec<&str> = jobs.into_iter().collect();
    if names.is_empty() { String::new() } else { format!(" ({} waits)", names.join(", ")) }
}
