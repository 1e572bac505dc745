//! A host that drains its receive buffer slowly, seen from hosts alone: in an all-to-all exchange every member sends to it
//! and waits, and only the slow receiver does not wait for itself.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_tree::CreditTree;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::BTreeSet;

thresholds! {
    /// wait of the longest waiting member of a job from which the one that does not wait is their common receiver
    SHARED = "credits.shared", 0.1, "share of line rate";
}

/// Share of the longest wait below which a port does not wait for the same receiver.
const PART: f64 = 0.25;
/// Waiting members that show a common receiver: two may be the ends of a slow link.
pub(super) const MEMBERS: usize = 3;
/// Share of the longest wait of all from which the waits of a job are no consequence of another's.
const MAIN: f64 = 0.5;
/// Growth of a port's traffic from which it does not drain slowly.
const MORE: f64 = 1.1;

/// The slow receiver, if the waits of a job's ports show it.
pub(super) fn judge(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    let groups = Group::all(ctx, tree);
    // Others wait behind the receiver's senders, so waits of several jobs may look alike.
    let mut shared = groups.iter().filter_map(|group| shared(ctx, tree, group));
    shared.next().filter(|_| shared.next().is_none())
}

/// Ports of a job on one rail, and the one that waits longest.
pub(super) struct Group {
    pub ports: Vec<usize>,
    pub waiter: usize,
    /// Its share of the line rate, beyond the usual.
    pub wait: f64,
}

impl Group {
    /// Those of which a port waits about as long as any, the longest wait first.
    pub fn all(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Vec<Self> {
        let Some((_, worst)) = tree.worst() else { return Vec::new() };
        let mut waits: Vec<(usize, f64)> = tree.waits.iter().map(|(port, wait)| (*port, *wait)).collect();
        waits.retain(|(_, wait)| *wait >= MAIN * worst);
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
        let groups = waits.into_iter().filter_map(|(waiter, wait)| {
            let ports = rail_of_job(ctx, waiter)?;
            seen.insert(ports.clone()).then_some(Self { ports, waiter, wait })
        });
        groups.collect()
    }

    /// Whether a port waits for the same receiver as the one that waits longest.
    pub fn waits(&self, tree: &CreditTree, port: usize) -> bool {
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
    // Where more ports of others wait, the cause may be a receiver of theirs.
    let wide = tree.waits.keys().filter(|p| group.waits(tree, **p) && !group.ports.contains(p)).count() > waiting.len();
    let more = ctx.mean(Signal::Rx, port)? > MORE * ctx.baseline_mean(Signal::Rx, port)?;
    let itself = ctx.mean(Signal::XmitWait, port)? > PART * wait || tree.waits.contains_key(&port);
    if wait < ctx.threshold(&SHARED) || waiting.len() < MEMBERS || leaves.len() < 2 || wide || more || itself {
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
pub(super) fn others_at_leaf(ctx: &DetectorContext<'_>, tree: &CreditTree, group: &Group, port: usize) -> bool {
    let leaf = ctx.fabric.peer_node(port);
    let near = |other: usize| ctx.fabric.peer_node(other) == leaf && ctx.fabric.rail(other) == ctx.fabric.rail(port);
    leaf.is_none()
        || tree.waits.keys().any(|other| group.waits(tree, *other) && near(*other) && !group.ports.contains(other))
}
