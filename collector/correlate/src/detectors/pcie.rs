//! An adapter whose path to memory is slower than its link: its PCIe path is trained below what both ends support, or
//! its memory requests stall. Such a NIC becomes a slow receiver; for one that is, this explains why.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
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
    /// PCIe rate, relative to what its ends support, below which the path is degraded
    TRAINED = "pcie.trained", 0.9, "share of best";
    /// share of seconds with stalls in half a minute
    STALLED = "pcie.stalled", 0.2, "share of time";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let judge = |port: usize| {
        let (evidence, text, sure) = trained(ctx, port)
            .map(|(e, text)| (e, text, 0.8))
            .or_else(|| stalled(ctx, port).map(|(e, text)| (e, text, 0.6)))?;
        let text = format!("{}: {text}.", name(ctx, port));
        Some(Finding::new(IncidentKind::PcieBottleneck, LocationId::Port(port), sure, evidence, text))
    };
    ctx.host_ports().filter_map(judge).collect()
}

/// Adds the state of the PCIe path to a finding.
pub(super) fn refine(ctx: &DetectorContext<'_>, port: usize, mut found: Finding) -> Finding {
    for (evidence, text) in trained(ctx, port).into_iter().chain(stalled(ctx, port)) {
        found.explanation = format!("{} Reason: {text}.", found.explanation);
        found = found.with_evidence(evidence);
    }
    found
}

/// The path carries less than its ends support, and less than the link.
fn trained(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let last = |signal| ctx.window.last_value(signal, port);
    let (is, best, link) = (last(Signal::PcieRate)?, last(Signal::PcieRateMax)?, ctx.line_rate(port)?);
    let least = ctx.threshold(&TRAINED) * best;
    let text =
        format!("its PCIe path runs at {} of its possible rate, which is less than its link rate", percent(is / best));
    (is > 0.0 && is < least && is < link).then(|| (evidence(ctx, Signal::PcieRate, port, is, least), text))
}

/// The adapter waits for memory.
fn stalled(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let share = ctx.mean(Signal::PcieStall, port)?;
    let least = ctx.threshold(&STALLED);
    let text = format!("its requests to memory stall in {} of the seconds", percent(share));
    (share >= least).then(|| (evidence(ctx, Signal::PcieStall, port, share, least), text))
}
