//! Paths: by which port a packet to a LID leaves each switch, as the forwarding tables say.
//!
//! The tables give the one path of deterministic routing. Where a switch routes adaptively, it is one of several.

use crate::exchange::{Counts, Exchange, Pace};
use crate::packet::{Destination, Get};
use crate::smp;
use crate::subnet::{PortId, Subnet};
use crate::transport::Mad;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Hops after which a path is taken for a loop.
const MOST_HOPS: usize = 64;

/// A hop: the node that a packet leaves, and by which port. The first node is the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Port by which the packet came into the node; `None` at the sender.
    pub ingress: Option<u8>,
    /// Node and egress port.
    pub egress: PortId,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No port of the subnet has the LID.
    #[error("no port has LID {0}")]
    UnknownLid(u16),
    /// A switch has no route to the LID, or its table was not read.
    #[error("switch 0x{node:016x} has no route to LID {lid}")]
    NoRoute {
        /// The switch.
        node: u64,
        /// The destination.
        lid: u16,
    },
    /// A port on the path has no link, or leads to a node that forwards nothing.
    #[error("the path ends at port {} of 0x{:016x}", .0.1, .0.0)]
    DeadEnd(PortId),
    /// The tables lead in a circle.
    #[error("the forwarding tables lead in a circle")]
    Loop,
}

/// Forwarding tables of all switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardingTables {
    /// Egress port by LID, for each switch.
    tables: BTreeMap<u64, Vec<u8>>,
    /// Base LID, number of LIDs and port.
    lids: BTreeMap<u16, (u16, PortId)>,
}

/// Tables as read.
#[derive(Debug)]
pub struct Read {
    /// The tables.
    pub tables: ForwardingTables,
    /// MADs.
    pub counts: Counts,
    /// Number of the next transaction on this transport.
    pub next_transaction: u32,
}

/// Reads the forwarding tables of all switches, one MAD for 64 LIDs. A block that is not answered has no routes. `first`:
/// see [`Exchange::new`].
///
/// # Errors
/// The transport is gone.
pub fn read(mad: &mut dyn Mad, pace: Pace, subnet: &Subnet, first: u32) -> io::Result<Read> {
    let mut exchange = Exchange::new(mad, pace, first);
    let mut tables: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (guid, node) in subnet.switches() {
        let blocks = node.switch.blocks();
        tables.insert(guid, vec![smp::NO_ROUTE; blocks * smp::BLOCK]);
        for block in 0..blocks {
            let to = Destination::Route(node.route.clone());
            #[expect(clippy::cast_possible_truncation, reason = "at most 767 blocks")]
            exchange.ask(guid, Get::subnet(to, smp::LINEAR_FORWARDING, block as u32), (guid, block));
        }
    }
    while let Some(((guid, block), result)) = exchange.finished()? {
        let range = block * smp::BLOCK..(block + 1) * smp::BLOCK;
        if let (Ok(reply), Some(part)) = (result, tables.get_mut(&guid).and_then(|table| table.get_mut(range))) {
            part.copy_from_slice(reply.data().smp());
        }
    }
    let (counts, next_transaction) = (exchange.counts, exchange.next_transaction());
    Ok(Read { tables: ForwardingTables::new(tables, subnet), counts, next_transaction })
}

/// Virtual lane of a service level at each switch of a path, in order; `None` if the switch did not answer. `first`: see
/// [`Exchange::new`].
///
/// # Errors
/// The transport is gone.
pub fn lanes(
    mad: &mut dyn Mad,
    pace: Pace,
    (subnet, path): (&Subnet, &[Hop]),
    service_level: u8,
    first: u32,
) -> io::Result<(Vec<Option<u8>>, u32)> {
    let mut exchange = Exchange::new(mad, pace, first);
    let switches = path.iter().filter_map(|hop| Some((hop.ingress?, hop.egress, subnet.nodes.get(&hop.egress.0)?)));
    let mut found = Vec::new();
    for (at, (ingress, (guid, egress), node)) in switches.enumerate() {
        let ports = u32::from(ingress) << 8 | u32::from(egress);
        exchange.ask(guid, Get::subnet(Destination::Route(node.route.clone()), smp::SL_TO_VL, ports), at);
        found.push(None);
    }
    while let Some((at, result)) = exchange.finished()? {
        found[at] = result.ok().map(|reply| smp::sl_to_vl(reply.data())[usize::from(service_level & 15)]);
    }
    let next = exchange.next_transaction();
    Ok((found, next))
}

impl ForwardingTables {
    fn new(tables: BTreeMap<u64, Vec<u8>>, subnet: &Subnet) -> Self {
        let span = |id: &PortId| 1_u16 << subnet.nodes.get(&id.0).map_or(0, |n| n.ports[&id.1].lmc);
        let by_lid: HashMap<u16, PortId> = subnet.by_lid();
        let lids = by_lid.into_iter().map(|(lid, id)| (lid, (span(&id), id))).collect();
        Self { tables, lids }
    }

    /// The port that a LID belongs to.
    pub fn port(&self, lid: u16) -> Option<PortId> {
        let (base, (span, id)) = self.lids.range(..=lid).next_back()?;
        (lid - base < *span).then_some(*id)
    }

    /// Path from the port of one LID to another. Empty if they are the same node.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn path(&self, subnet: &Subnet, from: u16, to: u16) -> Result<Vec<Hop>, PathError> {
        let source = self.port(from).ok_or(PathError::UnknownLid(from))?;
        let target = self.port(to).ok_or(PathError::UnknownLid(to))?;
        let mut hops = Vec::new();
        let (mut at, mut ingress) = (source, None);
        while at.0 != target.0 {
            let node = subnet.nodes.get(&at.0).ok_or(PathError::DeadEnd(at))?;
            let egress = if node.is_switch() {
                (at.0, self.next(at.0, to)?)
            } else if ingress.is_none() {
                at
            } else {
                return Err(PathError::DeadEnd(at));
            };
            hops.push(Hop { ingress, egress });
            at = *subnet.links.get(&egress).ok_or(PathError::DeadEnd(egress))?;
            ingress = Some(at.1);
            if hops.len() > MOST_HOPS {
                return Err(PathError::Loop);
            }
        }
        Ok(hops)
    }

    fn next(&self, node: u64, lid: u16) -> Result<u8, PathError> {
        let entry = self.tables.get(&node).and_then(|table| table.get(usize::from(lid))).copied();
        entry.filter(|port| !matches!(*port, smp::NO_ROUTE | 0)).ok_or(PathError::NoRoute { node, lid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;
    use crate::smp::{NodeInfo, NodeType, PortInfo, SwitchInfo};
    use crate::subnet::Node;

    fn node(kind: NodeType, guid: u64, port: u8, lid: u16, lmc: u8) -> (u64, Node) {
        let info =
            NodeInfo { kind, ports: 3, system_guid: 0, guid, port_guid: guid, device: 0, local_port: 1, vendor: 0 };
        let ports = BTreeMap::from([(port, PortInfo { lid, lmc, ..PortInfo::default() })]);
        (guid, Node { info, description: String::new(), route: Route::local(), switch: SwitchInfo::default(), ports })
    }

    /// Host 1 (LIDs 4 to 7) at switch 10 (LID 1), host 2 (LID 8) at switch 20 (LID 2), one cable between the switches.
    fn subnet() -> Subnet {
        let mut subnet = Subnet::default();
        subnet.nodes.extend([
            node(NodeType::Adapter, 1, 1, 4, 2),
            node(NodeType::Adapter, 2, 1, 8, 0),
            node(NodeType::Switch, 10, 0, 1, 0),
            node(NodeType::Switch, 20, 0, 2, 0),
        ]);
        for (a, b) in [((1, 1), (10, 1)), ((10, 3), (20, 3)), ((20, 1), (2, 1))] {
            subnet.links.extend([(a, b), (b, a)]);
        }
        subnet
    }

    fn tables(routes: &[(u64, u16, u8)]) -> ForwardingTables {
        let mut tables = BTreeMap::from([(10, vec![smp::NO_ROUTE; 64]), (20, vec![smp::NO_ROUTE; 64])]);
        for (node, lid, port) in routes {
            if let Some(table) = tables.get_mut(node) {
                table[usize::from(*lid)] = *port;
            }
        }
        ForwardingTables::new(tables, &subnet())
    }

    #[test]
    fn path_follows_the_tables() {
        let tables = tables(&[(10, 8, 3), (20, 8, 1), (20, 6, 3), (10, 6, 1), (10, 2, 3)]);
        let egress =
            |from, to| tables.path(&subnet(), from, to).map(|hops| hops.iter().map(|h| h.egress).collect::<Vec<_>>());
        assert_eq!(egress(4, 8), Ok(vec![(1, 1), (10, 3), (20, 1)]));
        assert_eq!(egress(8, 6), Ok(vec![(2, 1), (20, 3), (10, 1)]), "one of several LIDs of a port");
        assert_eq!(egress(4, 2), Ok(vec![(1, 1), (10, 3)]), "a switch");
        assert_eq!(egress(4, 4), Ok(vec![]));
        let ingress: Vec<_> = tables.path(&subnet(), 4, 8).expect("a path").iter().map(|h| h.ingress).collect();
        assert_eq!(ingress, [None, Some(1), Some(3)]);
    }

    #[test]
    fn tables_that_lead_nowhere_are_errors() {
        let path = |routes: &[(u64, u16, u8)], to| tables(routes).path(&subnet(), 4, to).expect_err("no path");
        assert_eq!(path(&[], 9), PathError::UnknownLid(9));
        assert_eq!(path(&[], 8), PathError::NoRoute { node: 10, lid: 8 });
        assert_eq!(path(&[(10, 8, 2)], 8), PathError::DeadEnd((10, 2)));
        assert_eq!(path(&[(10, 8, 3), (20, 8, 3)], 8), PathError::Loop);
        assert_eq!(path(&[(10, 8, 1)], 8), PathError::DeadEnd((1, 1)), "an adapter forwards nothing");
    }
}
