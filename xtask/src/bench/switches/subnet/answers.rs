//! Answers of the nodes of the made-up subnet: NDR switches of Quantum-2, which count in 64 bits, and ConnectX-7.
//! `agent/mad` names the attributes and their bits.

use super::tree::{Node, RADIX, Tree};

/// Bytes of a management datagram (MAD).
pub const MAD: usize = 256;
/// Where the data of an attribute begin.
const DATA: usize = 64;
/// Class of subnet management by directed route.
const DIRECTED: u8 = 0x81;
/// Class of performance management.
const PERFORMANCE: u8 = 0x04;
/// Method of a reply.
const RESPONSE: u8 = 0x81;
/// Status of a reply: the attribute is not supported.
const UNSUPPORTED: u8 = 0x0c;
/// Bytes per second of a link, in words of four bytes as it counts them.
const WORDS: u64 = 10_000_000_000;
/// 64-bit counters of `PortCountersExtended`.
const EXTENDED: usize = 22;

/// Makes a reply of a request; `lid` is its destination, `elapsed_ms` the time that the counters ran. False if no node answers.
pub fn answer(tree: Tree, mad: &mut [u8; MAD], lid: u16, elapsed_ms: u64) -> bool {
    let attribute = u16::from_be_bytes([mad[16], mad[17]]);
    let modifier = usize::from(mad[22]) << 8 | usize::from(mad[23]);
    let select = mad[DATA + 1];
    let at = match mad[1] {
        DIRECTED => {
            let hops = usize::from(mad[7]).min(MAD - 129);
            tree.walk(&mad[129..129 + hops])
        }
        PERFORMANCE => tree.of_number(usize::from(lid)).map(|node| (node, usize::from(select))),
        _ => None,
    };
    let Some((node, entry)) = at else { return false };
    let mut data = [0; MAD - DATA];
    if mad[1] == PERFORMANCE {
        data[1] = select;
        if !performance(attribute, (tree.number(node), entry), elapsed_ms, &mut data) {
            mad[5] = UNSUPPORTED;
        }
    } else {
        subnet(tree, (node, entry), attribute, modifier, &mut data[..64]);
    }
    mad[3] = RESPONSE;
    if mad[1] == PERFORMANCE {
        mad[DATA..].copy_from_slice(&data);
    } else {
        // The paths of a directed route follow the 64 bytes of data.
        mad[4] = 0x80;
        mad[DATA..DATA + 64].copy_from_slice(&data[..64]);
    }
    true
}

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

fn is_switch(node: Node) -> bool {
    !matches!(node, Node::Host(_))
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of nodes and ports are small")]
fn subnet(tree: Tree, (node, entry): (Node, usize), attribute: u16, modifier: usize, data: &mut [u8]) {
    let number = tree.number(node);
    match attribute {
        // NodeDescription
        0x10 => {
            let text = match node {
                Node::Host(host) => format!("node{:04} mlx5_0", host + 1),
                Node::Leaf(leaf) => format!("MF0;leaf{:03}:MQM9700/U1", leaf + 1),
                Node::Spine(spine) => format!("MF0;spine{:03}:MQM9700/U1", spine + 1),
            };
            put(data, 0, text.as_bytes());
        }
        // NodeInfo
        0x11 => {
            let (kind, ports, device) =
                if is_switch(node) { (2, RADIX as u8, [0xd2, 0xf2]) } else { (1, 1, [0x10, 0x21]) };
            put(data, 0, &[1, 1, kind, ports]);
            let guid = (0x0002_c903_0000_0000 + number as u64).to_be_bytes();
            [4, 12, 20].iter().for_each(|at| put(data, *at, &guid));
            put(data, 30, &device);
            put(data, 36, &[entry as u8, 0x00, 0x02, 0xc9]);
        }
        // PortInfo: 4X NDR, MTU 4096, four virtual lanes, active.
        0x15 => {
            let lid = if is_switch(node) && modifier > 0 { 0 } else { number as u16 };
            put(data, 16, &lid.to_be_bytes());
            put(data, 31, &[2, 0x74, 0x52, 0x01, 0x47, 0x50]);
            data[43] = 0x30;
            data[62] = 0x88;
        }
        _ => {}
    }
}

/// Data of an attribute; false if it is not supported.
fn performance(attribute: u16, (number, port): (usize, usize), elapsed_ms: u64, data: &mut [u8]) -> bool {
    // Each port has a pace of its own.
    let pace = 50 + ((number * 31 + port * 7) % 50) as u64;
    match attribute {
        // ClassPortInfo: 64-bit traffic and errors, waiting, RS-FEC.
        0x01 => {
            put(data, 2, &(1_u16 << 9 | 1 << 12 | 1 << 14).to_be_bytes());
            put(data, 4, &[0, 0, 0, 2 << 5]);
        }
        // PortSamplesControl: tick
        0x10 => data[2] = 7,
        // PortCountersExtended: traffic of eight counters, no errors, waiting.
        0x1d => {
            for field in 0..EXTENDED {
                let value = match field {
                    0 | 1 => WORDS / 1000 * elapsed_ms / 100 * pace,
                    2..=5 => WORDS / 1_000_000 * elapsed_ms / 100 * pace,
                    20 => elapsed_ms * pace,
                    _ => 0,
                };
                put(data, 8 + field * 8, &value.to_be_bytes());
            }
        }
        // PortVLXmitWaitCounters
        0x1c => put(data, 4, &[0, 7, 0, 1]),
        // PortExtendedSpeedsCounters: corrected blocks and symbols
        0x1f => {
            let corrected = u32::try_from(elapsed_ms / 100 * pace).unwrap_or(u32::MAX).to_be_bytes();
            put(data, 140, &corrected);
            put(data, 148, &corrected);
        }
        // PortRcvErrorDetails, PortXmitDiscardDetails: none
        0x15 | 0x16 => {}
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(class: u8, attribute: u16, route: &[u8], port: u8) -> [u8; MAD] {
        let mut mad = [0; MAD];
        mad[..4].copy_from_slice(&[1, class, 1, 1]);
        mad[7] = u8::try_from(route.len()).unwrap();
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad[129..129 + route.len()].copy_from_slice(route);
        mad[65] = port;
        mad
    }

    #[test]
    fn nodes_answer_by_their_route() {
        let tree = Tree::new(1000);
        let mut mad = request(DIRECTED, 0x11, &[1, 33], 0);
        assert!(answer(tree, &mut mad, u16::MAX, 0));
        assert_eq!((mad[3], mad[DATA + 2], mad[DATA + 3], mad[DATA + 36]), (RESPONSE, 2, 64, 1));
        let mut mad = request(DIRECTED, 0x10, &[1], 0);
        assert!(answer(tree, &mut mad, u16::MAX, 0));
        assert!(mad[DATA..].starts_with(b"MF0;leaf001:MQM9700/U1\0"));
        assert!(!answer(tree, &mut request(DIRECTED, 0x11, &[9], 0), u16::MAX, 0), "a route without a cable");
    }

    #[test]
    fn counters_of_a_port_grow() {
        let tree = Tree::new(1000);
        let read = |elapsed_ms| {
            let mut mad = request(PERFORMANCE, 0x1d, &[], 3);
            assert!(answer(tree, &mut mad, 1, elapsed_ms));
            assert_eq!(mad[DATA + 1], 3);
            u64::from_be_bytes(mad[DATA + 8..DATA + 16].try_into().unwrap())
        };
        assert!(read(2000) > read(1000) && read(1000) > 0);
        assert!(!answer(tree, &mut request(PERFORMANCE, 0x1d, &[], 3), 60_000, 0), "nobody has the LID");
        let mut mad = request(PERFORMANCE, 0x31, &[], 3);
        assert!(answer(tree, &mut mad, 1, 0) && mad[5] == UNSUPPORTED, "no congestion control");
    }
}
