//! Congestion that none of the others explains: links between switches that are full, pause whose begin is not seen, or
//! jobs that lose while more is marked.

use super::{circle, evidence, name, of_job, percent};
use crate::finding::{Finding, Kind, Root};
use crate::graph::Graph;
use crate::limits::limits;
use crate::priority::Priorities;
use crate::scene::Scene;
use crate::signal::Signal;
use crate::wait::{Began, PAUSED, Sign};
use std::collections::BTreeMap;

limits! {
    /// what a job must have lost for it to be congestion that somebody suffers from
    LOSS = "loss_with_marks.loss", 0.15, "share of usual bytes";
    /// how much a job may differ by chance for its loss to tell anything of the fabric
    STEADY = "loss_with_marks.steady", 0.1, "share of usual bytes";
    /// how often its chance a loss must be: a job that only does something else is none
    CHANCES = "loss_with_marks.chances", 2.0, "chances";
    /// of what was usual: how many more packets come marked
    GROWN = "loss_with_marks.grown", 1.5, "times usual";
}

/// Ports that are held, the most: of these is looked which was first.
const LOOKED_AT: usize = 256;

pub(super) fn pause(scene: &Scene<'_>) -> Vec<Finding> {
    let mut held: BTreeMap<Option<usize>, Vec<(usize, f64)>> = BTreeMap::new();
    for port in scene.ports() {
        let least = scene.limit(&PAUSED);
        if scene.now(Signal::PauseRx, port).is_none_or(|share| share < least) {
            continue;
        }
        for priority in scene.priorities(Signal::PauseRx, port, least).each() {
            let share = scene.of_priority(Signal::PauseRx, port, priority).unwrap_or(0.0);
            held.entry(priority).or_default().push((port, share));
        }
    }
    let worst = |(priority, held)| Some((priority, first(scene, held, priority)?));
    let mut worst: Vec<_> = held.into_iter().filter_map(worst).collect();
    worst.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    worst.into_iter().map(|(priority, (port, share))| paused(scene, port, share, priority)).collect()
}

/// Of ports that are held in a priority, the one that is held most of those that were held first.
fn first(scene: &Scene<'_>, mut held: Vec<(usize, f64)>, priority: Option<usize>) -> Option<(usize, f64)> {
    held.sort_by(|a, b| b.1.total_cmp(&a.1));
    held.truncate(LOOKED_AT);
    let began = |port| Sign::of(scene, port).and_then(|sign| sign.began(scene, priority));
    let held: Vec<_> = held.into_iter().map(|one| (one, began(one.0))).collect();
    let first_ns = held.iter().filter_map(|(_, began)| *began).map(|began| began.at_ns).min();
    let later = |began: Option<Began>| began.zip(first_ns).is_some_and(|(began, first)| began.is_later(scene, first));
    held.into_iter().find(|(_, began)| !later(*began)).map(|one| one.0)
}

pub(super) fn loss(scene: &Scene<'_>) -> Vec<Finding> {
    marked(scene).into_iter().collect()
}

/// A port is kept from sending, in a priority the most.
fn paused(scene: &Scene<'_>, worst: usize, share: f64, priority: Option<usize>) -> Finding {
    let fabric = scene.fabric;
    let least = scene.limit(&PAUSED);
    let began = scene.first(|f| f.of_priority(Signal::PauseRx, worst, priority).is_some_and(|share| share >= least));
    let evidence = evidence(scene, Signal::PauseRx, worst, share, least);
    let which = Priorities::one(priority);
    if let Some(found) = circle::find(scene, worst, priority, &evidence) {
        return found.since(began);
    }
    let between =
        |port: usize| !fabric.is_host(port) && fabric.ports.list[port].peer.is_some_and(|p| !fabric.is_host(p));
    let begin = Graph::from(scene, worst, priority).ends(scene).first().filter(|t| between(t.port)).map(|t| t.port);
    let found = match begin.and_then(|port| Some((port, fabric.ports.list[port].link?))) {
        Some((port, link)) => {
            let text = format!(
                "more goes out of {} than its link carries; its switch pauses those before it{}.",
                name(scene, port),
                which.words()
            );
            Finding::new(Kind::UplinkCongestion, Root::Link(link), 0.5, evidence, text)
        }
        None => {
            let text =
                format!("{} is kept from sending{}; where that begins is not seen.", name(scene, worst), which.words());
            Finding::new(Kind::FabricCongestion, Root::Fabric, 0.4, evidence, text).near(worst)
        }
    };
    found.within(which).since(began)
}

/// Jobs lose, and more packets are marked on the way to them.
fn marked(scene: &Scene<'_>) -> Option<Finding> {
    let limit = |row| scene.limit(row);
    let lost = |job: usize| {
        let fare = scene
            .fare(job)
            .filter(|f| f.chance < limit(&STEADY) && f.ratio + limit(&CHANCES) * f.chance < 1.0 - limit(&LOSS))?;
        let ports = || scene.fabric.jobs[job].ports.iter().copied();
        let signals = [Signal::EcnRx, Signal::CnpRx];
        let grown =
            signals.map(|s| scene.sum(s, ports()) / scene.usual_sum(s, ports())).into_iter().fold(0.0, f64::max);
        (grown >= limit(&GROWN)).then_some((job, fare.ratio, grown))
    };
    let (job, ratio, grown) = scene.jobs().filter_map(lost).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fabric = scene.fabric;
    let id = &fabric.jobs[job].id;
    let met = of_job(scene, Signal::EcnRx, job, grown, limit(&GROWN));
    let moved = of_job(scene, Signal::Tx, job, ratio, 1.0 - limit(&LOSS));
    let text = format!(
        "{id} moves {} of what it did, while {grown:.1} times as many of its packets meet congestion; where that is, the \
         counters at hand do not tell.",
        percent(ratio)
    );
    let senders = super::marked(scene, job, limit(&GROWN));
    let found = Finding::new(Kind::FabricCongestion, Root::Fabric, 0.3, met, text).and(moved).to(senders);
    Some(Finding { near: fabric.jobs[job].ports.first().copied(), ..found })
}
