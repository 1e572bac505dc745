//! Pause that no other detector explains: full links between switches, or pause whose cause is not visible.

use crate::detectors::backpressure::{FULL, HoldSignal, Onset, load_while, waited_for};
use crate::detectors::context::DetectorContext;
use crate::detectors::deadlock;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::paused_time::port_paused_seconds;
use crate::detectors::thresholds::thresholds;
use crate::detectors::wait_graph::WaitGraph;
use crate::detectors::watchdog;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use std::collections::BTreeMap;

pub(super) const DETECTOR: Detector = Detector {
    name: "pause",
    warm_up_s: 4.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// time that one port must be paused from which congestion is no short burst, as all-to-all exchanges have
    LASTS = "pause.lasts", 0.5, "seconds in a minute";
    /// growth of a link's queue from which the link is certain enough to be full to page, if it is not loaded
    GROWN = "pause.grown", 3.0, "times usual";
}

/// Whether a port is paused now, and was for so long in the last minute that it is no short burst.
pub(super) fn is_paused(ctx: &DetectorContext<'_>, port: usize) -> bool {
    ctx.mean(Signal::PauseRx, port).is_some_and(|share| share >= ctx.threshold(&PAUSED))
        && port_paused_seconds(ctx, port) >= ctx.threshold(&LASTS)
}

/// Paused ports whose onset is compared, those paused most.
const LOOKED_AT: usize = 256;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let mut held: BTreeMap<Option<usize>, Vec<(usize, f64)>> = BTreeMap::new();
    for port in ctx.ports() {
        let least = ctx.threshold(&PAUSED);
        if !is_paused(ctx, port) {
            continue;
        }
        for priority in ctx.priorities(Signal::PauseRx, port, least).each() {
            let share = ctx.mean_in_priority(Signal::PauseRx, port, priority).unwrap_or(0.0);
            held.entry(priority).or_default().push((port, share));
        }
    }
    let worst = |(priority, held)| Some((priority, first(ctx, held, priority)?));
    let mut worst: Vec<_> = held.into_iter().filter_map(worst).collect();
    worst.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    worst.into_iter().map(|(priority, (port, share))| paused(ctx, port, share, priority)).collect()
}

/// Of the ports that were paused first in a priority, the one paused most.
fn first(ctx: &DetectorContext<'_>, mut held: Vec<(usize, f64)>, priority: Option<usize>) -> Option<(usize, f64)> {
    held.sort_by(|a, b| b.1.total_cmp(&a.1));
    held.truncate(LOOKED_AT);
    let began = |port| HoldSignal::of(ctx, port).and_then(|hold| hold.onset(ctx, priority));
    let held: Vec<_> = held.into_iter().map(|one| (one, began(one.0))).collect();
    let first_ns = held.iter().filter_map(|(_, began)| *began).map(|began| began.at_ns).min();
    let later = |began: Option<Onset>| began.zip(first_ns).is_some_and(|(began, first)| began.is_later(ctx, first));
    held.into_iter().find(|(_, began)| !later(*began)).map(|one| one.0)
}

/// The finding for the port paused most in a priority.
fn paused(ctx: &DetectorContext<'_>, worst: usize, share: f64, priority: Option<usize>) -> Finding {
    let fabric = ctx.fabric;
    let least = ctx.threshold(&PAUSED);
    let began = ctx.first_time(|f| f.in_priority(Signal::PauseRx, worst, priority).is_some_and(|share| share >= least));
    let evidence = evidence(ctx, Signal::PauseRx, worst, share, least);
    let which = Priorities::one(priority);
    if let Some(found) = deadlock::find(ctx, worst, priority, &evidence) {
        return found.began_at(began);
    }
    let between =
        |port: usize| !fabric.is_host(port) && fabric.ports.list[port].peer.is_some_and(|p| !fabric.is_host(p));
    let begin = WaitGraph::from(ctx, worst, priority).ends(ctx).first().filter(|t| between(t.port)).map(|t| t.port);
    let found = match begin.and_then(|port| Some((port, fabric.ports.list[port].link?))) {
        Some((port, link)) => {
            let text = format!(
                "the traffic to {} exceeds its link rate; its switch pauses the senders{}.",
                name(ctx, port),
                which.words()
            );
            // A link that is the reason sends near its rate while others wait for its switch, or its queue has grown.
            let waits = waited_for(ctx, fabric.ports.list[port].end.node);
            let full = load_while(ctx, &waits, port).is_some_and(|load| load >= ctx.threshold(&FULL));
            let queue = ctx.mean(Signal::Queue, port).zip(ctx.baseline_mean(Signal::Queue, port));
            let grown = queue.is_some_and(|(now, before)| now >= ctx.threshold(&GROWN) * before);
            let sure = if full || grown { 0.5 } else { 0.4 };
            Finding::new(IncidentKind::UplinkCongestion, LocationId::Link(link), sure, evidence, text)
        }
        None => {
            let text =
                format!("{} is paused{}; the counters do not show where that begins.", name(ctx, worst), which.words());
            Finding::new(IncidentKind::FabricCongestion, LocationId::Fabric, 0.4, evidence, text).observed_at(worst)
        }
    };
    // The watchdog of the switch reports the queue that is paused, not what pauses it.
    let report = watchdog::report(ctx, worst);
    report.into_iter().fold(found, Finding::with_evidence).in_priorities(which).began_at(began)
}
