//! Switches that do not mark congestion. Marking starts long before pause (DCQCN is tuned for that), so pause without
//! marks is a misconfiguration.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::thresholds::thresholds;
use crate::detectors::unmarked_queues::{self, found};
use crate::model::finding::{Evidence, Finding};
use crate::model::location::LocationId;
use crate::model::signal::Signal;

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
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    [unmarked_queues::find(ctx), hosts_see_no_marks(ctx)].into_iter().flatten().collect()
}

/// Switches that are not read pause hosts, and marked packets no longer arrive.
fn hosts_see_no_marks(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let paused: Vec<usize> = ctx
        .host_ports()
        .filter(|p| ctx.mean(Signal::PauseRx, *p).is_some_and(|s| s >= ctx.threshold(&PAUSED)))
        .filter(|p| !ctx.reads_leaf_of(*p))
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
    let (now, baseline) = sums(Signal::EcnRx, &mut ctx.host_ports());
    if baseline > 0.0 && now <= ctx.threshold(&CEASED) * baseline {
        let text = format!(
            "switches pause hosts ({} {} of the time), and marked packets, which arrived before, no longer arrive \
             at any host.",
            name(ctx, worst),
            percent(share)
        );
        let marked = fewer(Signal::EcnRx, now, ctx.threshold(&CEASED) * baseline);
        return Some(found(LocationId::Fabric, 0.85, paused_by, text).with_evidence(marked).observed_at(worst));
    }
    // One leaf: the hosts that it pauses get no notifications any more, others still do.
    let leaf = ctx.fabric.peer_node(worst)?;
    if paused.iter().any(|p| ctx.fabric.peer_node(*p) != Some(leaf)) || now < ctx.threshold(&OTHERS) * baseline {
        return None;
    }
    let (told, before) = sums(Signal::CnpRx, &mut paused.iter().copied());
    let most = ctx.threshold(&UNTOLD) * before;
    (before > 0.0 && told <= most).then(|| {
        let leaf_name = &ctx.fabric.topology.nodes[leaf].name;
        let text = format!(
            "{leaf_name} pauses its hosts, and these no longer get congestion notifications: the switch \
             does not mark."
        );
        found(LocationId::Switch(leaf), 0.75, paused_by, text).with_evidence(fewer(Signal::CnpRx, told, most))
    })
}
