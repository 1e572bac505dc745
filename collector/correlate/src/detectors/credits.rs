//! InfiniBand congestion. There is no pause but credits: a port with data and without credits (or that loses
//! arbitration) counts what it could not send. With switch counters the wait graph names the location.

use crate::detectors::backpressure::{FULL, load_while, waited_for};
use crate::detectors::context::DetectorContext;
use crate::detectors::deadlock;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::{Threshold, thresholds};
use crate::detectors::wait_graph::congestion_roots;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

pub(super) const HOT_ROW: Detector = Detector {
    name: "credits_hot",
    warm_up_s: 30.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run: hot,
};

pub(super) const WARM_ROW: Detector = Detector {
    name: "credits",
    warm_up_s: 60.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run: warm,
};

thresholds! {
    /// share of the line rate that could not be sent, over half a minute
    HOT = "credits_hot.held", 0.2, "share of line rate";
    /// share of the line rate that could not be sent, over a minute
    WARM = "credits.held", 0.05, "share of line rate";
}

fn hot(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    judge(ctx, &HOT)
}

fn warm(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    judge(ctx, &WARM)
}

fn judge(ctx: &DetectorContext<'_>, limit: &Threshold) -> Vec<Finding> {
    let fabric = ctx.fabric;
    let least = ctx.threshold(limit);
    let waits = |port: usize| {
        // RoCE adapters have this counter too, but its value means nothing there.
        let share = ctx.mean(Signal::XmitWait, port).filter(|_| ctx.mean(Signal::PauseRx, port).is_none());
        share.filter(|share| *share >= least)
    };
    let worst = ctx.ports().filter_map(|p| Some((p, waits(p)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((worst, share)) = worst else { return Vec::new() };
    let found = |kind, root, sure, at: usize, share: f64, text| {
        let began = ctx.first_time(|f| f.get(Signal::XmitWait, at).is_some_and(|share| share >= least));
        Finding::new(kind, root, sure, evidence(ctx, Signal::XmitWait, at, share, least), text)
            .began_at(began)
            .observed_at(at)
    };
    // A host forwards nothing: a host that gives its switch no credits is the cause.
    let slow = |port: usize| {
        let switch = fabric.ports.list[port].peer?;
        let share = waits(switch)?;
        let text = format!(
            "{} gives its switch no credits {} of the time: its host does not drain the receive buffer.",
            name(ctx, port),
            percent(share)
        );
        Some((found(IncidentKind::SlowReceiver, LocationId::Port(port), 0.9, switch, share, text), share))
    };
    let mut hosts: Vec<(Finding, f64)> = ctx.host_ports().filter_map(slow).collect();
    hosts.sort_by(|a, b| b.1.total_cmp(&a.1));
    if !hosts.is_empty() {
        return hosts.into_iter().map(|(found, _)| found).collect();
    }
    let of = |port: usize| Some((port, fabric.ports.list[port].peer.filter(|_| !fabric.is_host(port))?));
    // The bottleneck: the port with the highest load while others wait for its switch.
    let load = |port: usize| {
        let waits = waited_for(ctx, fabric.ports.list[port].end.node);
        load_while(ctx, &waits, port).filter(|share| *share >= ctx.threshold(&FULL))
    };
    let ends = congestion_roots(ctx).into_values().flatten().filter_map(|t| Some((t.port, load(t.port)?)));
    let narrowest = ends.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(port, _)| port);
    let full = narrowest.and_then(of);
    let own = evidence(ctx, Signal::XmitWait, worst, share, least);
    let cycle = || deadlock::find(ctx, worst, None, &own);
    if let Some(found) = full.is_none().then(cycle).flatten() {
        return vec![found];
    }
    let one = match full {
        Some((_, host)) if fabric.is_host(host) => {
            let text = format!(
                "the traffic to {} exceeds its link rate; the host takes everything, and senders wait for credits.",
                name(ctx, host)
            );
            let culprits = fabric.job_of(host).into_iter().collect();
            found(IncidentKind::Incast, LocationId::Port(host), 0.8, worst, share, text).with_culprits(culprits)
        }
        Some((port, _)) => {
            let root = fabric.ports.list[port].link.map_or(LocationId::Fabric, LocationId::Link);
            let text =
                format!("the traffic out of {} exceeds its link rate; the senders wait for credits.", name(ctx, port));
            found(IncidentKind::UplinkCongestion, root, 0.6, worst, share, text)
        }
        None => {
            let text = format!(
                "{} could not send {} of its link rate (no credits, or lost arbitration); the counters do not show \
                 where that begins.",
                name(ctx, worst),
                percent(share)
            );
            found(IncidentKind::FabricCongestion, LocationId::Fabric, 0.4, worst, share, text)
        }
    };
    vec![one]
}
