//! Congestion that none of the others explains: links between switches that are full, pause whose begin is not seen, or
//! jobs that lose while more is marked.

use super::{evidence, name, of_job, percent};
use crate::finding::{Finding, Kind, Root};
use crate::limits::limits;
use crate::scene::Scene;
use crate::signal::Signal;
use crate::wait::{PAUSED, terminals};

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

pub(super) fn pause(scene: &Scene<'_>) -> Vec<Finding> {
    paused(scene).into_iter().collect()
}

pub(super) fn loss(scene: &Scene<'_>) -> Vec<Finding> {
    marked(scene).into_iter().collect()
}

/// Somebody is kept from sending.
fn paused(scene: &Scene<'_>) -> Option<Finding> {
    let fabric = scene.fabric;
    let held = (0..fabric.ports.list.len()).filter_map(|p| Some((p, scene.now(Signal::PauseRx, p)?)));
    let (worst, share) = held.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share >= scene.limit(&PAUSED))?;
    let began = scene.first(|f| f.get(Signal::PauseRx, worst).is_some_and(|share| share >= scene.limit(&PAUSED)));
    let evidence = evidence(scene, Signal::PauseRx, worst, share, scene.limit(&PAUSED));
    let between =
        |port: usize| !fabric.is_host(port) && fabric.ports.list[port].peer.is_some_and(|p| !fabric.is_host(p));
    let begin = terminals(scene).first().filter(|t| between(t.port)).map(|t| t.port);
    Some(match begin.and_then(|port| Some((port, fabric.ports.list[port].link?))) {
        Some((port, link)) => {
            let text = format!(
                "more goes out of {} than its link carries; its switch pauses those before it.",
                name(scene, port)
            );
            Finding::new(Kind::UplinkCongestion, Root::Link(link), 0.5, evidence, text).since(began)
        }
        None => {
            let text = format!("{} is kept from sending; where that begins is not seen.", name(scene, worst));
            Finding::new(Kind::FabricCongestion, Root::Fabric, 0.4, evidence, text).since(began)
        }
    })
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
    let (job, ratio, grown) = (0..scene.fabric.jobs.len()).filter_map(lost).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let id = &scene.fabric.jobs[job].id;
    let met = of_job(scene, Signal::EcnRx, job, grown, limit(&GROWN));
    let moved = of_job(scene, Signal::Tx, job, ratio, 1.0 - limit(&LOSS));
    let text = format!(
        "{id} moves {} of what it did, while {grown:.1} times as many of its packets meet congestion; where that is, the \
         counters at hand do not tell.",
        percent(ratio)
    );
    Some(Finding::new(Kind::FabricCongestion, Root::Fabric, 0.3, met, text).and(moved))
}
