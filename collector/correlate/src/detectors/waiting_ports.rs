//! Which ports wait for one incident and not for another that is open beside it: the wait graph behind each port tells.

use crate::detectors::backpressure;
use crate::detectors::context::DetectorContext;
use crate::detectors::wait_graph::WaitGraph;
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::priority::Priorities;
use std::collections::{BTreeMap, BTreeSet};

/// Ports of a finding's location and those that receive too much, each with the port at the other end of its cable.
pub fn places(fabric: &Fabric, found: &Finding) -> BTreeSet<usize> {
    let ports = found.root.ports(fabric).into_iter().chain(found.receivers.iter().copied());
    ports.flat_map(|port| [Some(port), fabric.ports.list[port].peer]).flatten().collect()
}

/// Ports that are held back in some of these priorities, without those that wait for `others` and not for `own` (ports of
/// incidents). What a port waits for may be unknown; then it stays.
pub fn waiting(
    ctx: &DetectorContext<'_>,
    priorities: Priorities,
    own: &BTreeSet<usize>,
    others: &BTreeSet<usize>,
) -> Vec<usize> {
    let mut known: BTreeMap<(usize, Option<usize>), BTreeSet<usize>> = BTreeMap::new();
    let mut of_another = |port: usize| {
        let peer = ctx.fabric.ports.list[port].peer;
        let mut ends: BTreeSet<usize> = [Some(port), peer].into_iter().flatten().collect();
        let node = peer.filter(|peer| !ctx.fabric.is_host(*peer)).map(|peer| ctx.fabric.ports.list[peer].end.node);
        let held = backpressure::priorities(ctx, port);
        for of in held.each().filter(|of| priorities.meets(Priorities::one(*of))) {
            let graph = || WaitGraph::unordered(ctx, port, of).all_ends().collect();
            if let Some(node) = node {
                ends.extend(&*known.entry((node, of)).or_insert_with(graph));
            }
        }
        ends.is_disjoint(own) && !ends.is_disjoint(others)
    };
    let waits = |p: &usize| backpressure::is_held(ctx, *p) && backpressure::priorities(ctx, *p).meets(priorities);
    ctx.ports().filter(waits).filter(|port| others.is_empty() || !of_another(*port)).collect()
}
