//! Places a lossy link by paths: what the pairs of ports that lose packets have in common, what pairs without losses share
//! with them, and which links lost probes crossed. Refines what `transport` finds.

use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::evidence::{evidence, name};
use crate::detectors::hosts_alone::judges;
use crate::detectors::lossy_link::RATE_COST;
use crate::detectors::path_votes::{PairLoss, losses, peers, share};
use crate::detectors::tcp_twins::only_rdma;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::frame::{FULL_PACKET_BYTES, Frame};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::routes::path::Path;
use crate::model::signal::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;

thresholds! {
    /// samples with a loss, of all pairs together, from which they are no coincidence
    LOSSES = "transport.path_losses", 3.0, "samples in 20 s";
    /// share of these samples whose packets crossed the link that is named
    COMMON = "transport.path_common", 0.7, "share of samples";
    /// how much likelier the first link must be than the second to be the only one that is named
    AHEAD = "transport.path_ahead", 3.0, "times";
}

/// Seconds of samples that tell where packets are lost: few probes and few packets of others cross a link each second.
const LONG_S: f64 = 120.0;
/// Logarithm of the likelihood that a pair lost packets elsewhere than on a link, and the most that one observation counts.
const ELSEWHERE: f64 = -4.0;
/// Chance that a probe is lost on a good link: what answers of others and host trouble leave.
const PROBE_LOST: f64 = 1e-4;
/// Part of the bytes between ports that is trusted when they exonerate a link: how a port's bytes divide over its peers is
/// estimated.
const TRUSTED: f64 = 0.3;

/// A link in one direction, and the logarithm of its likelihood.
type Suspect = (usize, f64);

/// The lossy link, if paths tell where packets are lost.
pub(super) fn find(ctx: &DetectorContext<'_>) -> Option<Finding> {
    if !judges(ctx, Signal::Tx, &[]) {
        return None;
    }
    let samples = |losses: &[PairLoss]| losses.iter().map(|loss| loss.samples).sum::<f64>();
    let now = losses(ctx);
    if samples(&now) < ctx.threshold(&LOSSES) {
        return None;
    }
    // Whether there are losses, the last seconds tell; where, all that was seen since they began. What passed before says nothing,
    // because each link was good then.
    let window = ctx.history.last((LONG_S / ctx.step_s).ceil() as usize);
    let loses = |frame: &Arc<Frame>| {
        now.iter().any(|loss| frame.get(Signal::SequenceNaks, loss.from).is_some_and(|naks| naks > 0.0))
    };
    let first = window.frames().iter().position(loses).unwrap_or(0);
    let window = window.last(window.ticks() - first);
    let slowdowns = SlowdownCache::new();
    let ctx = &ctx.with_window(&window, &slowdowns);
    let losses = losses(ctx);
    let all = samples(&losses);
    let suspects = suspects(ctx, &losses);
    let &(best, likely) = suspects.first()?;
    let common: f64 = losses.iter().filter(|loss| loss.share(best) > 0.0).map(|loss| loss.samples).sum();
    if common < ctx.threshold(&COMMON) * all {
        return None;
    }
    let near: Vec<usize> = suspects.iter().filter(|s| s.1 > likely - ctx.threshold(&AHEAD).ln()).map(|s| s.0).collect();
    let link = ctx.fabric.ports.list[best].link?;
    let worst = &losses[0];
    let naks = ctx.count(Signal::SequenceNaks, worst.from)?;
    let own = evidence(ctx, Signal::SequenceNaks, worst.from, naks, ctx.threshold(&LOSSES));
    let way = worst.paths.iter().find(|path| path.hops.contains(&best)).or(worst.paths.first())?;
    let pairs = losses.len();
    let others = near[1..].iter().map(|egress| format!(", then the link at {}", name(ctx, *egress)));
    let order: String = if near.len() > 1 {
        format!(" Likeliest is the link at {}{}.", name(ctx, best), others.collect::<String>())
    } else {
        format!(" The link at {} is what fits.", name(ctx, best))
    };
    let only_rdma = only_rdma(ctx, best);
    let kind = if only_rdma.is_some() { IncidentKind::TransportErrors } else { IncidentKind::LossyLink };
    let order = order + &only_rdma.map(|only| only.words()).unwrap_or_default();
    let text = format!(
        "{} lost packets to {} ({pairs} pairs of ports lost some); their path is {} ({}).{order}",
        name(ctx, worst.from),
        name(ctx, worst.to),
        ctx.fabric.path_words(&way.hops),
        way.source.words(),
    );
    let sure = if near.len() > 1 { 0.65 } else { 0.8 };
    let total: f64 = losses.iter().filter_map(|loss| ctx.mean(Signal::SequenceNaks, loss.from)).sum();
    let found = Finding::new(kind, LocationId::Link(link), sure, own, text);
    let found = found.along(way).observed_at(worst.from).harmless_if(total < ctx.threshold(&RATE_COST));
    Some(if near.len() > 1 { found.as_inferred() } else { found })
}

/// Links on the paths of the pairs that lose, the likeliest first.
fn suspects(ctx: &DetectorContext<'_>, losses: &[PairLoss]) -> Vec<Suspect> {
    let links: BTreeSet<usize> = losses.iter().flat_map(|l| &l.paths).flat_map(|p| p.hops.iter().copied()).collect();
    let lossy: BTreeSet<[usize; 2]> = losses.iter().map(|loss| [loss.from, loss.to]).collect();
    let most = losses.iter().map(|loss| loss.samples).fold(0.0, f64::max);
    let bytes = pair_bytes(ctx);
    let of_lossy: f64 = bytes.iter().filter(|b| lossy.contains(&b.ends)).map(|b| b.bytes).sum();
    let samples: f64 = losses.iter().map(|loss| loss.samples).sum();
    let naks: f64 = losses.iter().filter_map(|loss| ctx.mean(Signal::SequenceNaks, loss.from)).sum();
    let chance = (naks * FULL_PACKET_BYTES / of_lossy.max(1.0)).clamp(PROBE_LOST * 10.0, 0.5);
    let likelihood = |link: usize| {
        let pair = |loss: &PairLoss| match loss.share(link) {
            share if share > 0.0 => share.ln() * (loss.samples / most),
            _ => ELSEWHERE * (loss.samples / most),
        };
        let of_pairs: f64 = losses.iter().map(pair).sum();
        // Losses that pairs without any should have had, if this were the link.
        let spared = bytes.iter().filter(|b| !lossy.contains(&b.ends));
        let missing: f64 =
            spared.map(|b| b.bytes * share(&b.paths, link)).sum::<f64>() / of_lossy.max(1.0) * samples * TRUSTED;
        // A NIC counts the corrupted frames that it receives.
        let receiver = ctx.fabric.ports.list[link].peer.filter(|peer| ctx.fabric.is_host(*peer));
        let clean = receiver.is_some_and(|port| ctx.mean(Signal::WireErrors, port) == Some(0.0));
        of_pairs + (-missing).max(ELSEWHERE) + of_probes(ctx, link, chance) + if clean { ELSEWHERE } else { 0.0 }
    };
    let mut suspects: Vec<Suspect> = links.into_iter().map(|link| (link, likelihood(link))).collect();
    suspects.sort_by(|a, b| b.1.total_cmp(&a.1));
    suspects
}

/// What probes in the window say of a link that loses so many packets.
fn of_probes(ctx: &DetectorContext<'_>, link: usize, chance: f64) -> f64 {
    let windows = ctx.fabric.routes.probes.within(ctx.window.time_range_ns());
    let of_link = windows.filter_map(|window| window.links.get(&link));
    let (answered, lost) =
        of_link.fold((0.0, 0.0), |(a, l), probes| (a + f64::from(probes.answered), l + f64::from(probes.lost)));
    answered * (1.0 - chance).ln() + lost * (chance / PROBE_LOST).ln()
}

/// Bytes from one port to another.
struct PairBytes {
    ends: [usize; 2],
    /// Bytes per second.
    bytes: f64,
    paths: Vec<Arc<Path>>,
}

/// What each host port sends, divided over its peers by what they receive.
fn pair_bytes(ctx: &DetectorContext<'_>) -> Vec<PairBytes> {
    let mut all = Vec::new();
    for from in ctx.host_ports() {
        let Some(sent) = ctx.mean(Signal::Tx, from).filter(|bytes| *bytes > 0.0) else { continue };
        let peers = peers(ctx, from);
        let received = |to: usize| ctx.mean(Signal::Rx, to).unwrap_or(0.0);
        let sum: f64 = peers.keys().map(|to| received(*to)).sum();
        let pair = |(to, paths)| PairBytes { ends: [from, to], bytes: sent * received(to) / sum.max(1.0), paths };
        all.extend(peers.into_iter().map(pair));
    }
    all
}
