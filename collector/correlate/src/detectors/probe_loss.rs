//! Links between switches that lose some packets, by lost probes alone. The link must explain the losses better than any host,
//! switch or other link does, and more of them must cross it than chance gives at the loss rate of the other probes.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::hosts_alone::judges;
use crate::detectors::loss_places::{Bounds, Explained, explain};
use crate::detectors::loss_votes::{LossVotes, Place, Suspect, USUAL_LOSS};
use crate::detectors::path_flap::is_falling;
use crate::detectors::probe_loss_finding::finding;
use crate::detectors::tcp_twins::is_undecided;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::routes::probes::{LinkProbes, Probe, ProbeWindow};
use crate::model::signal::Signal;
use crate::model::stats::at_least;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "probe_loss",
    warm_up_s: 120.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// probability that chance gives any link as many losses, below which it is no chance
    CHANCE = "probe_loss.chance", 1e-5, "probability";
    /// the same from which it is at least an observation
    THIN = "probe_loss.thin", 1e-2, "probability";
    /// how much likelier the link must be than a host, a switch or another link to be the only one that is named
    AHEAD = "probe_loss.ahead", 10.0, "times";
    /// ports at the ends of probes over the link: with fewer, one host may be at fault
    ENDS = "probe_loss.ends", 4.0, "ports";
    /// ports at the ends of its lost probes: two pairs at least
    LOST_ENDS = "probe_loss.lost_ends", 3.0, "ports";
    /// votes from which one of several links that fit equally is named
    VOTES = "probe_loss.votes", 10.0, "votes";
    /// how much likelier the losses must be with a lossy link than without, before the link is told beside another fault
    GAIN = "probe_loss.gain", 150.0, "times";
    /// probes over other links, relative to those over the link, that measure how many are lost by chance
    CONTROL = "probe_loss.control", 0.1, "times";
    /// losses that probes since the last one should have met, from which the link has recovered
    CEASED = "probe_loss.ceased", 5.0, "expected losses";
}

/// Links of one fabric that are named at once.
const MOST: usize = 4;
/// Other places up to which several that fit are named: of more, losses are too few.
const LISTED: usize = 4;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let windows: Vec<&Arc<ProbeWindow>> = ctx.fabric.routes.probes.within(ctx.window.time_range_ns()).collect();
    if windows.iter().all(|window| window.lost.is_empty()) || !judges(ctx, Signal::Tx, &[Signal::PauseTx]) {
        return Vec::new();
    }
    let mut votes = LossVotes::new(ctx.fabric, &windows, std::iter::empty());
    let all = [votes.votes(), votes.probes];
    let bounds = Bounds { most: MOST, gain: ctx.threshold(&GAIN).ln(), ahead: ctx.threshold(&AHEAD).ln() };
    let explained = explain(ctx.fabric, &mut votes, &bounds);
    let part = |which: &dyn Fn(usize) -> bool| {
        let of = explained.iter().enumerate().filter(|(at, _)| which(*at)).map(|(_, one)| &one.best);
        of.fold(all, |[votes, probes], place| [votes - place.votes, probes - place.probes])
    };
    let judged = explained.iter().enumerate().filter_map(|(at, one)| {
        // Other faults are no measure of chance, unless hardly any probe is left without them.
        let control = [part(&|_| true), part(&|other| other == at)];
        let enough = |[_, probes]: &[f64; 2]| *probes >= ctx.threshold(&CONTROL) * one.best.probes;
        let [votes, probes] = control.into_iter().find(enough)?;
        judge(ctx, one, &windows, (votes.max(0.0) / probes.max(1.0)).max(USUAL_LOSS))
    });
    judged.collect()
}

/// Judges a place; `usual` is the share of the other probes that was lost.
fn judge(
    ctx: &DetectorContext<'_>,
    explained: &Explained<'_>,
    windows: &[&Arc<ProbeWindow>],
    usual: f64,
) -> Option<Finding> {
    let Explained { best, near, on } = explained;
    let is_host = |place: &Place| matches!(place.suspect, Suspect::Host(_));
    if !matches!(best.suspect, Suspect::Cable(_)) || near.iter().any(is_host) || near.len() > LISTED {
        return None;
    }
    let lost_ends: BTreeSet<usize> = on.iter().flat_map(|(probe, _)| probe.ends).collect();
    let is_few = (lost_ends.len() as f64) < ctx.threshold(&LOST_ENDS);
    if is_few || (ends(best, windows) as f64) < ctx.threshold(&ENDS) {
        return None;
    }
    let lost: Vec<&Probe> = on.iter().map(|(probe, _)| *probe).collect();
    if is_falling(ctx, &best.egress, windows, &lost) {
        return None;
    }
    let span_ns = [on.iter().map(|(p, _)| p.sent_ns).min()?, on.iter().map(|(p, _)| p.sent_ns).max()?];
    if has_ceased(ctx, best, windows, span_ns) {
        return None;
    }
    let independent = independent(on);
    let links: HashSet<usize> = windows.iter().flat_map(|window| window.links.keys()).copied().collect();
    let links = links.into_iter().filter(|link| ctx.fabric.is_between_switches(*link)).count().max(1);
    let expected = best.probes * usual;
    let chance = links as f64 * at_least(independent, expected);
    if chance > ctx.threshold(&THIN) {
        return None;
    }
    let is_much = independent >= ctx.threshold(&VOTES);
    // TCP twins of the next losses tell whether only RDMA is lost.
    let waits = !is_much && best.egress.iter().any(|egress| is_undecided(ctx, *egress, span_ns[0]));
    let is_thin = chance > ctx.threshold(&CHANCE) || !near.is_empty() && !is_much || waits;
    Some(finding(ctx, explained, is_thin, [independent, expected], span_ns))
}

/// Distinct ports at the ends of answered probes over a place.
fn ends(place: &Place, windows: &[&Arc<ProbeWindow>]) -> usize {
    let mut all = LinkProbes::default();
    windows.iter().flat_map(|w| place.egress.iter().filter_map(|port| w.links.get(port))).for_each(|p| all.merge(p));
    all.ends.len()
}

/// Whether so many probes have passed since the last loss that more should have been lost.
fn has_ceased(ctx: &DetectorContext<'_>, place: &Place, windows: &[&Arc<ProbeWindow>], span_ns: [i64; 2]) -> bool {
    let passed = |window: &ProbeWindow| {
        let of = place.egress.iter().filter_map(|port| window.links.get(port));
        of.map(|probes| f64::from(probes.answered)).sum::<f64>()
    };
    let (mut during, mut since) = (0.0, 0.0);
    for window in windows.iter().filter(|window| !window.ends_before(span_ns[0])) {
        *(if window.begin_ns > span_ns[1] { &mut since } else { &mut during }) += passed(window);
    }
    place.votes / (place.votes + during) * since >= ctx.threshold(&CEASED)
}

/// Votes, of which those of one pair of ports count no more than those of all others.
fn independent(on: &[(&Probe, f64)]) -> f64 {
    let mut of_pair: BTreeMap<[usize; 2], f64> = BTreeMap::new();
    for (probe, vote) in on {
        let [a, b] = probe.ends;
        *of_pair.entry([a.min(b), a.max(b)]).or_default() += vote;
    }
    let all: f64 = of_pair.values().sum();
    let most = of_pair.values().copied().fold(0.0, f64::max);
    all.min(2.0 * (all - most))
}
