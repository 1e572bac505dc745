//! A host that drains its receive buffer slowly, seen from hosts alone. Its senders wait, and what they do not share with
//! it shows where: in an all-to-all exchange every member sends to it and waits, and only the slow receiver does not wait
//! for itself. In a ring only its predecessor waits; the slow receiver is the one that receives at a constant rate.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_tree::CreditTree;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;

thresholds! {
    /// highest receive rate of a host that may drain slowly, seen from hosts alone
    FELL = "credits.ceiling", 0.7, "times usual";
    /// share of its busy samples at that rate
    FLAT = "credits.flat", 0.45, "share of samples";
    /// wait of the longest waiting member of a job from which the one that does not wait is their common receiver
    SHARED = "credits.shared", 0.1, "share of line rate";
}

/// Samples above the ceiling that may be chance, and how near to it a sample counts as on it.
const TOP: usize = 2;
const NEAR: f64 = 0.93;
/// Share of its former highest rate below which a host receives too little to show at which rate it drains.
const LEAST: f64 = 0.05;
/// Share of the longest wait below which a port does not wait for the same receiver.
const PART: f64 = 0.25;
/// Waiting members that show a common receiver: two may share an uplink by chance.
const MEMBERS: usize = 3;
/// Share of the longest wait of all from which the waits of a job are no consequence of another's.
const MAIN: f64 = 0.5;
/// Growth of a port's traffic from which it does not drain slowly.
const MORE: f64 = 1.1;
/// Samples that show a constant rate.
const SAMPLES: usize = 20;
/// Highest share of a sender's bytes, sample by sample, that its only receiver may differ by: packets on the way, and
/// other senders.
const DIFFERS: f64 = 0.25;

/// The slow receiver, if the waits of a job's ports show it.
pub(super) fn judge(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    let (_, worst) = tree.worst()?;
    let mut waits: Vec<(usize, f64)> = tree.waits.iter().map(|(port, wait)| (*port, *wait)).collect();
    waits.retain(|(_, wait)| *wait >= tree.least().max(MAIN * worst));
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
    let groups = waits.into_iter().filter_map(|(waiter, wait)| {
        let ports = rail_of_job(ctx, waiter)?;
        seen.insert(ports.clone()).then_some(Group { ports, waiter, wait })
    });
    let groups: Vec<Group> = groups.collect();
    // Others wait behind the receiver's senders, so waits of several jobs may look alike.
    let mut shared = groups.iter().filter_map(|group| shared(ctx, tree, group));
    if let Some(found) = shared.next() {
        return Some(found).filter(|_| shared.next().is_none());
    }
    groups.iter().find_map(|group| ceiling(ctx, tree, group))
}

/// Ports of a job on one rail, and the one that waits longest.
struct Group {
    ports: Vec<usize>,
    waiter: usize,
    /// Its share of the line rate, beyond the usual.
    wait: f64,
}

impl Group {
    fn waits(&self, tree: &CreditTree, port: usize) -> bool {
        tree.waits.get(&port).is_some_and(|own| *own >= PART * self.wait)
    }
}

/// Ports of the same job on the same rail.
fn rail_of_job(ctx: &DetectorContext<'_>, port: usize) -> Option<Vec<usize>> {
    let job = ctx.fabric.job_of(port)?;
    let rail = ctx.fabric.rail(port);
    Some(ctx.fabric.jobs[job].ports.iter().copied().filter(|other| ctx.fabric.rail(*other) == rail).collect())
}

/// The one member of a job that does not wait while all others do: they send to it. Members at one leaf may wait for
/// their uplink instead.
fn shared(ctx: &DetectorContext<'_>, tree: &CreditTree, group: &Group) -> Option<Finding> {
    let Group { waiter, wait, .. } = *group;
    let (waiting, others): (Vec<usize>, Vec<usize>) = group.ports.iter().copied().partition(|p| group.waits(tree, *p));
    let &[port] = others.as_slice() else { return None };
    let leaves: BTreeSet<Option<usize>> = waiting.iter().map(|port| ctx.fabric.peer_node(*port)).collect();
    let enough = waiting.len() >= MEMBERS || waiting.len() == 2 && low(ctx, Signal::Rx, port).is_some();
    let more = ctx.mean(Signal::Rx, port)? > MORE * ctx.baseline_mean(Signal::Rx, port)?;
    let itself = ctx.mean(Signal::XmitWait, port)? > PART * wait || tree.waits.contains_key(&port);
    if wait < ctx.threshold(&SHARED) || !enough || leaves.len() < 2 || more || itself {
        return None;
    }
    let text = format!(
        "all other hosts of its job wait for credits, {} of the link rate at {}, and {} does not: they send to it, and it \
         drains the receive buffer slowly.",
        percent(wait),
        name(ctx, waiter),
        name(ctx, port)
    );
    let waits = evidence(ctx, Signal::XmitWait, waiter, wait, ctx.threshold(&SHARED));
    let sure = if others_at_leaf(ctx, tree, group, port) { 0.45 } else { 0.6 };
    Some(Finding::new(IncidentKind::SlowReceiver, LocationId::Port(port), sure, waits, text).as_inferred())
}

/// Whether hosts of other jobs at a port's leaf wait too. They do not send to it, so a link of the leaf may be slow
/// instead, which is slow in both directions.
fn others_at_leaf(ctx: &DetectorContext<'_>, tree: &CreditTree, group: &Group, port: usize) -> bool {
    let leaf = ctx.fabric.peer_node(port);
    let near = |other: usize| ctx.fabric.peer_node(other) == leaf && ctx.fabric.rail(other) == ctx.fabric.rail(port);
    leaf.is_none()
        || tree.waits.keys().any(|other| group.waits(tree, *other) && near(*other) && !group.ports.contains(other))
}

/// The receiver of a waiting member, if it receives at a constant rate far below what it did: it drains its buffer no
/// faster. The rates of its peers vary, because they send whatever has arrived.
fn ceiling(ctx: &DetectorContext<'_>, tree: &CreditTree, group: &Group) -> Option<Finding> {
    let Group { waiter, wait, .. } = *group;
    if ctx.window.ticks() < SAMPLES {
        return None;
    }
    let port = receiver(ctx, group)?;
    let (most, before) = low(ctx, Signal::Rx, port).filter(|_| !group.waits(tree, port))?;
    let text = format!(
        "{} waits for credits, and {}, which it sends to, receives at a constant rate, {} of its former highest: its host \
         drains the receive buffer slowly.",
        name(ctx, waiter),
        name(ctx, port),
        percent(most / before)
    );
    let got = evidence(ctx, Signal::Rx, port, most, ctx.threshold(&FELL) * before);
    let waits = evidence(ctx, Signal::XmitWait, waiter, wait, 0.0);
    let here = |other: usize| ctx.fabric.peer_node(other) == ctx.fabric.peer_node(port);
    let waiters = || tree.waits.keys().copied().filter(|other| group.waits(tree, *other));
    let link = ctx.fabric.peer_node(port).is_none() || waiters().any(here) && !waiters().all(here);
    let found =
        Finding::new(IncidentKind::SlowReceiver, LocationId::Port(port), if link { 0.45 } else { 0.55 }, got, text);
    Some(found.with_evidence(waits).as_inferred())
}

/// The member that receives what the longest waiting one sends: by its queue pairs, or else by its bytes.
fn receiver(ctx: &DetectorContext<'_>, group: &Group) -> Option<usize> {
    let others = || group.ports.iter().copied().filter(|port| *port != group.waiter);
    if let Some(peers) = ctx.fabric.peers_of(&[group.waiter]) {
        let mut connected = others().filter(|port| peers.contains(port));
        return connected.next().filter(|_| connected.next().is_none());
    }
    let differs = |port: usize| {
        let each = |frame: &Arc<Frame>| {
            let sent = frame.get(Signal::Tx, group.waiter)?;
            Some((sent, (sent - frame.get(Signal::Rx, port)?).abs()))
        };
        let both = ctx.window.frames().iter().filter_map(each).reduce(|a, b| (a.0 + b.0, a.1 + b.1));
        both.filter(|(sent, _)| *sent > 0.0).map(|(sent, differs)| (port, differs / sent))
    };
    let nearest = others().filter_map(differs).min_by(|a, b| a.1.total_cmp(&b.1))?;
    (nearest.1 <= DIFFERS).then_some(nearest.0)
}

/// Ceiling of a port and its former highest rate, if the ceiling is constant and far below it.
fn low(ctx: &DetectorContext<'_>, signal: Signal, port: usize) -> Option<(f64, f64)> {
    let (top, flat) = ceiling_of(ctx, signal, port)?;
    let before = ctx.baseline.window.max(signal, port)?;
    let fell = (LEAST * before..=ctx.threshold(&FELL) * before).contains(&top);
    (fell && flat >= ctx.threshold(&FLAT)).then_some((top, before))
}

/// The highest rate of a port in the window but for a few samples, and the share of its busy samples that are near it.
pub(super) fn ceiling_of(ctx: &DetectorContext<'_>, signal: Signal, port: usize) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = ctx.window.values(signal, port).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let top = *values.get(TOP)?;
    let busy: Vec<f64> = values.into_iter().filter(|rate| *rate >= 0.5 * top).collect();
    let flat = busy.iter().filter(|rate| **rate >= NEAR * top).count() as f64 / busy.len() as f64;
    Some((top, flat))
}
