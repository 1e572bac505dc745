//! A subnet of 40,000 ports, answered in this process: what a sweep and a round cost, and where the bound is.

use crate::counters::targets;
use fabriclens_agent_mad::counters::{Group, Poller};
use fabriclens_agent_mad::discovery::{Limits, Sweep, discover};
use fabriclens_agent_mad::exchange::Pace;
use fabriclens_agent_mad::packet::{Class, Get, SIZE};
use fabriclens_agent_mad::transport::Mad;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

const PACE: Pace = Pace { per_second: 10_000_000, deadline: Duration::from_secs(60), in_flight: 64, retries: 0 };
/// Ports of a leaf: the first one leads to the root, an adapter is at each other one.
const PORTS: u8 = 161;
const DATA: usize = 64;

/// A root switch with a leaf at each port but the first, where the reader's own adapter is.
struct Tree {
    leaves: u8,
    arrived: VecDeque<[u8; SIZE]>,
}

/// Number of a node: 0 is the reader's adapter, 1 the root, then the leaves, then their adapters.
fn number(leaves: u8, route: &[u8]) -> Option<(u64, u8, u8)> {
    let leaf = |port: u8| (2..=leaves + 1).contains(&port).then_some(u64::from(port));
    Some(match route {
        [] => (0, 1, 1),
        [1] => (1, 2, leaves + 1),
        [1, port] => (leaf(*port)?, 2, PORTS),
        [1, port, at] if (2..=PORTS).contains(at) => (leaf(*port)? << 8 | u64::from(*at), 1, 1),
        _ => return None,
    })
}

impl Mad for Tree {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        let mut mad = get.encode(transaction);
        mad[3] = 0x81;
        let (attribute, modifier) = (mad[17], mad[23]);
        if get.class() == Class::Performance {
            // 64-bit counters of everything, and no other attributes.
            match attribute {
                0x01 => (mad[DATA + 2], mad[DATA + 7]) = (2, 2 << 5),
                0x1d => mad[DATA + 8..].fill(1),
                _ => mad[5] = 0x0c,
            }
        } else {
            let hops = usize::from(mad[7]);
            let Some((node, kind, ports)) = number(self.leaves, &mad[129..129 + hops]) else { return Ok(()) };
            mad[4] = 0x80;
            match attribute {
                0x11 => {
                    mad[DATA..DATA + 4].copy_from_slice(&[1, 1, kind, ports]);
                    let guid = (node + 1).to_be_bytes();
                    [4, 12, 20].iter().for_each(|at| mad[DATA + at..DATA + at + 8].copy_from_slice(&guid));
                    // Each node is entered by its first port.
                    mad[DATA + 36] = 1;
                }
                0x15 => {
                    let lid = if kind == 2 && modifier > 0 { 0 } else { (node as u16).wrapping_add(1) };
                    mad[DATA + 16..DATA + 18].copy_from_slice(&lid.to_be_bytes());
                    mad[DATA + 31..DATA + 37].copy_from_slice(&[2, 0x74, 0x52, 0x01, 0x47, 0x50]);
                }
                _ => {}
            }
        }
        self.arrived.push_back(mad);
        Ok(())
    }

    fn receive(&mut self, _: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        Ok(self.arrived.pop_front().map(|mad| *into = mad.to_vec()))
    }

    fn window(&self) -> usize {
        64
    }
}

fn tree(leaves: u8) -> Tree {
    Tree { leaves, arrived: VecDeque::new() }
}

#[test]
fn a_subnet_of_40_000_ports_is_read_whole() {
    let mut mad = tree(123);
    let Sweep { subnet, counts, next_transaction } = discover(&mut mad, PACE, Limits::default(), 0).expect("a subnet");
    let ports: usize = subnet.nodes.values().map(|node| node.ports.len()).sum();
    assert_eq!(
        (subnet.nodes.len(), ports, subnet.truncated),
        (1 + 1 + 123 + 123 * 160, 1 + 125 + 123 * 162 + 123 * 160, false)
    );
    assert_eq!(ports, 39_732);
    // Two for an adapter, three for a switch, and one for each port.
    assert_eq!(counts.sent as usize, 2 * (1 + 123 * 160) + 3 * 124 + ports);
    let targets = targets(&subnet);
    let (mut poller, mut read) = (Poller::default(), 0);
    let mut round = |first| {
        let what = (Group::Basic, &targets[..]);
        poller.read(&mut mad, PACE, what, first, &mut |_| read += 1).expect("no error")
    };
    let first = round(next_transaction);
    let again = round(first.next_transaction);
    assert_eq!(again.counts.sent as usize, targets.len(), "one datagram for each port with a cable");
    assert_eq!((targets.len(), read), (124 + 123 * 161, 2 * (124 + 123 * 161)));
}

#[test]
fn a_larger_subnet_is_read_in_part() {
    let Sweep { subnet, counts, .. } = discover(&mut tree(250), PACE, Limits::default(), 0).expect("a subnet");
    let ports: usize = subnet.nodes.values().map(|node| node.ports.len()).sum();
    assert!(subnet.truncated && ports <= 65_536 && subnet.nodes.len() <= 32_768, "{ports} ports");
    assert!(ports > 65_000, "{ports} ports");
    // Each cable of a switch is followed once, also where the node at its other end has no room.
    assert!(counts.sent < 180_000, "{counts:?}");
}
