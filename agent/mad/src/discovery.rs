//! Discovery of a subnet: a breadth-first sweep by directed routes, many requests at once.
//!
//! The local node is asked first. Each port of a switch whose link is up leads to the next node. A node is known by its
//! GUID, so a loop ends where it meets a known node; the link is recorded all the same.

use crate::exchange::{Counts, Exchange, Failure, Pace};
use crate::packet::{Destination, Get, Reply};
use crate::route::Route;
use crate::smp::{self, NodeInfo, NodeType, PortInfo, SwitchInfo};
use crate::subnet::{Node, PortId, Subnet};
use crate::transport::Mad;
use std::collections::BTreeMap;
use std::io;

/// Bounds of a sweep. A subnet has at most 49,151 nodes, because it has so many unicast LIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most nodes.
    pub nodes: usize,
    /// Most ports of all nodes.
    pub ports: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 32_768, ports: 65_536 }
    }
}

/// Why there is no subnet.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The local node does not answer.
    #[error("the local port does not answer subnet management ({0})")]
    Local(Failure),
    /// The transport is gone.
    #[error("the port is gone")]
    Transport(#[from] io::Error),
}

/// What a request is for.
enum Asked {
    /// The node at the end of a route, and the port from which its last hop leaves.
    Node(Route, Option<PortId>),
    Description(u64),
    Switch(u64),
    Port(PortId),
}

/// A finished sweep.
#[derive(Debug)]
pub struct Sweep {
    /// The nodes and links that answered.
    pub subnet: Subnet,
    /// MADs.
    pub counts: Counts,
    /// Number of the next transaction on this transport.
    pub next_transaction: u32,
}

/// Discovers the subnet of the transport's port. `first`: see [`Exchange::new`].
///
/// # Errors
/// [`DiscoveryError`]. A node that does not answer is missing or incomplete; that is no error.
pub fn discover(mad: &mut dyn Mad, pace: Pace, limits: Limits, first: u32) -> Result<Sweep, DiscoveryError> {
    let mut exchange = Exchange::new(mad, pace, first);
    exchange.ask(
        0,
        Get::subnet(Destination::Route(Route::local()), smp::NODE_INFO, 0),
        Asked::Node(Route::local(), None),
    );
    let mut found = Found { subnet: Subnet::default(), ports: 0, limits };
    while let Some((asked, result)) = exchange.finished()? {
        match (asked, result) {
            (Asked::Node(_, None), Err(failure)) => return Err(DiscoveryError::Local(failure)),
            (asked, Ok(reply)) => found.take(asked, &reply, &mut exchange),
            (_, Err(_)) => {}
        }
    }
    Ok(Sweep { subnet: found.subnet, counts: exchange.counts, next_transaction: exchange.next_transaction() })
}

struct Found {
    subnet: Subnet,
    ports: usize,
    limits: Limits,
}

impl Found {
    fn take(&mut self, asked: Asked, reply: &Reply, exchange: &mut Exchange<'_, Asked>) {
        match asked {
            Asked::Node(route, from) => {
                if let Some(info) = NodeInfo::decode(reply.data()) {
                    self.node(route, from, info, exchange);
                }
            }
            Asked::Description(guid) => {
                if let Some(node) = self.subnet.nodes.get_mut(&guid) {
                    node.description = smp::node_description(reply.data());
                }
            }
            Asked::Switch(guid) => {
                if let Some(node) = self.subnet.nodes.get_mut(&guid) {
                    node.switch = SwitchInfo::decode(reply.data());
                }
            }
            Asked::Port(id) => self.port(id, PortInfo::decode(reply.data()), exchange),
        }
    }

    /// A node at the end of a route: known already, or new.
    fn node(&mut self, route: Route, from: Option<PortId>, info: NodeInfo, exchange: &mut Exchange<'_, Asked>) {
        let (guid, entry) = (info.guid, info.local_port);
        if let Some(from) = from {
            self.subnet.links.insert(from, (guid, entry));
            self.subnet.links.insert((guid, entry), from);
        } else {
            self.subnet.origin = guid;
        }
        let ask = |exchange: &mut Exchange<'_, Asked>, route: &Route, attribute, modifier, asked| {
            exchange.ask(guid, Get::subnet(Destination::Route(route.clone()), attribute, modifier), asked);
        };
        if let Some(known) = self.subnet.nodes.get(&guid) {
            // Another port of a known adapter: it answers only for itself on this route.
            if known.info.kind != NodeType::Switch && !known.ports.contains_key(&entry) {
                ask(exchange, &route, smp::PORT_INFO, u32::from(entry), Asked::Port((guid, entry)));
            }
            return;
        }
        let switch = info.kind == NodeType::Switch;
        let ports = if switch { usize::from(info.ports) + 1 } else { 1 };
        if self.subnet.nodes.len() >= self.limits.nodes || self.ports + ports > self.limits.ports {
            self.subnet.truncated = true;
            return;
        }
        self.ports += ports;
        ask(exchange, &route, smp::NODE_DESCRIPTION, 0, Asked::Description(guid));
        if switch {
            ask(exchange, &route, smp::SWITCH_INFO, 0, Asked::Switch(guid));
            for port in 0..=info.ports {
                ask(exchange, &route, smp::PORT_INFO, u32::from(port), Asked::Port((guid, port)));
            }
        } else {
            ask(exchange, &route, smp::PORT_INFO, u32::from(entry), Asked::Port((guid, entry)));
        }
        let (description, switch, ports) = (String::new(), SwitchInfo::default(), BTreeMap::new());
        self.subnet.nodes.insert(guid, Node { info, description, route, switch, ports });
    }

    /// A port of a known node; a link that is up leads on, out of a switch or the local adapter.
    fn port(&mut self, id: PortId, info: PortInfo, exchange: &mut Exchange<'_, Asked>) {
        let (guid, number) = id;
        let origin = self.subnet.origin;
        let Some(node) = self.subnet.nodes.get_mut(&guid) else { return };
        let linked = info.is_linked();
        node.ports.insert(number, info);
        let leads_on = if node.is_switch() { number != 0 } else { guid == origin };
        if !linked || !leads_on || self.subnet.links.contains_key(&id) {
            return;
        }
        let Some(route) = node.route.then(number) else {
            self.subnet.truncated = true;
            return;
        };
        let get = Get::subnet(Destination::Route(route.clone()), smp::NODE_INFO, 0);
        exchange.ask(0, get, Asked::Node(route, Some(id)));
    }
}
