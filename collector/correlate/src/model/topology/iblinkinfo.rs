//! The output of `iblinkinfo`: a block per node with a line per port; with `--line` each line stands alone.
//!
//! `  101    4[  ] ==( 4X   53.125 Gbps Active/  LinkUp)==>   8    1[  ] "node08 mlx5_0" ( )`. With `--line` each end
//! has its GUID, and the near end its description before the LID.

use super::ib::{IbDump, IbPort, NodeType, guid, rate};
use super::source::{FormatError, TopologySource};
use std::collections::HashMap;

pub(super) fn fits(text: &str) -> bool {
    text.contains("==(") && text.lines().any(|line| header(line).is_some())
}

pub(super) fn fits_lines(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("0x") && line.contains("==("))
}

/// Parses `Switch: 0x0002c90300a00002 leaf2:` or `CA: node08 mlx5_0:`.
fn header(line: &str) -> Option<IbPort> {
    let (kind, rest) = line.split_once(": ")?;
    let kind = NodeType::of(kind)?;
    let rest = rest.trim().trim_end_matches(':');
    let (guids, name) = match rest.split_once(char::is_whitespace).filter(|(word, _)| word.starts_with("0x")) {
        Some((word, name)) => (guid(word).into_iter().collect(), name),
        None => (Vec::new(), rest),
    };
    Some(IbPort { kind: Some(kind), guids, description: name.trim().to_owned(), port: 0 })
}

/// An end and its LID.
type PortAndLid = (IbPort, u32);

/// Two ends and the rate of the link.
type LinkRow = (PortAndLid, PortAndLid, Option<f64>);

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let mut of: Option<IbPort> = None;
    let mut rows = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if let Some(node) = header(line) {
            of = Some(node);
        } else if line.contains("==(") {
            match (&of, row(line)) {
                (Some(node), Ok(Some(((near, lid), far, rate)))) => {
                    let guids = if node.guids.is_empty() { near.guids } else { node.guids.clone() };
                    rows.push((n + 1, (IbPort { guids, port: near.port, ..node.clone() }, lid), far, rate));
                }
                (Some(_), Ok(None)) => {}
                (None, _) => out.complain(n + 1, "a port without a node"),
                (_, Err(what)) => out.complain(n + 1, what),
            }
        }
    }
    // The far end is given by LID only; its own block says what it is.
    let lids: HashMap<u32, IbPort> = rows.iter().map(|(_, (near, lid), ..)| (*lid, near.clone())).collect();
    let mut walk = IbDump::default();
    for (line, (near, _), (far, lid), rate) in rows {
        let far = lids.get(&lid).map_or(far.clone(), |known| IbPort { port: far.port, ..known.clone() });
        walk.cable(line, [near, far], rate);
    }
    walk.finish(out);
    Ok(())
}

pub(super) fn read_lines(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let mut walk = IbDump::default();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| line.contains("==(")) {
        match row(line) {
            Ok(Some(((near, _), (far, _), rate))) => walk.cable(n + 1, [near, far], rate),
            Ok(None) => {}
            Err(what) => out.complain(n + 1, what),
        }
    }
    walk.finish(out);
    Ok(())
}

/// Parses a line; `None` if the port has no cable.
fn row(line: &str) -> Result<Option<LinkRow>, &'static str> {
    let parts = line.split_once("==(").and_then(|(near, rest)| Some((near, rest.split_once(")==>")?)));
    let Some((near, (link, far))) = parts else { return Err("not a link line of iblinkinfo") };
    if !link.contains("LinkUp") {
        return Ok(None);
    }
    let near = end(near).ok_or("the near end is not as iblinkinfo writes it")?;
    let far = end(far).ok_or("the far end is not as iblinkinfo writes it")?;
    let mut words = link.split_whitespace();
    let rate = words.next().zip(words.next()).and_then(|(width, speed)| rate(width, speed));
    Ok(Some((near, far, rate)))
}

/// Parses `0xGUID "description" LID PORT[ext]` in any order that keeps LID and PORT together. GUID and description are
/// optional.
fn end(text: &str) -> Option<PortAndLid> {
    let (before, description, after) = match text.split_once('"') {
        Some((before, rest)) => {
            let (description, after) = rest.split_once('"')?;
            (before, description.trim(), after)
        }
        None => (text, "", ""),
    };
    let guids = before.split_whitespace().next().filter(|w| w.starts_with("0x")).and_then(guid).into_iter().collect();
    let numbers = if before.contains('[') { before } else { after };
    let mut words = numbers.split_once('[')?.0.split_whitespace().rev();
    let (port, lid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((IbPort { kind: None, guids, description: description.to_owned(), port }, lid))
}
