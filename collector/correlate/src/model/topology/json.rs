//! Our JSON format, also that of recordings: `hosts` and `switches` (each with `id`), and `links` (`a`, `a_port`, `b`,
//! `b_port`, optionally `rate_gbps` and `rail`). Switches may have `addresses`, links `a_address` and `b_address`: those by
//! which switches answer traces. Also reads the answer of the API (`nodes` in place of `hosts` and
//! `switches`), so that a topology can be copied between collectors.

use super::source::{Cable, CableEnd, FormatError, TopologySource};
use super::types::{GBPS, Provenance, Role};
use serde::Deserialize;
use std::collections::HashSet;
use std::net::IpAddr;

/// A node id or port, given as a number or a text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Id {
    Number(u64),
    Text(String),
}

impl Id {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Text(t) => t,
        }
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    hosts: Vec<NodeRow>,
    #[serde(default)]
    switches: Vec<NodeRow>,
    #[serde(default)]
    nodes: Vec<NamedRow>,
    links: Vec<LinkRow>,
    #[serde(default)]
    addresses: Vec<AddressRow>,
}

#[derive(Deserialize)]
struct AddressRow {
    address: String,
    node: Id,
    port: Option<Id>,
}

#[derive(Deserialize)]
struct NodeRow {
    /// Id that links refer to; defaults to the name.
    #[serde(alias = "node")]
    id: Option<Id>,
    name: Option<String>,
    /// Loopback and management addresses of a switch.
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
struct NamedRow {
    name: String,
    role: Role,
}

#[derive(Deserialize)]
struct LinkRow {
    a: Id,
    a_port: Option<Id>,
    b: Id,
    b_port: Option<Id>,
    rate_gbps: Option<f64>,
    rail: Option<Id>,
    /// Addresses of the interfaces at both ends.
    a_address: Option<String>,
    b_address: Option<String>,
    #[serde(default)]
    known: Provenance,
}

pub(super) fn fits(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"links\"")
}

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    // The API wraps its answer in `data`.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Plain(File),
        Answer { data: File },
    }
    let file = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(plain) => match serde_json::from_str(text) {
            Ok(Either::Answer { data: file } | Either::Plain(file)) => file,
            Err(_) => return Err((plain.line(), plain.to_string())),
        },
    };
    let File { hosts, switches, nodes, links, addresses } = file;
    for (rows, role) in [(hosts, Role::Host), (switches, Role::Spine)] {
        for row in rows {
            let Some(name) = row.id.map(Id::text).or(row.name) else { continue };
            row.addresses.iter().for_each(|address| note_address(out, address, &name, ""));
            out.nodes.push((name, role));
        }
    }
    for AddressRow { address, node, port } in addresses {
        note_address(out, &address, &node.text(), &port.map(Id::text).unwrap_or_default());
    }
    out.nodes.extend(nodes.into_iter().map(|n| (n.name, n.role)));
    let known: HashSet<String> = out.nodes.iter().map(|n| n.0.clone()).collect();
    for (n, row) in links.into_iter().enumerate() {
        let LinkRow { a, a_port, b, b_port, rate_gbps, rail, a_address, b_address, known: by } = row;
        let (a, b) = (a.text(), b.text());
        if let Some(stranger) = [&a, &b].into_iter().find(|name| !known.contains(*name)) {
            out.complain_at(format_args!("link {}", n + 1), format_args!("{stranger} is neither host nor switch"));
            continue;
        }
        let side = |node, port: Option<Id>| {
            let port = port.map(Id::text).filter(|p| !p.starts_with(super::types::UNKNOWN)).unwrap_or_default();
            CableEnd { node, port, ..CableEnd::default() }
        };
        let sides = [side(a, a_port), side(b, b_port)];
        for (address, side) in [a_address, b_address].iter().zip(&sides) {
            if let Some(address) = address {
                note_address(out, address, &side.node, &side.port);
            }
        }
        let rate = rate_gbps.filter(|gbps| *gbps > 0.0).map(|gbps| gbps * GBPS);
        out.cable(n + 1, Cable { sides, rate, rail: rail.map(Id::text), known: by });
    }
    Ok(())
}

/// Notes the address of a switch, or of one of its ports.
fn note_address(out: &mut TopologySource, text: &str, node: &str, port: &str) {
    match text.parse::<IpAddr>() {
        Ok(ip) => out.addresses.push((ip.to_canonical(), node.to_owned(), port.to_owned())),
        Err(_) => out.complain_at(format_args!("switch {node}"), format_args!("{text:?} is no IP address")),
    }
}
