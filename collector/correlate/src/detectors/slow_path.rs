//! Slow or shared links between switches, from hosts alone: some ports of a job send and receive far below what they did, while
//! others of it reach their former rate. What the paths of the slow pairs have in common is narrowed by the congestion
//! notifications of each pair and by the delay of probes. Not on InfiniBand: there a host that drains slowly holds back all flows that
//! share a buffer with its own, so the links that slow pairs have in common need not be slow.

use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::credit_tree::credit_wait;
use crate::detectors::detector::Detector;
use crate::detectors::ecmp_collision::FULL;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::hosts_alone::judges;
use crate::detectors::link_load::by_job;
use crate::detectors::path_votes::share;
use crate::detectors::slow_pairs::{FELL, SlowPair, slow_pairs};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::routes::QueuePair;
use crate::model::routes::probes::LinkProbes;
use crate::model::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "slow_path",
    warm_up_s: 20.0,
    baseline_s: 20.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// what the job of the slow ports must have lost
    LOSS = "slow_path.loss", 0.1, "share of usual bytes";
    /// votes of the slow pairs, relative to the first link, from which a link fits as well
    ALIKE = "slow_path.alike", 0.75, "share of votes";
    /// growth of the mean delay of probes over a link, relative to the link between switches where it is longest, that says that
    /// its queue grew
    DELAYED = "slow_path.delayed", 0.8, "share of nanoseconds";
    /// answered probes over a link that a mean delay needs
    PROBES = "slow_path.probes", 15.0, "probes";
    /// ports at the ends of these probes: with fewer, one slow host looks like a slow link
    ENDS = "slow_path.ends", 4.0, "ports";
}

/// Shortest time of probes that is compared, nanoseconds: their results are complete 15 s later.
const PROBED_NS: i64 = 45_000_000_000;
/// Time before the end of the baseline in which a queue pair is as new, nanoseconds: a slow onset may be part of it.
const SETTLES_NS: i64 = 20_000_000_000;
/// Highest samples that may be chance.
const TOP: usize = 2;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if !judges(ctx, Signal::Tx, &[Signal::PauseTx]) {
        return Vec::new();
    }
    let [begin_ns, end_ns] = ctx.window.time_range_ns();
    let probed_ns = [begin_ns.min(end_ns - PROBED_NS), end_ns];
    // Of a longer window, the first samples may be from before it began.
    let window = ctx.window.last((DETECTOR.warm_up_s / ctx.step_s).ceil() as usize);
    let slowdowns = SlowdownCache::new();
    let ctx = &ctx.with_window(&window, &slowdowns);
    let slow: Vec<SlowPair> = ctx
        .slowdowns()
        .filter(|(_, slowdown)| slowdown.lost_more_than(ctx.threshold(&LOSS)))
        .flat_map(|(job, _)| slow_pairs(ctx, job))
        .filter(|pair| credit_wait(ctx, pair.from).is_none())
        .collect();
    judge(ctx, &slow, probed_ns).into_iter().collect()
}

/// Growth of the mean delay of probes over links between switches, nanoseconds; nothing of links with too few probes.
fn delays(ctx: &DetectorContext<'_>, now_ns: [i64; 2]) -> BTreeMap<usize, f64> {
    let of = |span_ns| {
        let mut links: BTreeMap<usize, LinkProbes> = BTreeMap::new();
        for (link, probes) in ctx.fabric.routes.probes.within(span_ns).flat_map(|window| &window.links) {
            links.entry(*link).or_default().merge(probes);
        }
        let few = |probes: &LinkProbes| {
            f64::from(probes.answered) < ctx.threshold(&PROBES) || (probes.ends.len() as f64) < ctx.threshold(&ENDS)
        };
        links.retain(|link, probes| !few(probes) && ctx.fabric.is_between_switches(*link));
        links
    };
    let mean = |probes: &LinkProbes| probes.delay_ns / f64::from(probes.answered);
    let (now, before) = (of(now_ns), of(ctx.baseline.window.time_range_ns()));
    let grown =
        |(link, probes): (&usize, &LinkProbes)| (*link, (mean(probes) - before.get(link).map_or(0.0, mean)).max(0.0));
    now.iter().map(grown).collect()
}

fn judge(ctx: &DetectorContext<'_>, slow: &[SlowPair], probed_ns: [i64; 2]) -> Option<Finding> {
    let notifications: f64 = slow.iter().map(|pair| pair.notifications).sum();
    // Where no port counts notifications, all slow pairs count alike.
    let counted = slow.iter().any(|pair| ctx.mean(Signal::CnpRx, pair.from).is_some());
    let weight = |pair: &SlowPair| {
        if !counted {
            1.0 / slow.len() as f64
        } else if notifications > 0.0 {
            pair.notifications / notifications
        } else {
            0.0
        }
    };
    let links: BTreeSet<usize> =
        slow.iter().flat_map(|p| &p.paths).flat_map(|path| path.hops.iter().copied()).collect();
    let between = links.into_iter().filter(|link| ctx.fabric.is_between_switches(*link));
    let votes = |link: usize| slow.iter().map(|pair| weight(pair) * share(&pair.paths, link)).sum::<f64>();
    let votes: BTreeMap<usize, f64> = between.map(|link| (link, votes(link))).collect();
    let most = votes.values().copied().fold(0.0, f64::max);
    let delays = delays(ctx, probed_ns);
    // A slow link is slow in both directions.
    let delay = |link: &usize| {
        let back = ctx.fabric.ports.list[*link].peer.and_then(|peer| delays.get(&peer));
        delays.get(link).into_iter().chain(back).copied().fold(0.0, f64::max)
    };
    let longest = delays.values().copied().fold(0.0, f64::max);
    let among = votes.keys().map(delay).fold(0.0, f64::max);
    let score = |link: &usize| votes[link] / most + if among > 0.0 { delay(link) / among } else { 0.0 };
    let mut best = votes.keys().copied().max_by(|a, b| score(a).total_cmp(&score(b))).filter(|_| most > 0.0)?;
    // Pairs that meet the queue, and whose path is exactly known if any is.
    let over = |link: usize| {
        let meets = |pair: &&SlowPair| share(&pair.paths, link) > 0.0 && (pair.notifications > 0.0 || !counted);
        let (exact, others): (Vec<_>, Vec<_>) = slow.iter().filter(meets).partition(|pair| pair.is_exact());
        if exact.is_empty() { others } else { exact }
    };
    let (senders, load) = load(ctx, &over(best));
    let rate = ctx.fabric.nominal_rate(best).or_else(|| ctx.line_rate(slow[0].from))?;
    let collides = senders >= 2 && (load >= ctx.threshold(&FULL) * rate || has_new_flow(ctx, best));
    if collides {
        // What collides meets at the first link that it shares: links behind it get no more than that carries.
        let alike = |link: &usize| votes.get(link).is_some_and(|v| *v >= ctx.threshold(&ALIKE) * votes[&best]);
        let way = slow.iter().flat_map(|pair| &pair.paths).find(|path| path.hops.contains(&best))?;
        best = way.hops.iter().copied().find(|hop| alike(hop)).unwrap_or(best);
    }
    let measured = delay(&best) > 0.0 && delay(&best) >= ctx.threshold(&DELAYED) * longest;
    // Losses slow a job too, and say nothing of queues.
    let loses = |pair: &SlowPair| {
        [Signal::SequenceNaks, Signal::Timeouts].iter().any(|s| ctx.mean(*s, pair.from).is_some_and(|n| n > 0.0))
    };
    if !measured && slow.iter().any(loses) {
        return None;
    }
    Some(found(ctx, best, slow, (collides, load / rate), measured))
}

/// Whether a queue pair over a link was connected since the baseline: flows that shared a link before without trouble do not begin
/// to collide.
fn has_new_flow(ctx: &DetectorContext<'_>, link: usize) -> bool {
    let span_ns = ctx.window.time_range_ns();
    let since_ns = ctx.baseline.window.time_range_ns()[1] - SETTLES_NS;
    let is_over = |flow| ctx.fabric.routes.path(flow, span_ns[1]).is_some_and(|path| path.hops.contains(&link));
    let is_new = |pair: &QueuePair| pair.open_ns >= since_ns && pair.close_ns.is_none() && is_over(pair.flow);
    ctx.host_ports().any(|port| ctx.fabric.routes.queue_pairs(port, span_ns).any(is_new))
}

/// Distinct senders of pairs, and the bytes per second that they send at once, but for a few samples.
fn load(ctx: &DetectorContext<'_>, pairs: &[&SlowPair]) -> (usize, f64) {
    let ends: BTreeMap<usize, usize> = pairs.iter().map(|pair| (pair.from, pair.to)).collect();
    let of_frame = |frame: &Arc<Frame>| {
        let both = |(from, to): (&usize, &usize)| Some(frame.get(Signal::Tx, *from)?.min(frame.get(Signal::Rx, *to)?));
        ends.iter().filter_map(both).sum::<f64>()
    };
    let mut sums: Vec<f64> = ctx.window.frames().iter().map(of_frame).collect();
    sums.sort_by(|a, b| b.total_cmp(a));
    (ends.len(), sums.get(TOP).copied().unwrap_or(0.0))
}

fn found(
    ctx: &DetectorContext<'_>,
    link: usize,
    slow: &[SlowPair],
    (collides, load): (bool, f64),
    measured: bool,
) -> Finding {
    let over = slow.iter().filter(|pair| share(&pair.paths, link) > 0.0);
    let worst = over
        .max_by(|a, b| a.notifications.total_cmp(&b.notifications).then(b.part.total_cmp(&a.part)))
        .unwrap_or(&slow[0]);
    let path = worst.paths.iter().find(|path| path.hops.contains(&link)).unwrap_or(&worst.paths[0]);
    let whom = name(ctx, link);
    let way = format!("{} ({})", ctx.fabric.path_words(&path.hops), path.source.words());
    let begin = format!(
        "{} sends to {} at {} of its former rate, much slower than its job's other ports; the path is {way}.",
        name(ctx, worst.from),
        name(ctx, worst.to),
        percent(worst.part)
    );
    let by_probes = if measured { " Probes over that link wait longest." } else { "" };
    let (kind, text) = if collides {
        let text = format!(
            "{begin} Slow flows of several ports share the link at {whom} and fill {} of it.{}{by_probes}",
            percent(load),
            by_job(ctx, link)
        );
        (IncidentKind::EcmpCollision, text)
    } else {
        let text = format!(
            "{begin} The slow flows over the link at {whom} fill {} of it: the link is slow.{by_probes}",
            percent(load)
        );
        (IncidentKind::DegradedLink, text)
    };
    let sure = if measured { 0.75 } else { 0.6 };
    let root = ctx.fabric.link_or_port(link);
    let sent = evidence(ctx, Signal::Tx, worst.from, worst.part, ctx.threshold(&FELL));
    let votes = Evidence {
        metric: "share_of_link".to_owned(),
        at: whom,
        value: load,
        threshold: ctx.threshold(&FULL),
        ..sent.clone()
    };
    let found = Finding::new(kind, root, sure, sent, text).with_evidence(votes).observed_at(worst.from).along(path);
    if measured { found } else { found.as_inferred() }
}
