//! An adapter whose path to memory is slower than its link: its PCIe path is trained below what both ends support, or
//! its memory requests stall. Such a NIC becomes a slow receiver or a straggler; for one that is, this explains why, and so
//! does data of GPUs that takes the way through host memory.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::HashSet;

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
    let mut told = HashSet::new();
    // The planes of an adapter have one path to memory: one finding, at the first of them.
    let mut is_first = |found: &Finding| match found.root {
        LocationId::Port(port) => adapter(ctx, port).is_none_or(|adapter| told.insert(adapter)),
        _ => true,
    };
    ctx.host_ports().filter_map(judge).filter(|found| is_first(found)).collect()
}

/// Node and name of the adapter of a port; `None` if the port has no name as agents give.
fn adapter<'a>(ctx: &DetectorContext<'a>, port: usize) -> Option<(usize, &'a str)> {
    let end = &ctx.fabric.ports.list[port].end;
    Some((end.node, end.port.split_once('/')?.0))
}

/// Adds to a finding why the adapter is slow, as far as it is known.
pub(super) fn refine(ctx: &DetectorContext<'_>, port: usize, mut found: Finding) -> Finding {
    for (evidence, text) in trained(ctx, port).into_iter().chain(stalled(ctx, port)).chain(staged(ctx, port)) {
        found.explanation = format!("{} Reason: {text}.", found.explanation);
        found = found.with_evidence(evidence);
    }
    found
}

/// The path carries less than its ends support, and less than the links of the adapter.
fn trained(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let last = |signal| ctx.window.last_value(signal, port);
    let (is, best, link) = (last(Signal::PcieRate)?, last(Signal::PcieRateMax)?, adapter_rate(ctx, port)?);
    let least = ctx.threshold(&TRAINED) * best;
    let text = format!(
        "its PCIe path runs at {} of its possible rate, which is less than the rate of its links",
        percent(is / best)
    );
    (is > 0.0 && is < least && is < link).then(|| (evidence(ctx, Signal::PcieRate, port, is, least), text))
}

/// Rate of the links of a port's adapter that are up, bytes per second: the planes of an adapter share its path to memory.
fn adapter_rate(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    let own = ctx.line_rate(port)?;
    let Some(of) = adapter(ctx, port) else { return Some(own) };
    let others = ctx.fabric.ports.of_node(of.0).iter().copied();
    let planes = others.filter(|other| *other != port && adapter(ctx, *other) == Some(of));
    let up = planes.filter(|plane| ctx.mean(Signal::Up, *plane) == Some(1.0));
    Some(own + up.filter_map(|plane| ctx.line_rate(plane)).sum::<f64>())
}

/// Data of GPUs goes through host memory at this adapter, and does not at others: where it does everywhere, it is no
/// reason for one to be slow.
fn staged(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let reaches = |port| ctx.window.last_value(Signal::GpuDirect, port);
    let is = reaches(port).filter(|is| *is == 0.0)?;
    let others = ctx.host_ports().any(|other| reaches(other) == Some(1.0));
    let text =
        "its data of GPUs goes through host memory, because it does not reach GPU memory as others do".to_owned();
    others.then(|| (evidence(ctx, Signal::GpuDirect, port, is, 1.0), text))
}

/// The adapter waits for memory.
fn stalled(ctx: &DetectorContext<'_>, port: usize) -> Option<(Evidence, String)> {
    let share = ctx.mean(Signal::PcieStall, port)?;
    let least = ctx.threshold(&STALLED);
    let text = format!("its requests to memory stall in {} of the seconds", percent(share));
    (share >= least).then(|| (evidence(ctx, Signal::PcieStall, port, share, least), text))
}
