//! Slow or shared links between switches, from hosts alone: some ports of a job send and receive far below what they did, while
//! others of it reach their former rate. What the paths of the slow pairs have in common is narrowed by the congestion
//! notifications of each pair and by the delay of probes.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::ecmp_collision::FULL;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::path_votes::{peers, share};
use crate::detectors::receive_ceiling::{Ceiling, FELL};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::routes::path::{self, Path, is_between_switches};
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
    /// share of its former highest rate that another port of the job must still reach: otherwise the application sends less
    KEEPS = "slow_path.keeps", 0.85, "times usual";
    /// votes of the slow pairs, relative to the first link, from which a link fits as well
    ALIKE = "slow_path.alike", 0.9, "share of votes";
    /// growth of the mean delay of probes over a link that says that its queue grew
    DELAY = "slow_path.delay", 1_000.0, "nanoseconds";
    /// answered probes over a link that a mean delay needs
    PROBES = "slow_path.probes", 15.0, "probes";
}

/// Highest samples that may be chance.
const TOP: usize = 2;
/// Share of its former highest rate below which a port is idle rather than slow.
const LEAST: f64 = 0.05;

/// A port that sends to another, both far below their former rates.
struct SlowPair {
    from: usize,
    to: usize,
    /// Highest rate now relative to the former one, of the end that reaches more of it.
    part: f64,
    /// Growth of notifications from the receiver to the sender, per second.
    told: f64,
    paths: Vec<Arc<Path>>,
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let pauses = |port| ctx.mean(Signal::PauseTx, port).is_some_and(|share| share >= ctx.threshold(&PAUSED));
    if ctx.fabric.routes.is_empty() || ctx.switches_report(Signal::Tx) || ctx.host_ports().any(pauses) {
        return Vec::new();
    }
    let slow: Vec<SlowPair> = ctx
        .slowdowns()
        .filter(|(_, slowdown)| slowdown.lost_more_than(ctx.threshold(&LOSS)))
        .flat_map(|(job, _)| slow_pairs(ctx, job))
        .collect();
    judge(ctx, &slow).into_iter().collect()
}

/// Slow pairs of a job; none if no port of it reaches its former rate.
fn slow_pairs(ctx: &DetectorContext<'_>, job: usize) -> Vec<SlowPair> {
    let ports = &ctx.fabric.jobs[job].ports;
    let part = |signal, port: &usize| Ceiling::of(ctx, signal, *port).map(Ceiling::part);
    let parts = |signal| ports.iter().filter_map(|p| Some((*p, part(signal, p)?))).collect::<BTreeMap<_, _>>();
    let (sends, receives) = (parts(Signal::Tx), parts(Signal::Rx));
    if !sends.values().any(|part| *part >= ctx.threshold(&KEEPS)) {
        return Vec::new();
    }
    let fell = |part: f64| (LEAST..=ctx.threshold(&FELL)).contains(&part);
    let mut pairs = Vec::new();
    for (from, sent) in sends.iter().filter(|(_, part)| fell(**part)) {
        let peers = peers(ctx, *from);
        let all: Vec<usize> = peers.keys().copied().collect();
        for (to, paths) in peers {
            let Some(got) = receives.get(&to).copied().filter(|part| fell(*part)) else { continue };
            let between = paths.iter().any(|path| path.hops.iter().any(|hop| is_between_switches(ctx.fabric, *hop)));
            if between {
                let told = notified(ctx, *from, to, &all);
                pairs.push(SlowPair { from: *from, to, part: sent.max(got), told, paths });
            }
        }
    }
    pairs
}

/// Growth of the notifications that a sender gets from one of its peers: those that it gets, divided over the peers that send
/// notifications in the same sample.
fn notified(ctx: &DetectorContext<'_>, from: usize, to: usize, peers: &[usize]) -> f64 {
    let mean = |frames: &[Arc<Frame>]| {
        let of_frame = |frame: &Arc<Frame>| {
            let got = frame.get(Signal::CnpRx, from).filter(|n| *n > 0.0)?;
            let sent = |port: usize| frame.get(Signal::CnpTx, port).unwrap_or(0.0);
            let all: f64 = peers.iter().map(|port| sent(*port)).sum();
            (all > 0.0).then(|| got * sent(to) / all)
        };
        frames.iter().filter_map(of_frame).sum::<f64>() / frames.len().max(1) as f64
    };
    (mean(ctx.window.frames()) - mean(ctx.baseline.window.frames())).max(0.0)
}

/// Growth of the mean delay of probes over links, nanoseconds; nothing of links with too few probes.
fn delays(ctx: &DetectorContext<'_>) -> BTreeMap<usize, f64> {
    let mean = |span_ns| {
        let mut links: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (link, probes) in ctx.fabric.routes.probes.within(span_ns).flat_map(|window| &window.links) {
            let (count, sum) = links.entry(*link).or_default();
            *count += f64::from(probes.answered);
            *sum += probes.delay_ns;
        }
        links.retain(|_, (count, _)| *count >= ctx.threshold(&PROBES));
        links
    };
    let (now, before) = (mean(ctx.window.time_range_ns()), mean(ctx.baseline.window.time_range_ns()));
    let grown = |(link, (count, sum)): (usize, (f64, f64))| {
        let before = before.get(&link).map_or(0.0, |(count, sum)| sum / count);
        (link, (sum / count - before).max(0.0))
    };
    now.into_iter().map(grown).collect()
}

fn judge(ctx: &DetectorContext<'_>, slow: &[SlowPair]) -> Option<Finding> {
    let told: f64 = slow.iter().map(|pair| pair.told).sum();
    // Without notifications all slow pairs count alike.
    let weight = |pair: &SlowPair| if told > 0.0 { pair.told / told } else { 1.0 / slow.len() as f64 };
    let links: BTreeSet<usize> =
        slow.iter().flat_map(|p| &p.paths).flat_map(|path| path.hops.iter().copied()).collect();
    let between = links.into_iter().filter(|link| is_between_switches(ctx.fabric, *link));
    let votes = |link: usize| slow.iter().map(|pair| weight(pair) * share(&pair.paths, link)).sum::<f64>();
    let votes: BTreeMap<usize, f64> = between.map(|link| (link, votes(link))).collect();
    let most = votes.values().copied().fold(0.0, f64::max);
    let mut delays = delays(ctx);
    delays.retain(|link, _| votes.contains_key(link));
    let longest = delays.values().copied().fold(0.0, f64::max);
    let delayed = |link: &usize| match delays.get(link) {
        Some(delay) if longest >= ctx.threshold(&DELAY) => delay / longest,
        _ => 0.0,
    };
    let score = |link: &usize| votes[link] / most + delayed(link);
    let mut best = votes.keys().copied().max_by(|a, b| score(a).total_cmp(&score(b))).filter(|_| most > 0.0)?;
    let over = |link: usize| slow.iter().filter(move |pair| share(&pair.paths, link) > 0.5).collect::<Vec<_>>();
    let (senders, load) = load(ctx, &over(best));
    let rate = ctx.fabric.nominal_rate(best).or_else(|| ctx.line_rate(slow[0].from))?;
    let collides = senders >= 2 && load >= ctx.threshold(&FULL) * rate;
    if collides {
        // What collides meets at the first link that it shares: links behind it get no more than that carries.
        let alike = |link: &usize| votes.get(link).is_some_and(|v| *v >= ctx.threshold(&ALIKE) * votes[&best]);
        let way = slow.iter().flat_map(|pair| &pair.paths).find(|path| path.hops.contains(&best))?;
        best = way.hops.iter().copied().find(|hop| alike(hop)).unwrap_or(best);
    }
    let measured = delayed(&best) > 0.5;
    Some(found(ctx, best, slow, (collides, load / rate), measured))
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
    let worst = over.min_by(|a, b| a.part.total_cmp(&b.part)).unwrap_or(&slow[0]);
    let path = worst.paths.iter().find(|path| path.hops.contains(&link)).unwrap_or(&worst.paths[0]);
    let whom = name(ctx, link);
    let way = format!("{} ({})", path::words(ctx.fabric, &path.hops), path.source.words());
    let begin = format!(
        "{} sends to {} at {} of its former rate, and other ports of its job reach theirs; the path is {way}.",
        name(ctx, worst.from),
        name(ctx, worst.to),
        percent(worst.part)
    );
    let by_probes = if measured { " Probes over that link wait longest." } else { "" };
    let (kind, text) = if collides {
        let text = format!(
            "{begin} Slow flows of several ports share the link at {whom} and fill {} of it.{by_probes}",
            percent(load)
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
    let root = ctx.fabric.ports.list[link].link.map_or(LocationId::Port(link), LocationId::Link);
    let sent = evidence(ctx, Signal::Tx, worst.from, worst.part, ctx.threshold(&FELL));
    let votes = Evidence {
        metric: "share_of_link".to_owned(),
        at: whom,
        value: load,
        threshold: ctx.threshold(&FULL),
        ..sent.clone()
    };
    Finding::new(kind, root, sure, sent, text).with_evidence(votes).observed_at(worst.from).as_inferred()
}
