//! Switches that do not mark congestion. Marking starts long before pause (DCQCN is tuned for that), so pause without
//! marks is a misconfiguration.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, nth, percent};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::BTreeMap;

pub(super) const DETECTOR: Detector = Detector {
    name: "ecn_marking",
    warm_up_s: 4.0,
    baseline_s: 10.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// consecutive samples in which a queue was long enough to be marked and nothing was marked
    UNMARKED = "ecn_marking.unmarked", 6.0, "samples";
    /// quantile of marked queues above which this fabric marks for certain
    LENGTH = "ecn_marking.shorter", 0.75, "share of queues";
    /// marked queues that are needed to know at which length this fabric marks
    SEEN = "ecn_marking.seen", 20.0, "samples";
    /// load from which a port with a long queue counts as sending freely
    MOVES = "ecn_marking.moves", 0.3, "share of rate";
    /// share of time that such a port may be paused
    HELD = "ecn_marking.held", 0.3, "share of time";
    /// marked packets, relative to the baseline, below which marking has stopped
    CEASED = "ecn_marking.ceased", 0.02, "times usual";
    /// marked packets in the whole fabric that must still arrive if only one leaf does not mark
    OTHERS = "ecn_marking.others", 0.3, "times usual";
    /// notifications to the hosts that a leaf pauses, below which it does not mark
    UNTOLD = "ecn_marking.untold", 0.3, "times usual";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    [switches(ctx), hosts_see_no_marks(ctx)].into_iter().flatten().collect()
}

fn found(root: LocationId, confidence: f64, evidence: Evidence, explanation: String) -> Finding {
    Finding::new(IncidentKind::EcnMisconfigured, root, confidence, evidence, explanation)
}

/// The queue length at which this fabric marks: a high quantile of the marked queues in the baseline.
fn marking_queue(ctx: &DetectorContext<'_>) -> Option<f64> {
    let mut queues: Vec<f64> = Vec::new();
    for frame in ctx.baseline.window.frames() {
        let marked = ctx.switch_ports().filter(|p| frame.get(Signal::Marks, *p).is_some_and(|m| m > 0.0));
        queues.extend(marked.filter_map(|p| frame.get(Signal::QueueMax, p)));
    }
    queues.sort_by(f64::total_cmp);
    nth(&queues, ctx.threshold(&LENGTH)).copied().filter(|_| queues.len() as f64 >= ctx.threshold(&SEEN))
}

/// Switches with long queues and no marks.
fn switches(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let long = marking_queue(ctx)?;
    // By switch: samples with a long queue since the last mark, and the last such port.
    let mut unmarked: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for frame in ctx.window.frames() {
        for node in ctx.domain.nodes.iter().copied() {
            let ports = ctx.fabric.ports.of_node(node);
            if ports.iter().any(|p| frame.get(Signal::Marks, *p).is_some_and(|marks| marks > 0.0)) {
                unmarked.insert(node, (0, 0));
                continue;
            }
            let waits = |p: &&usize| frame.get(Signal::QueueMax, **p).is_some_and(|queue| queue >= long);
            for port in ports.iter().filter(waits).filter(|p| moves(ctx, frame, **p)) {
                let times = unmarked.get(&node).map_or(0, |u| u.0);
                unmarked.insert(node, (times + 1, *port));
            }
        }
    }
    let some_mark = unmarked.values().any(|(times, _)| *times == 0);
    unmarked.retain(|_, (times, _)| *times as f64 >= ctx.threshold(&UNMARKED));
    if some_mark && unmarked.len() > 1 {
        // Some switches mark, so it is not the whole fabric but the switch with most to mark.
        let most = unmarked.iter().max_by_key(|(_, (times, _))| *times).map(|(node, _)| *node);
        unmarked.retain(|node, _| Some(*node) == most);
    }
    let (first, (_, port)) = unmarked.first_key_value()?;
    let queue = ctx.mean(Signal::QueueMax, *port).unwrap_or(0.0);
    let evidence = evidence(ctx, Signal::QueueMax, *port, queue, long);
    let named = |node: &usize| ctx.fabric.topology.nodes[*node].name.as_str();
    let names: Vec<&str> = unmarked.keys().map(named).collect();
    let root = if unmarked.len() == 1 { LocationId::Switch(*first) } else { LocationId::Fabric };
    let text = format!(
        "queues on {} were longer than those that this fabric marks, but no packet was marked: senders are not \
         notified to slow down.",
        names.join(", ")
    );
    Some(found(root, 0.93, evidence, text).observed_at(*port))
}

/// Whether a port sends freely. Packets are marked on egress, so a port that stands still marks nothing.
fn moves(ctx: &DetectorContext<'_>, frame: &Frame, port: usize) -> bool {
    let sends = frame
        .get(Signal::Tx, port)
        .zip(ctx.line_rate(port))
        .is_some_and(|(sent, rate)| sent >= ctx.threshold(&MOVES) * rate);
    sends && frame.get(Signal::PauseRx, port).unwrap_or(0.0) <= ctx.threshold(&HELD)
}

/// Without switch counters: switches pause hosts, and marked packets no longer arrive.
fn hosts_see_no_marks(ctx: &DetectorContext<'_>) -> Option<Finding> {
    if ctx.switch_ports().any(|p| ctx.mean(Signal::Marks, p).is_some()) {
        return None;
    }
    let paused: Vec<usize> = ctx
        .host_ports()
        .filter(|p| ctx.mean(Signal::PauseRx, *p).is_some_and(|s| s >= ctx.threshold(&PAUSED)))
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
