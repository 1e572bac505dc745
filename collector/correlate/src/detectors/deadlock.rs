//! Deadlock (cyclic buffer dependency): switches that hold each other back in a cycle, so that no port is the cause.
//! Routes that go down and up again create such cycles; once all buffers are full, nothing moves.

use crate::detectors::backpressure::{DEAD, HoldSignal};
use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::evidence::name;
use crate::detectors::wait_graph::WaitGraph;
use crate::detectors::watchdog;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::priority::Priorities;

/// Latest frames that show whether anything still moves.
const LATELY: usize = 3;

/// Action for a deadlock.
const ACTION: &str = "Break the cycle: let the PFC watchdog of these switches drop the stuck packets, or take one \
 of the links down for a moment. Then find the routes that go down and up again (around a failed link, or in a \
 loop): without them there is no cycle.";

/// The finding if this port waits for a cycle in a priority; `evidence` shows that it waits.
pub(super) fn find(
    ctx: &DetectorContext<'_>,
    port: usize,
    priority: Option<usize>,
    evidence: &Evidence,
) -> Option<Finding> {
    let fabric = ctx.fabric;
    let now = ctx.window.last(LATELY);
    let slowdowns = SlowdownCache::new();
    let lately = ctx.with_window(&now, &slowdowns);
    let cycle = WaitGraph::unordered(&lately, port, priority).cycle(&lately)?;
    let first = *cycle.first()?;
    let nodes: Vec<&str> =
        cycle.iter().map(|p| fabric.topology.nodes[fabric.ports.list[*p].end.node].name.as_str()).collect();
    let share = |port: &usize| HoldSignal::of(&lately, *port).map_or(0.0, |hold| hold.share(&lately, priority));
    // Watchdogs report queues that sent nothing for a while. They then drop, which ends the pause for a moment.
    let stuck = |port: &usize| share(port) >= ctx.threshold(&DEAD) || watchdog::storms(ctx, *port).is_some();
    let dead = cycle.iter().all(stuck);
    // In a deadlock every port waits for the next, whatever began first.
    if !dead && !WaitGraph::from(ctx, port, priority).ends(ctx).is_empty() {
        return None;
    }
    let (sure, how) = if dead {
        (0.9, "nothing moves any more: a deadlock (cyclic buffer dependency)")
    } else {
        (0.45, "none of them is full by itself: a cyclic buffer dependency")
    };
    let which = Priorities::one(priority);
    let text = format!(
        "{} hold each other back in a cycle{}: each waits for the next, and {how}. {} was held back first.",
        nodes.join(", "),
        which.words(),
        name(ctx, first)
    );
    let root = fabric.link_or_port(first);
    let found = Finding::new(IncidentKind::FabricCongestion, root, sure, evidence.clone(), text);
    let reports = cycle.iter().filter_map(|port| watchdog::report(ctx, *port));
    Some(reports.fold(found.in_priorities(which).with_action(ACTION), Finding::with_evidence))
}
