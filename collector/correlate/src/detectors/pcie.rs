//! An adapter whose way to memory is slower than its link: its PCIe path was trained to less than both ends can, or its
//! requests to memory stall. Such a NIC is a slow receiver in the making; of one that is, this tells why.

use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::detectors::thresholds::thresholds;
use crate::detectors::context::DetectorContext;
use crate::model::signal::Signal;

pub(super) const DETECTOR: Detector = Detector {
    name: "pcie",
    warm_up_s: 30.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// of what its ends can: below this a PCIe path is not as it should be
    TRAINED = "pcie.trained", 0.9, "share of best";
    /// of the seconds of half a minute: those with stalls
    STALLED = "pcie.stalled", 0.2, "share of time";
}

fn run(scene: &DetectorContext<'_>) -> Vec<Finding> {
    let judge = |port: usize| {
        let (evidence, text, sure) = trained(scene, port)
            .map(|(e, text)| (e, text, 0.8))
            .or_else(|| stalled(scene, port).map(|(e, text)| (e, text, 0.6)))?;
        let text = format!("{}: {text}.", name(scene, port));
        Some(Finding::new(IncidentKind::PcieBottleneck, LocationId::Port(port), sure, evidence, text))
    };
    scene.host_ports().filter_map(judge).collect()
}

/// The same finding, with what its PCIe path has to do with it.
pub(super) fn refine(scene: &DetectorContext<'_>, port: usize, mut found: Finding) -> Finding {
    for (evidence, text) in trained(scene, port).into_iter().chain(stalled(scene, port)) {
        found.explanation = format!("{} Why: {text}.", found.explanation);
        found = found.and(evidence);
    }
    found
}

/// The path carries less than it could, and less than the link.
fn trained(scene: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let last = |signal| scene.now.newest(signal, port);
    let (is, best, link) = (last(Signal::PcieRate)?, last(Signal::PcieRateMax)?, scene.rate(port)?);
    let least = scene.limit(&TRAINED) * best;
    let text = format!("its PCIe path runs at {} of what it could, which is less than its link", percent(is / best));
    (is > 0.0 && is < least && is < link).then(|| (evidence(scene, Signal::PcieRate, port, is, least), text))
}

/// The adapter waits for memory.
fn stalled(scene: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let share = scene.now(Signal::PcieStall, port)?;
    let least = scene.limit(&STALLED);
    let text = format!("its requests to memory stall in {} of the seconds", percent(share));
    (share >= least).then(|| (evidence(scene, Signal::PcieStall, port, share, least), text))
}
