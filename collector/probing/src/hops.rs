//! From addresses of switches to egress ports. A switch answers a trace by the address of the interface at which the packet came
//! in, or by a loopback address. The first switch is the one that the sender's cable names, the last one the receiver's.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use fabriclens_correlate::{FlowName, LinkEnd, PortName, Provenance, Role, Topology};
use fabriclens_probe_plan::Hop;

use crate::registry::Reporter;
use crate::targets::address;

/// The trace of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// Who reported it.
    pub by: Arc<Reporter>,
    /// What was traced.
    pub flow: Arc<FlowName>,
    /// When the trace ended, Unix nanoseconds.
    pub at_ns: i64,
    /// Addresses by distance.
    pub hops: Vec<Vec<IpAddr>>,
    /// Whether all switches up to the receiver are among the hops.
    pub complete: bool,
}

impl Trace {
    /// A trace as an agent reports it. Addresses of other lengths were refused before.
    pub fn new(by: Arc<Reporter>, flow: Arc<FlowName>, at_ns: i64, hops: &[Hop], complete: bool) -> Self {
        let hop = |hop: &Hop| hop.addresses.iter().filter_map(|bytes| address(bytes)).collect();
        Self { by, flow, at_ns, hops: hops.iter().map(hop).collect(), complete }
    }
}

/// Why a trace is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// The trace does not reach the receiver's host.
    Incomplete,
    /// A switch between the first and the last does not answer.
    Silent,
    /// Several switches answer at one distance: packets of this source port take several paths.
    Several,
    /// No source names the switch of one of the two host ports.
    NoCable,
    /// No source says which switch has an address.
    UnknownAddress,
    /// No link is known between two switches of the trace.
    NoLink,
    /// Several links connect two switches of the trace, and the address does not tell which.
    Parallel,
    /// A switch at an end is not the one that the cable names.
    Contradiction,
}

impl Unresolved {
    /// Label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Silent => "silent",
            Self::Several => "several",
            Self::NoCable => "no_cable",
            Self::UnknownAddress => "unknown_address",
            Self::NoLink => "no_link",
            Self::Parallel => "parallel",
            Self::Contradiction => "contradiction",
        }
    }

    /// Words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Incomplete => "the trace does not reach the receiver",
            Self::Silent => "a switch between the first and the last does not answer",
            Self::Several => "several switches answer at one distance: packets take several paths",
            Self::NoCable => "no source names the switch of one of the two host ports",
            Self::UnknownAddress => "no source says which switch has an address",
            Self::NoLink => "no link is known between two switches of the trace",
            Self::Parallel => "several links connect two switches of the trace, and no address tells which",
            Self::Contradiction => "a switch at an end is not the one that the cable names",
        }
    }

    /// Whether more knowledge of the topology may resolve it.
    pub fn may_resolve(self) -> bool {
        matches!(self, Self::NoCable | Self::UnknownAddress | Self::NoLink)
    }
}

/// Name of a switch that is known by its address only.
pub(crate) fn switch_name(address: IpAddr) -> String {
    format!("switch {address}")
}

/// The address in such a name.
pub(crate) fn address_of(name: &str) -> Option<IpAddr> {
    name.strip_prefix("switch ")?.parse().ok()
}

/// A topology, indexed for the resolution of traces.
#[derive(Default)]
pub(crate) struct FabricIndex {
    topology: Arc<Topology>,
    /// Node, and port if it is that of an interface, by address.
    addresses: HashMap<IpAddr, (usize, Option<String>)>,
    /// Link by end.
    cables: HashMap<LinkEnd, usize>,
    /// Links by their two nodes, the lower index first.
    between: HashMap<[usize; 2], Vec<usize>>,
}

impl FabricIndex {
    /// Indexes a topology. `names` are further addresses of switches.
    pub fn new(topology: Arc<Topology>, names: &BTreeMap<IpAddr, String>) -> Self {
        let mut addresses = HashMap::new();
        for (ip, name) in names {
            if let Some(node) = topology.node(name) {
                addresses.insert(*ip, (node, None));
            }
        }
        // The configuration comes before an address without a port, which may be a management address that LLDP tells.
        for (ip, owner) in &topology.addresses {
            if owner.port.is_some() || !addresses.contains_key(ip) {
                addresses.insert(*ip, (owner.node, owner.port.clone()));
            }
        }
        let mut cables = HashMap::new();
        let mut between: HashMap<[usize; 2], Vec<usize>> = HashMap::new();
        for (at, link) in topology.links.iter().enumerate() {
            link.ends.iter().for_each(|end| _ = cables.insert(end.clone(), at));
            let [a, b] = link.ends.each_ref().map(|end| end.node);
            between.entry([a.min(b), a.max(b)]).or_default().push(at);
        }
        Self { topology, addresses, cables, between }
    }

    /// The topology.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// The switch at the other end of a host port's cable, and its port, and how the cable is known.
    pub fn leaf(&self, port: &PortName) -> Option<(usize, &str, Provenance)> {
        let node = self.topology.node(&port.node)?;
        let link = &self.topology.links[*self.cables.get(&LinkEnd { node, port: port.port.clone() })?];
        let far = link.ends.iter().find(|end| end.node != node)?;
        (self.topology.nodes[far.node].role != Role::Host).then_some((far.node, far.port.as_str(), link.known))
    }

    /// The port at the other end of a port's cable.
    pub fn far(&self, port: &PortName) -> Option<PortName> {
        let node = self.topology.node(&port.node)?;
        let link = &self.topology.links[*self.cables.get(&LinkEnd { node, port: port.port.clone() })?];
        let far = link.ends.iter().find(|end| end.node != node)?;
        Some(PortName { node: self.topology.nodes[far.node].name.clone(), port: far.port.clone() })
    }

    /// Index and port of the switch that has an address, also one that is known by the address only.
    pub fn owner(&self, ip: IpAddr) -> Option<(usize, Option<&str>)> {
        let known = self.addresses.get(&ip).map(|(node, port)| (*node, port.as_deref()));
        known.or_else(|| Some((self.topology.node(&switch_name(ip))?, None)))
    }

    /// Name of the switch that a better source than traces gives to an address.
    pub fn name_of(&self, ip: IpAddr) -> Option<&str> {
        self.addresses.get(&ip).map(|(node, _)| self.topology.nodes[*node].name.as_str())
    }

    /// Egress ports of a trace, the sender's own first.
    ///
    /// # Errors
    /// Why the trace is no path.
    pub fn resolve(&self, trace: &Trace) -> Result<Vec<PortName>, Unresolved> {
        let Trace { flow, hops, complete, .. } = trace;
        if !complete || hops.is_empty() {
            return Err(Unresolved::Incomplete);
        }
        let (first, ..) = self.leaf(&flow.from).ok_or(Unresolved::NoCable)?;
        let (last, last_port, _) = self.leaf(&flow.to).ok_or(Unresolved::NoCable)?;
        let end = hops.len() - 1;
        let mut nodes = Vec::with_capacity(hops.len());
        for (at, addresses) in hops.iter().enumerate() {
            let by_cable = if at == 0 { Some(first) } else { (at == end).then_some(last) };
            nodes.push(self.switch(addresses, by_cable)?);
        }
        if nodes[end] != last {
            return Err(Unresolved::Contradiction);
        }
        let name = |node: usize| self.topology.nodes[node].name.clone();
        let mut path = vec![flow.from.clone()];
        for at in 0..end {
            path.push(PortName { node: name(nodes[at]), port: self.egress(nodes[at], nodes[at + 1], &hops[at + 1])? });
        }
        path.push(PortName { node: name(last), port: last_port.to_owned() });
        Ok(path)
    }

    /// The switch at one distance.
    fn switch(&self, addresses: &[IpAddr], by_cable: Option<usize>) -> Result<usize, Unresolved> {
        let owners: Vec<Option<usize>> = addresses.iter().map(|ip| self.owner(*ip).map(|(node, _)| node)).collect();
        if let Some(node) = by_cable {
            let is_named = |owner: &usize| address_of(&self.topology.nodes[*owner].name).is_none();
            let other = owners.iter().flatten().any(|owner| *owner != node && is_named(owner));
            return if other { Err(Unresolved::Contradiction) } else { Ok(node) };
        }
        match owners.as_slice() {
            [] => Err(Unresolved::Silent),
            [None] => Err(Unresolved::UnknownAddress),
            [Some(first), others @ ..] if others.iter().all(|other| *other == Some(*first)) => Ok(*first),
            _ => Err(Unresolved::Several),
        }
    }

    /// The port by which a packet leaves a switch to the next one, which answers by these addresses.
    fn egress(&self, from: usize, to: usize, answers: &[IpAddr]) -> Result<String, Unresolved> {
        let links = self.between.get(&[from.min(to), from.max(to)]).ok_or(Unresolved::NoLink)?;
        let own = |link: usize| self.topology.links[link].ends.iter().find(|end| end.node == from);
        let far = |link: usize| self.topology.links[link].ends.iter().find(|end| end.node == to);
        let ingress: Vec<&str> = answers
            .iter()
            .filter_map(|ip| self.owner(*ip))
            .filter(|(node, _)| *node == to)
            .filter_map(|o| o.1)
            .collect();
        let link = match (links.as_slice(), ingress.as_slice()) {
            ([one], _) => Some(*one),
            (_, [port]) => links.iter().copied().find(|link| far(*link).is_some_and(|end| end.port == *port)),
            _ => None,
        };
        let end = link.and_then(own).ok_or(Unresolved::Parallel)?;
        Ok(end.port.clone())
    }
}

#[cfg(test)]
mod tests;
