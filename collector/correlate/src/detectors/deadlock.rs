//! Switches that hold each other back in a circle, so that nobody begins it: what each could send waits for the next. Routes
//! that go down and up again make such circles; once all buffers in one are full, nothing moves in it any more.

use crate::detectors::evidence::name;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::detectors::wait_graph::Graph;
use crate::model::priority::Priorities;
use crate::detectors::context::{SlowdownCache, DetectorContext};
use crate::detectors::backpressure::{DEAD, HoldSignal};

/// Ticks that tell whether anything moves there by now.
const LATELY: usize = 3;

/// What to do about it.
const ACTION: &str = "Break the circle: let the PFC watchdog of these switches drop what stands, or take one of the links \
                      down for a moment. Then look for routes that go down and up again (around a failed link, or in a \
                      loop): without them there is no circle.";

/// If this port waits for such a circle in a priority; evidence is what tells that it waits.
pub(super) fn find(scene: &DetectorContext<'_>, port: usize, priority: Option<usize>, evidence: &Evidence) -> Option<Finding> {
    let fabric = scene.fabric;
    let now = scene.now.last(LATELY);
    let fares = SlowdownCache::new();
    let lately = scene.lately(&now, &fares);
    let circle = Graph::as_it_stands(&lately, port, priority).circle(&lately)?;
    let first = *circle.first()?;
    let nodes: Vec<&str> =
        circle.iter().map(|p| fabric.topology.nodes[fabric.ports.list[*p].end.node].name.as_str()).collect();
    let share = |port: &usize| HoldSignal::of(&lately, *port).map_or(0.0, |sign| sign.share(&lately, priority));
    let dead = circle.iter().all(|port| share(port) >= scene.limit(&DEAD));
    // Who stands still waits for the next by now, whatever came first.
    if !dead && !Graph::from(scene, port, priority).ends(scene).is_empty() {
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
        name(scene, first)
    );
    let root = fabric.ports.list[first].link.map_or(LocationId::Port(first), LocationId::Link);
    let found = Finding::new(IncidentKind::FabricCongestion, root, sure, evidence.clone(), text);
    Some(found.within(which).to_mend(ACTION))
}
