//! Hosts whose NICs are slow receivers together.

use crate::detectors::context::DetectorContext;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use std::collections::BTreeMap;

/// Replaces slow receivers at all NICs of a host by one at the host: what its NICs have in common is slow.
pub(super) fn merge(ctx: &DetectorContext<'_>, found: Vec<Finding>) -> Vec<Finding> {
    let mut of_host: BTreeMap<usize, Vec<Finding>> = BTreeMap::new();
    let node = |f: &Finding| match f.root {
        LocationId::Port(port) if f.kind == IncidentKind::SlowReceiver => Some(ctx.fabric.ports.list[port].end.node),
        _ => None,
    };
    let (slow, mut all): (Vec<Finding>, Vec<Finding>) = found.into_iter().partition(|f| node(f).is_some());
    slow.into_iter().for_each(|f| of_host.entry(node(&f).unwrap_or_default()).or_default().push(f));
    for (host, mut each) in of_host {
        let nics = ctx.fabric.ports.of_node(host).iter().filter(|p| ctx.mean(Signal::Rx, **p).is_some()).count();
        if each.len() < 2 || each.len() < nics {
            all.append(&mut each);
            continue;
        }
        each.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        let priorities = each.iter().map(|f| f.priorities).reduce(Priorities::union).unwrap_or(Priorities::UNKNOWN);
        let began = each.iter().filter_map(|f| f.began_ns).min();
        let text = format!(
            "all {nics} NICs of {} pause their switches, because the host does not drain their receive buffers.",
            ctx.fabric.topology.nodes[host].name
        );
        let worst = each[0].clone();
        let evidence = each.into_iter().flat_map(|f| f.evidence).collect();
        let whole = Finding { root: LocationId::Host(host), priorities, evidence, explanation: text, ..worst };
        all.push(whole.began_at(began));
    }
    all
}
