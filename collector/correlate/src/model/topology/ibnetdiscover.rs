//! The output of `ibnetdiscover`: a block per node with a line per cabled port.

use super::ib::{IbDump, IbPort, NodeType, guid, rate};
use super::source::{FormatError, TopologySource};

pub(super) fn fits(text: &str) -> bool {
    text.lines().any(|line| header(line).is_some())
}

/// Parses `Switch 8 "S-0002c90300a00002" # "leaf2" enhanced port 0 lid 101 lmc 0`.
fn header(line: &str) -> Option<IbPort> {
    let (kind, rest) = line.split_once(char::is_whitespace)?;
    let kind = Some(NodeType::of(kind)?);
    let (ports, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    ports.parse::<u32>().ok()?;
    let (id, rest) = quoted(rest)?;
    let description = quoted(rest).map(|(d, _)| d.to_owned()).unwrap_or_default();
    Some(IbPort { kind, guids: vec![node_guid(id)?], description, port: 0 })
}

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let mut walk = IbDump::default();
    let mut of: Option<IbPort> = None;
    for (n, line) in text.lines().enumerate() {
        if let Some(node) = header(line) {
            of = Some(node);
        } else if line.starts_with('[') {
            match (&of, cable(line)) {
                (Some(node), Some((port, port_guid, far, rate))) => {
                    let mut near = IbPort { port, ..node.clone() };
                    near.guids.extend(port_guid);
                    walk.cable(n + 1, [near, far], rate);
                }
                (None, _) => out.complain(n + 1, "a port without a node"),
                (_, None) => out.complain(n + 1, "not a cable line of ibnetdiscover"),
            }
        } else if line.starts_with("Switch") || line.starts_with("Ca") || line.starts_with("Rt") {
            of = None;
            out.complain(n + 1, "not a node line of ibnetdiscover");
        }
    }
    walk.finish(out);
    Ok(())
}

/// Parses `[4] "H-…"[1](2c90300c00081)  # "node08 mlx5_0" lid 8 4xHDR`; for an HCA `[1](2c90300c00081)  "S-…"[4] # lid
/// …`.
fn cable(line: &str) -> Option<(u32, Option<u64>, IbPort, Option<f64>)> {
    let (line, comment) = line.split_once('#').unwrap_or((line, ""));
    let (near, far) = line.split_once('"')?;
    let (id, far) = far.split_once('"')?;
    let (port, port_guid) = port(near)?;
    let (far_port, far_guid) = self::port(far)?;
    let kind = match id.split_once('-')?.0 {
        "S" => NodeType::Switch,
        "H" | "R" => NodeType::Ca,
        _ => return None,
    };
    let mut guids = vec![node_guid(id)?];
    guids.extend(far_guid);
    let description = quoted(comment).map(|(d, _)| d.to_owned()).unwrap_or_default();
    let speed = comment.split_whitespace().next_back().and_then(|word| word.split_once('x'));
    let rate = speed.and_then(|(width, speed)| rate(width, speed));
    Some((port, port_guid, IbPort { kind: Some(kind), guids, description, port: far_port }, rate))
}

/// Parses `[1][ext 3](2c90300c00081)`.
fn port(text: &str) -> Option<(u32, Option<u64>)> {
    let (number, rest) = text.trim().strip_prefix('[')?.split_once(']')?;
    let port_guid = rest.split_once('(').and_then(|(_, g)| guid(g.split_once(')')?.0));
    Some((number.parse().ok()?, port_guid))
}

/// Parses `S-0002c90300a00002`.
fn node_guid(id: &str) -> Option<u64> {
    guid(id.split_once('-')?.1)
}

/// The first quoted text, and the rest after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.split_once('"')?.1.split_once('"')
}
