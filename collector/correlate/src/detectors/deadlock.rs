//! Switches that hold each other back in a circle, so that nobody begins it: what each could send waits for the next. Routes
//! that go down and up again make such circles; once all buffers in one are full, nothing moves in it any more.

use crate::detectors::backpressure::{DEAD, HoldSignal};
use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::evidence::name;
use crate::detectors::wait_graph::WaitGraph;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;

/// Ticks that tell whether anything moves there by now.
const LATELY: usize = 3;

/// What to do about it.
const ACTION: &str = "Break the circle: let the PFC watchdog of these switches drop what stands, or take one of the links \
                      down for a moment. Then look for routes that go down and up again (around a failed link, or in a \
                      loop): without them there is no circle.";

/// If this port waits for such a circle in a priority; evidence is what tells that it waits.
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
    let dead = cycle.iter().all(|port| share(port) >= ctx.threshold(&DEAD));
    // Who stands still waits for the next by now, whatever came first.
    if !dead && !WaitGraph::from(ctx, port, priority).ends(ctx).is_empty() {
        return None;
    }
    let (sure, how) = if dead {
        (0.9, "nothing moves there any more: a deadlock (cyclic buffer dependency)")
    } else {
        (0.45, "none of them is full by itself: a cyclic buffer dependency")
    };
    let which = Priorities::one(priority);
    let text = format!(
        "{} hold each other back in a circle{}, each waits for the next, and {how}. {} was held first.",
        nodes.join(", "),
        which.words(),
        name(ctx, first)
    );
    let root = fabric.ports.list[first].link.map_or(LocationId::Port(first), LocationId::Link);
    let found = Finding::new(IncidentKind::FabricCongestion, root, sure, evidence.clone(), text);
    Some(found.in_priorities(which).with_action(ACTION))
}
