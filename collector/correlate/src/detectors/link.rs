//! Links that are down or flap. All links of a node at once are one finding. Hosts that no job uses are rebooted and their
//! drivers reloaded: what goes down there is an observation.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::HashSet;

pub(super) const FLAP: Detector = Detector {
    name: "link_flap",
    warm_up_s: 120.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run: flap,
};

pub(super) const DOWN: Detector = Detector {
    name: "link_down",
    warm_up_s: 4.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run: down,
};

thresholds! {
    /// consecutive samples for which a port must be down
    SAMPLES = "link_down.samples", 2.0, "samples";
    /// share of a node's links that are down at once from which the node is down
    WHOLE = "link_down.whole", 0.8, "share of links";
    /// hosts, switches and links that go down together from which they are one finding, because their cause is
    /// elsewhere
    MANY = "link_down.many", 16.0, "places";
    /// load just before it went down up to which a host without a job is out of use
    IDLE = "link_down.idle", 0.01, "share of rate";
    /// how often a link went down in ten minutes to count as flapping
    SHORT = "link_flap.in_10m", 3.0, "times";
    /// the same in a day, if it also did in the last ten minutes
    DAY = "link_flap.in_24h", 5.0, "times";
}

/// A cable or, where none is known, a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Cabling {
    port: usize,
    link: Option<usize>,
}

/// Each link once, by its first port.
fn cablings(ctx: &DetectorContext<'_>) -> Vec<Cabling> {
    let ports = ctx.fabric.ports.list.iter().enumerate();
    let first = |(at, port): &(usize, &crate::model::ports::Port)| port.peer.is_none_or(|peer| *at < peer);
    ports.filter(first).map(|(port, p)| Cabling { port, link: p.link }).collect()
}

fn ends(ctx: &DetectorContext<'_>, cabling: Cabling) -> impl Iterator<Item = usize> {
    [Some(cabling.port), ctx.fabric.ports.list[cabling.port].peer].into_iter().flatten()
}

fn root(cabling: Cabling) -> LocationId {
    cabling.link.map_or(LocationId::Port(cabling.port), LocationId::Link)
}

/// Whether a port was up at any known time.
fn was_up(ctx: &DetectorContext<'_>, port: usize) -> bool {
    let top = |window: &crate::baseline::window::Window| {
        window.mean(Signal::Up, port) == Some(1.0) || window.max(Signal::Up, port) == Some(1.0)
    };
    top(&ctx.baseline.window) || top(ctx.window)
}

/// Whether a port was up all the time, as nearly all are.
fn always_up(ctx: &DetectorContext<'_>, port: usize) -> bool {
    ctx.mean(Signal::Up, port) == Some(1.0)
}

/// Since when a port that was up is down.
fn fell(ctx: &DetectorContext<'_>, port: usize) -> Option<i64> {
    if always_up(ctx, port) || ctx.mean(Signal::Up, port).is_none() {
        return None;
    }
    let frames = || ctx.window.frames().iter().rev().filter_map(|f| Some((f.time_ns, f.get(Signal::Up, port)?)));
    let down = frames().take_while(|(_, up)| *up == 0.0);
    let (samples, began) = down.fold((0, None), |(n, _), (time, _)| (n + 1, Some(time)));
    (f64::from(samples) >= ctx.threshold(&SAMPLES) && was_up(ctx, port)).then_some(began)?
}

/// Seconds before a port went down in which it must have moved something to be in use.
const BEFORE_S: f64 = 5.0;

/// Whether a location is of hosts that no job uses, and moved nothing before; `None` without samples from
/// before it went down.
fn is_unused(ctx: &DetectorContext<'_>, root: &LocationId, began_ns: i64) -> Option<bool> {
    let from_ns = began_ns - (BEFORE_S * 1e9) as i64;
    let is_idle = |port: usize| {
        let rate = ctx.line_rate(port)?;
        let before = ctx.history.frames().iter().rev().filter(|f| f.time_ns < began_ns);
        let before = before.take_while(|f| f.time_ns >= from_ns);
        let loads = before.filter_map(|f| Some((f.get(Signal::Tx, port)? + f.get(Signal::Rx, port)?) / rate));
        loads.max_by(f64::total_cmp).map(|most| most <= ctx.threshold(&IDLE))
    };
    let mut hosts = root.ports(ctx.fabric);
    hosts.retain(|port| ctx.fabric.is_host(*port));
    if hosts.is_empty() || !hosts.iter().all(|port| ctx.fabric.is_outside_jobs(*port)) {
        return Some(false);
    }
    hosts.into_iter().map(is_idle).reduce(|all, one| Some(all? && one?))?
}

fn down(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let fell_cabling = |cabling: &Cabling| {
        Some((*cabling, ends(ctx, *cabling).filter_map(|p| Some((p, fell(ctx, p)?))).min_by_key(|f| f.1)?))
    };
    let all = cablings(ctx);
    let mut fallen: Vec<(Cabling, (usize, i64))> = all.iter().filter_map(fell_cabling).collect();
    let mut had = vec![0usize; ctx.fabric.topology.nodes.len()];
    if fallen.len() > 1 {
        for cabling in all.iter().filter(|l| ends(ctx, **l).any(|p| was_up(ctx, p))) {
            ends(ctx, *cabling).for_each(|p| had[ctx.fabric.ports.list[p].end.node] += 1);
        }
    }
    let mut found = Vec::new();
    while let Some((node, cablings)) = whole(ctx, &had, &fallen) {
        let (port, began) =
            fallen.iter().filter(|(l, _)| cablings.contains(l)).map(|f| f.1).min_by_key(|f| f.1).unwrap_or((0, 0));
        fallen.retain(|(cabling, _)| !cablings.contains(cabling));
        let evidence = evidence(ctx, Signal::Up, port, 0.0, 1.0);
        let (named, n) = (&ctx.fabric.topology.nodes[node], cablings.len());
        let (root, why) = match named.role {
            crate::model::topology::Role::Host => (LocationId::Host(node), "the host is down or restarts"),
            _ => (LocationId::Switch(node), "the switch is down or restarts"),
        };
        let text = format!("{n} links of {} went down together: {why}.", named.name);
        let unused = is_unused(ctx, &root, began);
        let whole = Finding::new(IncidentKind::LinkDown, root, 0.97, evidence, text);
        found.push(whole.began_at(Some(began)).harmless_if_known(unused));
    }
    found.extend(fallen.into_iter().map(|(cabling, (port, began))| {
        let evidence = evidence(ctx, Signal::Up, port, 0.0, 1.0);
        let text = format!("the link at {} is down; it was up before.", name(ctx, port));
        let unused = is_unused(ctx, &root(cabling), began);
        Finding::new(IncidentKind::LinkDown, root(cabling), 0.95, evidence, text)
            .began_at(Some(began))
            .harmless_if_known(unused)
    }));
    if found.len() as f64 <= ctx.threshold(&MANY) { found } else { together(ctx, found) }
}

/// Merges many findings into one, because their cause is elsewhere.
fn together(ctx: &DetectorContext<'_>, found: Vec<Finding>) -> Vec<Finding> {
    let n = found.len();
    let explanation =
        format!("{n} hosts, switches or links went down together: check power, cooling and what they share.");
    let first = found.into_iter().min_by_key(|finding| finding.began_ns);
    let together = |first: Finding| {
        let many = Evidence {
            at: "fabric".to_owned(),
            value: n as f64,
            threshold: ctx.threshold(&MANY),
            ..first.evidence[0].clone()
        };
        Finding { root: LocationId::Fabric, explanation, harmless: Some(false), ..first }.with_evidence(many)
    };
    first.map(together).into_iter().collect()
}

/// The node that most of the fallen links share, if nearly all of its links are among them.
fn whole(
    ctx: &DetectorContext<'_>,
    had: &[usize],
    fallen: &[(Cabling, (usize, i64))],
) -> Option<(usize, HashSet<Cabling>)> {
    let list = &ctx.fabric.ports.list;
    let mut lost = vec![0usize; had.len()];
    for (cabling, _) in fallen {
        ends(ctx, *cabling).for_each(|p| lost[list[p].end.node] += 1);
    }
    let nearly_all = |n: &usize| lost[*n] >= 2 && lost[*n] as f64 >= ctx.threshold(&WHOLE) * had[*n] as f64;
    let node = (0..had.len()).filter(nearly_all).max_by_key(|n| lost[*n])?;
    let of_node = |cabling: &Cabling| ends(ctx, *cabling).any(|p| list[p].end.node == node);
    Some((node, fallen.iter().map(|(cabling, _)| *cabling).filter(of_node).collect()))
}

fn flap(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    cablings(ctx).into_iter().filter_map(|cabling| flaps(ctx, cabling)).collect()
}

fn flaps(ctx: &DetectorContext<'_>, cabling: Cabling) -> Option<Finding> {
    let last = |signal, port| ctx.window.last_value(signal, port).unwrap_or(0.0);
    let of_port = |port: usize| {
        // Short falls between two samples are seen by the device alone. Its count of ten minutes is known once it is that old.
        let fell = falls(ctx, port);
        let counted = ctx.count(Signal::Falls, port).unwrap_or(0.0).round();
        let seen = (fell.len() as f64).max(counted).max(last(Signal::LinkDowns, port));
        let (short, long) = (ctx.threshold(&SHORT), ctx.threshold(&DAY));
        if seen >= short {
            let counts = |frame: &Frame| frame.get(Signal::Falls, port).is_some_and(|falls| falls > 0.0);
            let began = fell.first().copied().or_else(|| ctx.first_time(counts));
            return Some((port, Signal::LinkDowns, seen, short, "10 minutes", began));
        }
        let day = if seen >= 1.0 { last(Signal::LinkDownsDay, port) } else { 0.0 };
        (seen >= 1.0 && day >= long).then_some((port, Signal::LinkDownsDay, day, long, "24 hours", None))
    };
    let worst = ends(ctx, cabling).filter_map(of_port).max_by(|a, b| a.2.total_cmp(&b.2));
    let (port, signal, times, limit, time, began) = worst?;
    let evidence = evidence(ctx, signal, port, times, limit);
    let text = format!("the link at {} went down {times:.0} times in {time}.", name(ctx, port));
    Some(Finding::new(IncidentKind::LinkFlap, root(cabling), 0.96, evidence, text).began_at(began))
}

/// Instants at which a port went down, Unix nanoseconds.
fn falls(ctx: &DetectorContext<'_>, port: usize) -> Vec<i64> {
    let mut up = 0.0;
    let mut fell = Vec::new();
    if always_up(ctx, port) || ctx.mean(Signal::Up, port).is_none() {
        return fell;
    }
    for (time_ns, now) in ctx.window.frames().iter().filter_map(|f| Some((f.time_ns, f.get(Signal::Up, port)?))) {
        if now < up {
            fell.push(time_ns);
        }
        up = now;
    }
    fell
}
