//! `fabriclens-agent ib-fabric` prints the subnet; `doctor` asks whether it can be read.

use super::names::SwitchNames;
use super::{IbFabric, open};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_mad::discovery::{Limits, Sweep, discover};
use fabriclens_agent_mad::paths;
use fabriclens_agent_mad::subnet::Node;
use fabriclens_base::error_chain::with_causes;
use std::fmt::Write as _;
use std::time::Instant;

/// The subnet as text: each switch with its ports, links and states.
///
/// # Errors
/// A sentence with the remedy.
pub fn report(config: &IbFabric, roots: &Roots) -> Result<String, String> {
    let (mut mad, name) = open(config, roots)?;
    let begin = Instant::now();
    let sweep = discover(&mut *mad, config.pace, config.limits, 0)
        .map_err(|error| format!("{name}: {}", with_causes(&error)))?;
    let took = begin.elapsed();
    let Sweep { subnet, counts, .. } = sweep;
    let names = SwitchNames::of(&subnet);
    let mut out = String::new();
    let called = |guid: u64, node: &Node| called(&names, guid, node);
    for (guid, node) in subnet.switches() {
        let lid = node.lid(0).map_or_else(|| "no LID".to_owned(), |lid| format!("LID {lid}"));
        _ = writeln!(out, "{}  0x{guid:016x}  {lid}  {} ports", called(guid, node), node.info.ports);
        for (port, info) in node.ports.iter().filter(|(port, _)| **port > 0) {
            let Some((far, far_port)) = subnet.links.get(&(guid, *port)) else { continue };
            let far = subnet.nodes.get(far).map_or_else(|| format!("0x{far:016x}"), |node| called(*far, node));
            let rate = info
                .rate_bits()
                .map_or_else(|| "rate unknown".to_owned(), |bits| format!("{} Gb/s", bits / 1_000_000_000));
            let state = if info.is_active() { "" } else { "  not active" };
            _ = writeln!(out, "  {port:>3}  {far} port {far_port}  {rate}{state}");
        }
    }
    let switches = subnet.switches().count();
    _ = writeln!(
        out,
        "{name}: {switches} switches, {} other nodes, {} links; {} MADs in {} ms, {} without an answer",
        subnet.nodes.len() - switches,
        subnet.links.len() / 2,
        counts.sent,
        took.as_millis(),
        counts.timed_out,
    );
    if subnet.truncated {
        _ = writeln!(out, "The subnet is larger than the limit; a part is missing.");
    }
    Ok(out)
}

fn called(names: &SwitchNames, guid: u64, node: &Node) -> String {
    names.get(guid).map_or_else(|| node.description.clone(), ToString::to_string)
}

/// The path between the ports of two LIDs as text, one line for each egress port.
///
/// # Errors
/// A sentence with the remedy.
pub fn path(config: &IbFabric, roots: &Roots, from: u16, to: u16) -> Result<String, String> {
    let (mut mad, name) = open(config, roots)?;
    let failed = |error: &dyn std::error::Error| format!("{name}: {}", with_causes(error));
    let sweep = discover(&mut *mad, config.pace, config.limits, 0).map_err(|error| failed(&error))?;
    let (subnet, next) = (sweep.subnet, sweep.next_transaction);
    let read = paths::read(&mut *mad, config.pace, &subnet, next).map_err(|error| failed(&error))?;
    let hops = read.tables.path(&subnet, from, to).map_err(|error| failed(&error))?;
    let names = SwitchNames::of(&subnet);
    let mut out = String::new();
    for hop in &hops {
        let (guid, port) = hop.egress;
        let node = subnet.nodes.get(&guid).map_or_else(String::new, |node| called(&names, guid, node));
        _ = writeln!(out, "{node} port {port}");
    }
    _ = writeln!(
        out,
        "{} hops by the forwarding tables; where a switch routes adaptively, one of several paths",
        hops.len()
    );
    Ok(out)
}

/// Whether the local port answers: its name, or why not.
///
/// # Errors
/// A sentence with the remedy.
pub fn probe(config: &IbFabric, roots: &Roots) -> Result<String, String> {
    let (mut mad, name) = open(config, roots)?;
    // The local node, and no further.
    let limits = Limits { nodes: 1, ..config.limits };
    discover(&mut *mad, config.pace, limits, 0).map_err(|error| format!("{name}: {}", with_causes(&error)))?;
    Ok(format!("reads the subnet at {name}, {} MADs a second at most", config.pace.per_second))
}
