//! Switches that do not mark congestion. Marking starts long before pause (DCQCN is tuned for that), so pause without
//! marks is a misconfiguration.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::pause::LASTS;
use crate::detectors::paused_time::port_paused_seconds;
use crate::detectors::thresholds::thresholds;
use crate::detectors::unmarked_queues::{self, found};
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "ecn_marking",
    warm_up_s: 4.0,
    baseline_s: 40.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// marked packets, relative to the baseline, below which marking has stopped
    CEASED = "ecn_marking.ceased", 0.02, "times usual";
    /// marked packets in the whole fabric that must still arrive if only one leaf does not mark
    OTHERS = "ecn_marking.others", 0.3, "times usual";
    /// notifications to the hosts that a leaf pauses, below which it does not mark
    UNTOLD = "ecn_marking.untold", 0.3, "times usual";
    /// bytes that hosts receive, from which marked packets should arrive too
    LOAD = "ecn_marking.load", 0.5, "times usual";
    /// windows of this length without marked packets in the baseline, up to which their absence is no coincidence
    SILENT = "ecn_marking.silent", 0.1, "share of windows";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    [unmarked_queues::find(ctx), hosts_see_no_marks(ctx)].into_iter().flatten().collect()
}

/// Share of the baseline's windows of this length in which hardly any marked packet arrived.
fn silent_before(ctx: &DetectorContext<'_>) -> f64 {
    let least = ctx.threshold(&CEASED) * ctx.baseline_sum(Signal::EcnRx, ctx.host_ports());
    let arrived = |frame: &Arc<Frame>| ctx.host_ports().filter_map(|port| frame.get(Signal::EcnRx, port)).sum::<f64>();
    let before: Vec<f64> = ctx.baseline.window.frames().iter().map(arrived).collect();
    let length = ctx.window.ticks().clamp(1, (before.len() / 2).max(1));
    let silent = |part: &[f64]| f64::from(u8::from(part.iter().sum::<f64>() <= least * part.len() as f64));
    mean(before.windows(length).map(silent)).unwrap_or(1.0)
}

/// Switches whose queues are not read pause hosts, and marked packets no longer arrive.
fn hosts_see_no_marks(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let paused: Vec<usize> = ctx
        .host_ports()
        .filter(|p| ctx.mean(Signal::PauseRx, *p).is_some_and(|s| s >= ctx.threshold(&PAUSED)))
        .filter(|p| !ctx.leaf_reports(*p, Signal::QueueMax))
        .collect();
    let worst = *paused.iter().max_by(|a, b| {
        let of = |p: usize| ctx.mean(Signal::PauseRx, p).unwrap_or(0.0);
        of(**a).total_cmp(&of(**b))
    })?;
    let share = ctx.mean(Signal::PauseRx, worst)?;
    let paused_by = evidence(ctx, Signal::PauseRx, worst, share, ctx.threshold(&PAUSED));
    let fewer = |signal, value, threshold| Evidence {
        at: "hosts".to_owned(),
        ..evidence(ctx, signal, worst, value, threshold)
    };
    let sums = |signal, ports: &mut dyn Iterator<Item = usize>| {
        let ports: Vec<usize> = ports.collect();
        (ctx.sum(signal, ports.iter().copied()), ctx.baseline_sum(signal, ports.into_iter()))
    };
    // Marks that came now and then, as some links filled, say nothing when none come for a while. Asked last: it reads the whole baseline.
    let by_chance = || silent_before(ctx) > ctx.threshold(&SILENT);
    let (now, baseline) = sums(Signal::EcnRx, &mut ctx.host_ports());
    let (received, usual) = sums(Signal::Rx, &mut ctx.host_ports());
    // Jobs that compute fill no queue, so nothing is marked.
    let loaded = received >= ctx.threshold(&LOAD) * usual;
    if baseline > 0.0 && now <= ctx.threshold(&CEASED) * baseline && loaded {
        if by_chance() {
            return None;
        }
        let text = format!(
            "switches pause hosts ({} {} of the time), and marked packets, which arrived before, no longer arrive \
             at any host.",
            name(ctx, worst),
            percent(share)
        );
        let marked = fewer(Signal::EcnRx, now, ctx.threshold(&CEASED) * baseline);
        return Some(found(LocationId::Fabric, 0.85, paused_by, text).with_evidence(marked).observed_at(worst));
    }
    // One leaf: the hosts that it pauses, for longer than a burst, get no notifications any more, others still do.
    let leaf = ctx.fabric.peer_node(worst).filter(|_| port_paused_seconds(ctx, worst) >= ctx.threshold(&LASTS))?;
    if paused.iter().any(|p| ctx.fabric.peer_node(*p) != Some(leaf)) || now < ctx.threshold(&OTHERS) * baseline {
        return None;
    }
    let (told, before) = sums(Signal::CnpRx, &mut paused.iter().copied());
    let most = ctx.threshold(&UNTOLD) * before;
    (told <= most && !by_chance()).then(|| {
        let leaf_name = &ctx.fabric.topology.nodes[leaf].name;
        let text = format!(
            "{leaf_name} pauses its hosts, and these get no congestion notifications, or far fewer than before, as others \
             do: the switch does not mark."
        );
        found(LocationId::Switch(leaf), 0.75, paused_by, text).with_evidence(fewer(Signal::CnpRx, told, most))
    })
}
