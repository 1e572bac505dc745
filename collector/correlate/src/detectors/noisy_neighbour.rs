//! A job that takes much more than it did, while others lose.

use crate::detectors::detector::Detector;
use crate::detectors::evidence::{marked_ports, of_job};
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::detectors::thresholds::thresholds;
use crate::detectors::context::DetectorContext;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "noisy_neighbour",
    warm_up_s: 15.0,
    baseline_s: 40.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// of the most it ever moved: a job that moves so much more is loud
    LOUD = "noisy_neighbour.loud", 1.4, "times";
    /// of what was usual: how much congestion must have grown
    GROWN = "noisy_neighbour.grown", 1.4, "times usual";
    /// what another job must have lost
    LOSS = "noisy_neighbour.loss", 0.05, "share of usual bytes";
}

fn run(scene: &DetectorContext<'_>) -> Vec<Finding> {
    let loudest = scene
        .fares()
        .filter(|(_, fare)| fare.ratio >= scene.limit(&LOUD) * fare.high)
        .max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let Some((job, fare)) = loudest else { return Vec::new() };
    let signal = |signal| {
        let now = scene.sum(signal, scene.ports());
        now / scene.usual_sum(signal, scene.ports())
    };
    let grown = signal(Signal::CnpRx);
    let lose = scene.fares().any(|(other, fare)| other != job && fare.lost(scene.limit(&LOSS)));
    if !(grown >= scene.limit(&GROWN) && lose) {
        return Vec::new();
    }
    let id = &scene.fabric.jobs[job].id;
    let moved = of_job(scene, Signal::Tx, job, fare.ratio, scene.limit(&LOUD) * fare.high);
    let told = Evidence { at: "fabric".to_owned(), ..of_job(scene, Signal::CnpRx, job, grown, scene.limit(&GROWN)) };
    let text = format!(
        "{id} moves {:.1} times what it did, congestion notifications grew {grown:.1} times, and other jobs lose.",
        fare.ratio
    );
    let ports = marked_ports(scene, job, 1.0);
    vec![Finding::new(IncidentKind::NoisyNeighbour, LocationId::Job(job), 0.8, moved, text).and(told).by(vec![job]).to(ports)]
}
