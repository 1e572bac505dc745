//! A job loses because one rail of its hosts carries much less than the other rails.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, of_job, percent};
use crate::detectors::pcie;
use crate::detectors::thresholds::thresholds;
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const DETECTOR: Detector = Detector {
    name: "straggler_rail",
    warm_up_s: 20.0,
    baseline_s: 20.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// traffic of a rail, relative to the host's other rails, below which it lags behind
    LAGS = "straggler_rail.carries", 0.5, "share of siblings";
    /// the same before: a rail that never carried as much is no straggler
    KEPT = "straggler_rail.carried", 0.8, "share of siblings";
    /// what the job must have lost
    LOSS = "straggler_rail.loss", 0.05, "share of usual bytes";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let jobs = ctx.fabric.jobs.iter().enumerate();
    jobs.filter(|(at, _)| ctx.slowdown(*at).is_some_and(|f| f.slowed_more_than(ctx.threshold(&LOSS))))
        .filter_map(|(at, _)| judge(ctx, at))
        .collect()
}

fn judge(ctx: &DetectorContext<'_>, job: usize) -> Option<Finding> {
    let fabric = ctx.fabric;
    let mut by_host: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    // Of an adapter with several planes, ports that are none of them count nothing, now or before.
    let counts = |port: &usize| ctx.mean(Signal::Tx, *port).is_some() || ctx.baseline_mean(Signal::Tx, *port).is_some();
    for port in fabric.jobs[job].ports.iter().copied().filter(counts) {
        by_host.entry(fabric.ports.list[port].end.node).or_default().push(port);
    }
    let mut lag: Vec<(usize, f64)> = by_host.values().flat_map(|ports| behind(ctx, &rails(fabric, ports))).collect();
    lag.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (worst, share) = *lag.first()?;
    // If all hosts shift at once, the application does: it saves, loads or evaluates over one rail.
    let hosts: BTreeSet<usize> = lag.iter().map(|(port, _)| fabric.ports.list[*port].end.node).collect();
    if hosts.len() > 1 && hosts.len() == by_host.len() {
        return None;
    }
    let leaves: BTreeSet<Option<usize>> = lag.iter().map(|(port, _)| fabric.peer_node(*port)).collect();
    let (root, more) = match (lag.len(), leaves.first()) {
        (1, _) => (LocationId::Port(worst), String::new()),
        (n, Some(Some(leaf))) if leaves.len() == 1 => {
            (LocationId::Switch(*leaf), format!("; so do {} more at {}", n - 1, fabric.topology.nodes[*leaf].name))
        }
        (n, _) => (LocationId::Port(worst), format!("; so do {} more", n - 1)),
    };
    let id = &fabric.jobs[job].id;
    let carries = evidence(ctx, Signal::Tx, worst, share, ctx.threshold(&LAGS));
    let moved = ctx.slowdown(job).map_or(f64::NAN, |slowdown| slowdown.ratio);
    let loses = of_job(ctx, Signal::Tx, job, moved, 1.0 - ctx.threshold(&LOSS));
    let text = format!(
        "{} carries {} of what the other rails of its host carry, and {id} loses throughput{more}.",
        name(ctx, worst),
        percent(share)
    );
    let found = Finding::new(IncidentKind::StragglerRail, root, 0.45, carries, text).with_evidence(loses);
    // What is wrong with one adapter is no reason for several to lag behind.
    Some(if lag.len() == 1 { pcie::refine(ctx, worst, found) } else { found })
}

/// Ports of a host by rail. If some ports have a rail, those without are left out (storage, management); if none has,
/// each port is a rail.
fn rails(fabric: &Fabric, ports: &[usize]) -> Vec<Vec<usize>> {
    let mut rails: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for port in ports {
        if let Some(rail) = fabric.rail(*port) {
            rails.entry(rail).or_default().push(*port);
        }
    }
    if rails.is_empty() { ports.iter().map(|p| vec![*p]).collect() } else { rails.into_values().collect() }
}

/// First ports of the rails of a host that carry much less than the others, and did not before.
fn behind(ctx: &DetectorContext<'_>, rails: &[Vec<usize>]) -> Vec<(usize, f64)> {
    let moved = |of: &dyn Fn(Signal, usize) -> Option<f64>, rail: &[usize]| {
        let each = rail.iter().map(|port| Some(of(Signal::Tx, *port)? + of(Signal::Rx, *port)?));
        each.sum::<Option<f64>>()
    };
    let share = |of: &dyn Fn(Signal, usize) -> Option<f64>, at: usize| {
        let mut others: Vec<f64> =
            rails.iter().enumerate().filter(|r| r.0 != at).filter_map(|r| moved(of, r.1)).collect();
        others.sort_by(f64::total_cmp);
        let median = others.get(others.len() / 2).copied().filter(|m| *m > 0.0)?;
        Some(moved(of, &rails[at])? / median)
    };
    let lags = |at: usize| {
        let is = share(&|s, p| ctx.mean(s, p), at)?;
        let was = share(&|s, p| ctx.baseline_mean(s, p), at)?;
        (is < ctx.threshold(&LAGS) && was >= ctx.threshold(&KEPT)).then_some((rails[at][0], is))
    };
    (0..rails.len()).filter_map(lags).collect()
}
