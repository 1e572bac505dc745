//! Many senders exceed the link rate of one receiver: the switch port to a host is full while the host takes
//! everything. A receiver in no job is taken for storage: jobs read and write it at its full rate and share that rate, so the
//! finding is an observation.

use crate::detectors::backpressure::{load_while, waited_for};
use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::pause::is_paused;
use crate::detectors::thresholds::thresholds;
use crate::detectors::wait_graph::{CongestionRoot, congestion_roots};
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "incast",
    warm_up_s: 8.0,
    baseline_s: 10.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// how much longer than the next queue to another host its queue must be
    ALONE = "incast.alone", 3.0, "times the next";
    /// factor from which an uplink's longer queue is the bottleneck instead
    LONGER = "incast.longer", 2.0, "times";
    /// load of the port, while others wait for its switch, from which it is full
    FULL = "incast.full", 0.4, "share of rate";
    /// growth of marks, against the next port and its own baseline, that proves it without any pause
    FAR = "incast.far_alone", 10.0, "times the next";
    /// share of packets that must be marked, seen from hosts alone
    MARKED = "incast.marked", 0.2, "share of packets";
    /// samples with so many marks if no port is paused: bursts of a few seconds are normal traffic
    SAMPLES = "incast.samples", 4.0, "samples";
    /// growth of marked packets at the receiver, seen from hosts alone
    MORE = "incast.more", 4.0, "times usual";
}

/// An overloaded host: its ports that receive too much, priorities, evidence, confidence, and when senders were first paused.
type Target = (Vec<usize>, Priorities, Evidence, f64, Option<i64>);

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let mut targets = from_switches(ctx);
    if targets.is_empty() {
        targets.extend(from_hosts(ctx));
    }
    let found = |(ports, which, evidence, sure, began): Target| {
        let port = ports[0];
        let culprits: Vec<usize> = ctx.fabric.job_of(port).into_iter().collect();
        let whose = culprits.first().map_or_else(String::new, |j| format!(" of {}", ctx.fabric.jobs[*j].id));
        let node = ctx.fabric.ports.list[port].end.node;
        let (root, at) = match ports.len() {
            1 => (LocationId::Port(port), name(ctx, port)),
            many => (LocationId::Host(node), format!("{many} NICs of {}", ctx.fabric.topology.nodes[node].name)),
        };
        let text = format!(
            "the traffic to {at}{whose} exceeds the link rate; the host takes everything, and its switch pauses the \
             senders{}.",
            which.words()
        );
        Finding::new(IncidentKind::Incast, root, sure, evidence, text)
            .with_culprits(culprits)
            .with_receivers(ports)
            .in_priorities(which)
            .began_at(began)
            .harmless_if(ctx.fabric.is_outside_jobs(port))
    };
    targets.into_iter().map(found).collect()
}

/// In each priority the host behind the long queues.
fn from_switches(ctx: &DetectorContext<'_>) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for (priority, congestion_roots) in congestion_roots(ctx) {
        let Some((hosts, evidence)) = alone(ctx, &congestion_roots, priority) else { continue };
        let which = Priorities::one(priority);
        match targets.iter_mut().find(|(ports, ..)| same_host(ctx, ports[0], hosts[0])) {
            Some((_, known, ..)) if known.is_unknown() => *known = which,
            Some((_, known, ..)) if !which.is_unknown() => *known = known.union(which),
            Some(_) => {}
            None => {
                let egress = hosts.iter().filter_map(|host| ctx.fabric.ports.list[*host].peer);
                let senders: Vec<usize> = egress.flat_map(|egress| senders(ctx, egress)).collect();
                targets.push((hosts, which, evidence, 0.9, first_paused(ctx, &senders)));
            }
        }
    }
    targets
}

/// The port, and other ports of its host that are not much less loaded.
fn with_siblings(ctx: &DetectorContext<'_>, all: impl Iterator<Item = (usize, f64)>, port: usize) -> Vec<usize> {
    let own: Vec<(usize, f64)> = all.filter(|(other, _)| same_host(ctx, *other, port)).collect();
    let most = own.iter().map(|one| one.1).fold(0.0, f64::max);
    own.into_iter().filter(|(_, load)| ctx.threshold(&ALONE) * load > most).map(|(port, _)| port).collect()
}

fn same_host(ctx: &DetectorContext<'_>, a: usize, b: usize) -> bool {
    let node = |port: usize| ctx.fabric.ports.list[port].end.node;
    node(a) == node(b)
}

/// Whether most marked packets arrived at a receiver in samples in which it notified nobody. Then its senders send too much
/// for want of notifications, which takes longer to prove.
fn is_silent(ctx: &DetectorContext<'_>, host: usize) -> bool {
    let marked = |frame: &&Arc<Frame>| frame.get(Signal::EcnRx, host).unwrap_or(0.0);
    let frames = || ctx.window.frames().iter();
    let unnoticed: f64 = frames().filter(|f| f.get(Signal::CnpTx, host) == Some(0.0)).map(|f| marked(&f)).sum();
    unnoticed > 0.5 * frames().map(|f| marked(&f)).sum::<f64>()
}

/// Ports of the host towards which queues are much longer than towards any other host.
fn alone(
    ctx: &DetectorContext<'_>,
    congestion_roots: &[CongestionRoot],
    priority: Option<usize>,
) -> Option<(Vec<usize>, Evidence)> {
    let pauses = |host: usize| ctx.mean_in_priority(Signal::PauseTx, host, priority).unwrap_or(0.0);
    let towards: Vec<(usize, f64)> = congestion_roots
        .iter()
        .filter_map(|t| Some((ctx.fabric.ports.list[t.port].peer.filter(|p| ctx.fabric.is_host(*p))?, t.queue)))
        .filter(|(host, _)| pauses(*host) < ctx.threshold(&PAUSED) && !is_silent(ctx, *host))
        .collect();
    let alone = ctx.threshold(&ALONE);
    let (host, queue) = *towards.first()?;
    // A collective sends to all NICs of a host at once.
    let next = towards.iter().find(|t| !same_host(ctx, t.0, host)).map_or(0.0, |t| t.1);
    let egress = ctx.fabric.ports.list[host].peer?;
    // An uplink with a longer queue that is not paused is the bottleneck.
    let longer = congestion_roots.first().is_some_and(|t| t.queue > ctx.threshold(&LONGER) * queue);
    if queue <= 0.0 || queue < alone * next || longer || !is_full(ctx, egress) {
        return None;
    }
    let own = with_siblings(ctx, towards.iter().copied(), host);
    Some((own, evidence(ctx, Signal::Queue, egress, queue, alone * next)))
}

/// Whether a switch port is full while its switch holds senders back, and that is no short burst. A port that gets more
/// than its link carries sends at line rate while others wait for it.
fn is_full(ctx: &DetectorContext<'_>, egress: usize) -> bool {
    let node = ctx.fabric.ports.list[egress].end.node;
    senders(ctx, egress).into_iter().any(|sender| is_paused(ctx, sender))
        && load_while(ctx, &waited_for(ctx, node), egress).is_none_or(|load| load >= ctx.threshold(&FULL))
}

/// Ports that send to the switch of a port.
fn senders(ctx: &DetectorContext<'_>, egress: usize) -> Vec<usize> {
    let list = &ctx.fabric.ports.list;
    ctx.fabric.ports.of_node(list[egress].end.node).iter().filter_map(|port| list[*port].peer).collect()
}

/// The first instant of the window at which any of these ports was paused, Unix nanoseconds.
fn first_paused(ctx: &DetectorContext<'_>, ports: &[usize]) -> Option<i64> {
    let least = ctx.threshold(&PAUSED);
    ctx.first_time(|f| ports.iter().any(|p| f.get(Signal::PauseRx, *p).is_some_and(|share| share >= least)))
}

/// The port that receives far more marked packets than all others, while switches pause senders. If its own switch
/// reports queues, they have the last word.
fn from_hosts(ctx: &DetectorContext<'_>) -> Option<Target> {
    let limit = |row| ctx.threshold(row);
    let mut marked: Vec<(usize, f64)> =
        ctx.host_ports().filter_map(|p| Some((p, ctx.mean(Signal::EcnRx, p)?))).collect();
    let &(host, most) = marked.iter().reduce(|most, next| if next.1 > most.1 { next } else { most })?;
    if ctx.leaf_reports(host, Signal::Queue) {
        return None;
    }
    marked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let next = marked.iter().find(|m| !same_host(ctx, m.0, host)).map_or(0.0, |m| m.1);
    let baseline = ctx.baseline_mean(Signal::EcnRx, host).unwrap_or(0.0);
    let own = ctx.mean(Signal::PauseTx, host).unwrap_or(0.0) < ctx.threshold(&PAUSED);
    let alone = most >= limit(&ALONE) * next && most >= limit(&MORE) * baseline;
    let share = most / ctx.mean(Signal::RxPackets, host).unwrap_or(f64::INFINITY);
    let is_long = || {
        let part = |f: &Frame| Some(f.get(Signal::EcnRx, host)? / f.get(Signal::RxPackets, host)?);
        let marked = |f: &&Arc<Frame>| part(f).is_some_and(|part| part >= limit(&MARKED));
        ctx.window.frames().iter().filter(marked).count() as f64 >= limit(&SAMPLES)
    };
    let pauses = |p: usize| ctx.mean(Signal::PauseRx, p).is_some_and(|share| share >= ctx.threshold(&PAUSED));
    let paused = ctx.host_ports().any(pauses);
    let far_alone = most >= limit(&FAR) * next && most >= limit(&FAR) * baseline && is_long();
    (own && !is_silent(ctx, host) && share >= limit(&MARKED) && (far_alone || (paused && alone))).then(|| {
        let marks = evidence(ctx, Signal::EcnRx, host, most, limit(&ALONE) * next);
        let hosts: Vec<usize> = ctx.host_ports().collect();
        let own = with_siblings(ctx, marked.iter().copied(), host);
        (own, Priorities::UNKNOWN, marks, 0.8, first_paused(ctx, &hosts))
    })
}
