//! Slurm's `topology.conf` (tree and block), and the output of `scontrol show topology`. It names no ports, and its
//! `LinkSpeed` has no unit. Topograph writes this format too, with real switch names in comments.

use super::source::{Cable, CableEnd, FormatError, TopologySource};
use super::types::{Provenance, Role};
use fabriclens_model::hostlist;
use std::collections::{HashMap, HashSet};

pub(super) fn fits(text: &str) -> bool {
    let first = |line: &str| line.trim_start().split('=').next().map(str::to_ascii_lowercase);
    text.lines()
        .any(|line| first(line).is_some_and(|key| (key == "switchname" || key == "blockname") && line.contains('=')))
}

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let real = real_names(text);
    let mut from = 1;
    let mut whole = String::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if whole.is_empty() {
            from = n + 1;
        }
        // A backslash continues the line.
        if let Some(part) = line.strip_suffix('\\') {
            whole.push_str(part);
            continue;
        }
        whole.push_str(line);
        row(&std::mem::take(&mut whole), from, &real, out);
    }
    row(&whole, from, &real, out);
    Ok(())
}

/// Reads `# switch.3.1=hpcislandid-1`, which topograph writes where it shortens names.
fn real_names(text: &str) -> HashMap<&str, &str> {
    let comments = text.lines().filter_map(|line| line.trim().strip_prefix('#'));
    comments.filter_map(|c| c.trim().split_once('=')).filter(|(_, real)| !real.contains(char::is_whitespace)).collect()
}

fn row(line: &str, n: usize, real: &HashMap<&str, &str>, out: &mut TopologySource) {
    let pairs: HashMap<String, &str> =
        line.split_whitespace().filter_map(|w| w.split_once('=')).map(|(k, v)| (k.to_ascii_lowercase(), v)).collect();
    let get = |key: &str| pairs.get(key).copied().unwrap_or_default();
    let name = |name: &str| real.get(name).map_or_else(|| name.to_owned(), |real| (*real).to_owned());
    if pairs.contains_key("blockname") {
        let hosts = expand(get("nodes"), n, out);
        return block(&name(get("blockname")), hosts, n, out);
    }
    if !pairs.contains_key("switchname") {
        if !line.is_empty() && !pairs.contains_key("blocksizes") {
            out.complain(n, "neither SwitchName=… nor BlockName=…");
        }
        return;
    }
    let children = expand(get("switches"), n, out).iter().map(|child| name(child)).collect();
    // scontrol lists all hosts below a switch; the file lists only those cabled to it.
    let above = get("level").parse().is_ok_and(|level: u32| level > 0);
    let hosts = if above { Vec::new() } else { expand(get("nodes"), n, out) };
    switch(&name(get("switchname")), children, hosts, n, out);
}

fn expand(list: &str, n: usize, out: &mut TopologySource) -> Vec<String> {
    hostlist::expand(list).unwrap_or_else(|error| {
        out.complain(n, error);
        Vec::new()
    })
}

/// Adds a switch with its child switches and hosts.
pub(super) fn switch(name: &str, children: Vec<String>, hosts: Vec<String>, n: usize, out: &mut TopologySource) {
    if name.is_empty() {
        return out.complain(n, "a switch without a name");
    }
    out.nodes.push((name.to_owned(), Role::Spine));
    out.nodes.extend(children.iter().map(|child| (child.clone(), Role::Spine)));
    under(name, children, Provenance::Scheduler, n, out);
    out.nodes.extend(hosts.iter().map(|host| (host.clone(), Role::Host)));
    under(name, hosts, Provenance::Scheduler, n, out);
}

/// Adds a block: hosts of one rack or accelerator domain, which most likely share their leaves.
pub(super) fn block(name: &str, hosts: Vec<String>, n: usize, out: &mut TopologySource) {
    if name.is_empty() {
        return out.complain(n, "a block without a name");
    }
    out.nodes.extend(hosts.iter().map(|host| (host.clone(), Role::Host)));
    under(&format!("block {name}"), hosts, Provenance::Inferred, n, out);
}

fn under(name: &str, nodes: Vec<String>, known: Provenance, n: usize, out: &mut TopologySource) {
    let side = |node: &str| CableEnd { node: node.to_owned(), ..CableEnd::default() };
    // Schedulers know no parallel cables: a repeated name is the same cable.
    let mut seen = HashSet::new();
    for node in nodes.into_iter().filter(|node| seen.insert(node.clone())) {
        out.cable(n, Cable { sides: [side(&node), side(name)], rate: None, rail: None, known });
    }
}
