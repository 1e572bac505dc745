//! The output of `ibnetdiscover -p`: a line per port.
//!
//! `CA     8  1 0x0002c90300c00081 4x HDR - SW   101  4 0x0002c90300a00002 ( 'node08 mlx5_0' - 'leaf2' )`

use super::ib::{IbDump, IbPort, NodeType, guid, rate};
use super::source::{FormatError, TopologySource};

pub(super) fn fits(text: &str) -> bool {
    text.lines().any(|line| jack(line.split_whitespace()).is_some())
}

/// Parses `CA     8  1 0x0002c90300c00081`: type, LID, port, GUID.
fn jack<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<IbPort> {
    let kind = NodeType::of(words.next()?)?;
    words.next()?.parse::<u32>().ok()?;
    let port = words.next()?.parse().ok()?;
    let guid = words.next().filter(|w| w.starts_with("0x")).and_then(guid)?;
    Some(IbPort { kind: Some(kind), guids: vec![guid], description: String::new(), port })
}

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let mut walk = IbDump::default();
    for (n, line) in text.lines().enumerate() {
        let Some(mut near) = jack(line.split_whitespace()) else {
            if line.split_whitespace().next().is_some_and(|w| NodeType::of(w).is_some()) {
                out.complain(n + 1, "not a port line of ibnetdiscover -p");
            }
            continue;
        };
        // Ports without a cable have no second half.
        let Some((width_speed, rest)) = line.split_once(" - ") else { continue };
        let Some(mut far) = jack(rest.split_whitespace()) else {
            out.complain(n + 1, "the other end is not as ibnetdiscover -p writes it");
            continue;
        };
        let names = rest.split_once("( '").and_then(|(_, names)| names.trim_end().strip_suffix("' )"));
        if let Some((a, b)) = names.and_then(|names| names.split_once("' - '")) {
            (near.description, far.description) = (a.trim().to_owned(), b.trim().to_owned());
        }
        let mut words = width_speed.split_whitespace().skip(4);
        let rate = words.next().zip(words.next()).and_then(|(width, speed)| rate(width, speed));
        walk.cable(n + 1, [near, far], rate);
    }
    walk.finish(out);
    Ok(())
}
