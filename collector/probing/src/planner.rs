//! Computes the plans of all hosts.

use bytes::Bytes;
use fabriclens_config::Probes;
use fabriclens_correlate::Topology;
use fabriclens_probe_plan::{LASTS, PairClass, PlanReply, ProbedPort, SOURCE_PORTS, TARGETS, Target};
use prost::Message as _;

use crate::demand::Demand;
use crate::plan_table::{PlanTable, Totals};
use crate::rates::{bound, cost};
use crate::registry::Offer;
use crate::targets::{Draft, PlanPorts};

/// Plans for the ports of all offers. `hour` decides which source ports change.
pub(crate) fn plan(offers: &[Offer], topology: &Topology, demand: &Demand, settings: &Probes, hour: u64) -> PlanTable {
    let ports = PlanPorts::new(offers, topology, demand);
    let mut drafts = ports.drafts(demand, settings.paths, hour);
    bound(&mut drafts, &ports.list, settings);
    drafts.retain(|draft| draft.rate > 0.0 || draft.trace_s.is_finite());
    let mut table = PlanTable::default();
    let mut totals = Totals { hosts: offers.len(), ports: ports.list.len(), ..Totals::default() };
    // Ports and drafts are in order of hosts.
    for of_host in drafts.chunk_by(|a, b| ports.list[a.from].host == ports.list[b.from].host) {
        let mut of_host: Vec<&Draft> = of_host.iter().collect();
        of_host.sort_by_key(|draft| rank(draft));
        totals.left_out += of_host.len().saturating_sub(TARGETS);
        of_host.truncate(TARGETS);
        for draft in &of_host {
            *totals.pairs.entry(class_name(draft.class)).or_default() += 1;
            totals.probes_per_s += cost(draft);
            totals.traces_per_s += draft.source_ports.len() as f64 / draft.trace_s;
        }
        let bytes = encoded(of_host.iter().map(|draft| target(&ports, draft, settings)).collect());
        totals.bytes += bytes.len();
        let pairs = of_host.iter().map(|draft| {
            let [from, to] = [draft.from, draft.to].map(|at| &ports.list[at]);
            let names = [from.port().name.as_str(), &*to.host, to.port().name.as_str()];
            let answer = to.port().source_ports.first().and_then(|port| u16::try_from(*port).ok());
            (names, draft.source_ports.as_slice(), answer)
        });
        table.add(&ports.list[of_host[0].from].host, bytes, pairs);
    }
    totals.unused = ports.unused;
    table.totals = totals;
    table
}

/// A plan as agents get it.
pub(crate) fn encoded(targets: Vec<Target>) -> Bytes {
    let lasts_ms = u32::try_from(LASTS.as_millis()).unwrap_or(u32::MAX);
    PlanReply { lasts_ms, targets }.encode_to_vec().into()
}

/// The most important first.
fn rank(draft: &Draft) -> u8 {
    match (draft.is_suspect, draft.class) {
        (true, _) => 0,
        (_, PairClass::Job) => 1,
        (_, PairClass::CrossLeaf | PairClass::Unknown) => 2,
        (_, PairClass::SameLeaf) => 3,
    }
}

/// Name of a class in metrics and in the API.
pub(crate) fn class_name(class: PairClass) -> &'static str {
    match class {
        PairClass::Unknown => "unknown",
        PairClass::SameLeaf => "same_leaf",
        PairClass::CrossLeaf => "cross_leaf",
        PairClass::Job => "job",
    }
}

fn target(ports: &PlanPorts, draft: &Draft, settings: &Probes) -> Target {
    let [from, to] = [draft.from, draft.to].map(|at| &ports.list[at]);
    let interval_ms = |seconds: f64| if seconds.is_finite() { (seconds * 1e3).ceil() as u32 } else { 0 };
    Target {
        from: from.port().name.clone(),
        host: to.host.to_string(),
        to: Some(to.port().clone()),
        source_ports: in_turn(draft).into_iter().map(u32::from).collect(),
        traffic_class: traffic_class(from.port(), settings),
        service_level: settings.service_level.map_or(0, u32::from),
        trace_every_ms: interval_ms(draft.trace_s),
        probe_every_ms: interval_ms(1.0 / draft.rate),
        tcp_twin: draft.twin,
        class: draft.class.into(),
    }
}

/// Traffic class of packets from a port: the configured one, else that of its queue pairs as far as its host tells it.
pub(crate) fn traffic_class(port: &ProbedPort, settings: &Probes) -> u32 {
    settings.traffic_class.map(u32::from).or(port.traffic_class).unwrap_or(0)
}

/// Source ports in the order in which they take turns: every second probe crosses a suspect link, the others tell how many are lost
/// without it.
fn in_turn(draft: &Draft) -> Vec<u16> {
    let suspects = &draft.suspect_ports;
    let others: Vec<u16> = draft.source_ports.iter().copied().filter(|port| !suspects.contains(port)).collect();
    if suspects.is_empty() || others.is_empty() {
        return draft.source_ports.clone();
    }
    let turns = suspects.len().max(others.len()).min(SOURCE_PORTS / 2);
    (0..turns).flat_map(|at| [suspects[at % suspects.len()], others[at % others.len()]]).collect()
}

#[cfg(test)]
mod tests;
