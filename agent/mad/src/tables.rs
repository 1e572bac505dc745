//! Forwarding tables of all switches, kept, and read again in turns of a bounded number of datagrams.
//!
//! A pass reads each block of each table once, whether a switch routes adaptively, and in some passes virtual lanes. Changes
//! take effect when a pass has ended, so that a table is never told half read.

use crate::exchange::{Counts, Exchange, Failure, Pace};
use crate::packet::{Destination, Get};
use crate::smp;
use crate::subnet::{Node, Subnet};
use crate::transport::Mad;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Passes from one reading of all virtual lanes to the next: a subnet manager sets them once.
const LANE_PASSES: u64 = 16;

/// Vendor (OUI) of the switches that are asked whether they route adaptively: the attribute is NVIDIA's.
const NVIDIA: u32 = 0x02c9;

/// What was read of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Egress port by LID.
    pub table: Arc<Vec<u8>>,
    /// Virtual lane by service level, by egress port, for packets from the port that is named first; `None` of a port that did not
    /// answer.
    pub lanes: BTreeMap<u8, Option<(u8, [u8; 16])>>,
    /// Whether it routes adaptively; `None` if it did not answer. A switch that does not know the question, or of another vendor,
    /// counts as one that does not.
    pub adaptive: Option<bool>,
}

/// Outcome of a turn.
#[derive(Debug)]
pub struct Turn {
    /// MADs.
    pub counts: Counts,
    /// Number of the next transaction on this transport.
    pub next_transaction: u32,
    /// Whether a pass has ended: all switches have been read.
    pub is_whole: bool,
    /// Whether the pass that ended found a change.
    pub changed: bool,
}

/// An attribute to read.
#[derive(Clone, Copy, Debug)]
enum Item {
    Block(usize),
    Lanes(u8, u8),
    /// Last, because a switch that does not answer it is not asked for more in the turn.
    Adaptive,
}

/// The tables, and how far the pass has come.
#[derive(Debug, Default)]
pub struct TableReader {
    switches: BTreeMap<u64, Forwarding>,
    /// What the pass in progress has changed.
    changes: BTreeMap<u64, Forwarding>,
    /// Switch and item at which the next turn goes on.
    next: (u64, usize),
    /// Passes that have ended.
    passes: u64,
}

impl TableReader {
    /// Switches as of the last pass that has ended.
    pub fn switches(&self) -> &BTreeMap<u64, Forwarding> {
        &self.switches
    }

    /// Whether a pass has ended.
    pub fn is_whole(&self) -> bool {
        self.passes > 0
    }

    /// Reads the next `most` attributes. An attribute without an answer keeps its former value. `first`: see [`Exchange::new`].
    ///
    /// # Errors
    /// The transport is gone.
    pub fn turn(
        &mut self,
        mad: &mut dyn Mad,
        pace: Pace,
        (subnet, most): (&Subnet, usize),
        first: u32,
    ) -> io::Result<Turn> {
        let mut exchange = Exchange::new(mad, pace, first);
        let is_whole = self.ask(subnet, most, &mut exchange);
        while let Some(((guid, item), result)) = exchange.finished()? {
            match (item, result) {
                (Item::Block(block), Ok(reply)) => self.set_block(guid, block, reply.data().smp()),
                (Item::Lanes(ingress, egress), result) => {
                    let read = result.as_ref().ok().map(|reply| (ingress, smp::sl_to_vl(reply.data())));
                    if matches!(result, Ok(_) | Err(Failure::Status(_))) {
                        self.change(guid, |to| to.lanes.insert(egress, read) != Some(read));
                    }
                }
                (Item::Adaptive, Ok(reply)) => self.set_adaptive(guid, smp::adaptive_routing(reply.data())),
                (Item::Adaptive, Err(Failure::Status(_))) => self.set_adaptive(guid, false),
                (_, Err(_)) => {}
            }
        }
        let (counts, next_transaction) = (exchange.counts, exchange.next_transaction());
        let changed = is_whole && self.end_pass(subnet);
        Ok(Turn { counts, next_transaction, is_whole, changed })
    }

    /// Asks for the next items; true if the pass ends with them.
    fn ask(&mut self, subnet: &Subnet, most: usize, exchange: &mut Exchange<'_, (u64, Item)>) -> bool {
        let mut left = most;
        let (begin, mut skip) = self.next;
        for (guid, node) in subnet.nodes.range(begin..).filter(|(_, node)| node.is_switch()) {
            skip = if *guid == begin { skip } else { 0 };
            let items = self.items(subnet, *guid, node);
            if node.info.vendor != NVIDIA {
                self.set_adaptive(*guid, false);
            }
            for (at, item) in items.iter().enumerate().skip(skip) {
                if left == 0 {
                    self.next = (*guid, at);
                    return false;
                }
                left -= 1;
                let (attribute, modifier) = match *item {
                    #[expect(clippy::cast_possible_truncation, reason = "at most 767 blocks")]
                    Item::Block(block) => (smp::LINEAR_FORWARDING, block as u32),
                    Item::Lanes(ingress, egress) => (smp::SL_TO_VL, u32::from(ingress) << 8 | u32::from(egress)),
                    Item::Adaptive => (smp::ADAPTIVE_ROUTING, 0),
                };
                exchange.ask(
                    *guid,
                    Get::subnet(Destination::Route(node.route.clone()), attribute, modifier),
                    (*guid, *item),
                );
            }
        }
        self.next = (0, 0);
        true
    }

    fn items(&self, subnet: &Subnet, guid: u64, node: &Node) -> Vec<Item> {
        let mut items: Vec<Item> = (0..node.switch.blocks()).map(Item::Block).collect();
        let cabled: Vec<u8> = subnet.links.range((guid, 1)..=(guid, u8::MAX)).map(|((_, port), _)| *port).collect();
        let known = self.switches.get(&guid);
        let all = self.passes.is_multiple_of(LANE_PASSES);
        for egress in &cabled {
            let is_known = known.is_some_and(|known| known.lanes.contains_key(egress));
            // One ingress port for each egress port: subnet managers set them alike, but for few routing engines.
            if let Some(ingress) = cabled.iter().find(|port| *port != egress).filter(|_| all || !is_known) {
                items.push(Item::Lanes(*ingress, *egress));
            }
        }
        if node.info.vendor == NVIDIA {
            items.push(Item::Adaptive);
        }
        items
    }

    /// Changes a switch in the pass in progress; `change` says whether it did.
    fn change(&mut self, guid: u64, change: impl FnOnce(&mut Forwarding) -> bool) {
        if let Some(changed) = self.changes.get_mut(&guid) {
            change(changed);
            return;
        }
        let mut new = self.switches.get(&guid).cloned().unwrap_or_default();
        if change(&mut new) {
            self.changes.insert(guid, new);
        }
    }

    fn set_block(&mut self, guid: u64, block: usize, ports: &[u8]) {
        let range = block * smp::BLOCK..(block + 1) * smp::BLOCK;
        self.change(guid, |to| {
            if to.table.get(range.clone()) == Some(ports) {
                return false;
            }
            let table = Arc::make_mut(&mut to.table);
            table.resize(table.len().max(range.end), smp::NO_ROUTE);
            table[range].copy_from_slice(ports);
            true
        });
    }

    fn set_adaptive(&mut self, guid: u64, is_adaptive: bool) {
        self.change(guid, |to| to.adaptive.replace(is_adaptive) != Some(is_adaptive));
    }

    /// Takes over the changes; true if there were any.
    fn end_pass(&mut self, subnet: &Subnet) -> bool {
        self.passes += 1;
        let mut changes = std::mem::take(&mut self.changes);
        // Blocks beyond the highest LID are not read again.
        for (guid, node) in subnet.switches() {
            let length = node.switch.blocks() * smp::BLOCK;
            let is_long = |of: &Forwarding| of.table.len() > length;
            if changes.get(&guid).or_else(|| self.switches.get(&guid)).is_some_and(is_long) {
                let shorter = changes.entry(guid).or_insert_with(|| self.switches[&guid].clone());
                Arc::make_mut(&mut shorter.table).truncate(length);
            }
        }
        let gone: BTreeSet<u64> =
            self.switches.keys().filter(|guid| !subnet.nodes.contains_key(guid)).copied().collect();
        gone.iter().for_each(|guid| _ = self.switches.remove(guid));
        let changed = !changes.is_empty() || !gone.is_empty();
        self.switches.extend(changes);
        changed
    }
}

#[cfg(test)]
mod tests;
