//! A subnet as discovered: nodes, ports and the cables between them.

use crate::route::Route;
use crate::smp::{NodeInfo, NodeType, PortInfo, SwitchInfo};
use std::collections::{BTreeMap, HashMap};

/// A node by its GUID, and a port of it.
pub type PortId = (u64, u8);

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub info: NodeInfo,
    /// Its description; empty if it did not answer.
    pub description: String,
    /// The first route by which it was found; among the shortest.
    pub route: Route,
    /// Forwarding capabilities, of switches.
    pub switch: SwitchInfo,
    /// Ports that answered; port 0 of a switch is the management port.
    pub ports: BTreeMap<u8, PortInfo>,
}

impl Node {
    /// True for switches.
    pub fn is_switch(&self) -> bool {
        self.info.kind == NodeType::Switch
    }

    /// LID to which requests about `port` go: of a switch that of its management port. `None` before the subnet manager
    /// has assigned one.
    pub fn lid(&self, port: u8) -> Option<u16> {
        let port = if self.is_switch() { 0 } else { port };
        self.ports.get(&port).map(|info| info.lid).filter(|lid| (1..0xc000).contains(lid))
    }
}

/// Nodes and links of a subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnet {
    /// Nodes by GUID.
    pub nodes: BTreeMap<u64, Node>,
    /// The port at the other end of each cable; each cable is in it twice.
    pub links: BTreeMap<PortId, PortId>,
    /// GUID of the node from which it was discovered.
    pub origin: u64,
    /// True if a limit ended the discovery before all was found.
    pub truncated: bool,
}

impl Subnet {
    /// Switches and their GUIDs.
    pub fn switches(&self) -> impl Iterator<Item = (u64, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.is_switch()).map(|(guid, node)| (*guid, node))
    }

    /// Number of ports with a cable.
    pub fn linked_ports(&self) -> usize {
        self.links.len()
    }

    /// The port with each base LID; of switches the management port.
    pub fn by_lid(&self) -> HashMap<u16, PortId> {
        let ports = self.nodes.iter().flat_map(|(guid, node)| node.ports.keys().map(move |port| (*guid, *port)));
        let lid = |id: &PortId| self.nodes[&id.0].lid(id.1).filter(|_| !self.nodes[&id.0].is_switch() || id.1 == 0);
        ports.filter_map(|id| Some((lid(&id)?, id))).collect()
    }
}
