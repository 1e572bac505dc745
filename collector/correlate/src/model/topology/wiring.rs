//! The topology: all nodes and links, and its form in JSON.

use super::contradiction::Contradiction;
use super::types::{AddressOwner, GBPS, Link, LinkEnd, Node, Provenance, Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// All nodes and links.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(from = "TopologyJson", into = "TopologyJson")]
pub struct Topology {
    /// Nodes; links refer to them by index.
    pub nodes: Vec<Node>,
    /// Links.
    pub links: Vec<Link>,
    /// Rails of host ports, cabled or not, as agents report them.
    pub rails: BTreeMap<LinkEnd, String>,
    /// Addresses of switches, by which they answer traces.
    pub addresses: BTreeMap<IpAddr, AddressOwner>,
    /// Where sources disagree.
    pub contradictions: Vec<Contradiction>,
    by_name: HashMap<String, usize>,
    /// Indices of removed nodes, for reuse.
    free: Vec<usize>,
}

impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        let Self { nodes, links, rails, addresses, contradictions, by_name: _, free: _ } = self;
        *nodes == other.nodes
            && *links == other.links
            && *rails == other.rails
            && *addresses == other.addresses
            && *contradictions == other.contradictions
    }
}

impl Topology {
    /// Builds a topology. A port has one cable, so a link to an end that is already in use is dropped.
    pub fn new(nodes: Vec<Node>, links: Vec<Link>) -> Self {
        let (gone, named): (Vec<usize>, Vec<usize>) = (0..nodes.len()).partition(|at| nodes[*at].is_gone());
        let by_name = named.into_iter().map(|at| (nodes[at].name.clone(), at)).collect();
        let mut used = HashSet::new();
        let free = |link: &Link| {
            let free = link.ends.iter().all(|end| !used.contains(end));
            if free {
                used.extend(link.ends.iter().cloned());
            }
            free
        };
        let links = links.into_iter().filter(free).collect();
        let (rails, addresses, contradictions) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { nodes, links, rails, addresses, contradictions, by_name, free: gone }
    }

    /// Index of the node with this name, which is added as a host if it is new.
    pub fn host(&mut self, name: &str) -> usize {
        if let Some(node) = self.node(name) {
            return node;
        }
        let host = Node { name: name.to_owned(), role: Role::Host };
        let at = self.free.pop().unwrap_or(self.nodes.len());
        match self.nodes.get_mut(at) {
            Some(gone) => *gone = host,
            None => self.nodes.push(host),
        }
        self.by_name.insert(name.to_owned(), at);
        at
    }

    /// Removes a node that has neither links nor ports; its index is reused.
    pub(crate) fn remove_node(&mut self, node: usize) {
        self.by_name.remove(&std::mem::take(&mut self.nodes[node].name));
        self.free.push(node);
    }

    /// Index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// JSON form of a topology, with ends by name. The JSON file format accepts it too.
#[derive(Serialize, Deserialize, Clone)]
struct TopologyJson {
    nodes: Vec<Node>,
    links: Vec<LinkJson>,
    #[serde(default)]
    rails: Vec<RailJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<AddressJson>,
    contradictions: Vec<Contradiction>,
}

#[derive(Serialize, Deserialize, Clone)]
struct RailJson {
    node: String,
    port: String,
    rail: String,
}

#[derive(Serialize, Deserialize, Clone)]
struct AddressJson {
    address: IpAddr,
    node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<String>,
}

#[derive(Serialize, Deserialize, Clone)]
struct LinkJson {
    a: String,
    a_port: String,
    b: String,
    b_port: String,
    rate_gbps: Option<f64>,
    rail: Option<String>,
    known: Provenance,
}

impl From<Topology> for TopologyJson {
    fn from(topology: Topology) -> Self {
        let name = |end: &LinkEnd| topology.nodes[end.node].name.clone();
        let links = topology.links.iter().map(|link| {
            let [a, b] = &link.ends;
            LinkJson {
                a: name(a),
                a_port: a.port.clone(),
                b: name(b),
                b_port: b.port.clone(),
                rate_gbps: link.rate.map(|rate| rate / GBPS),
                rail: link.rail.clone(),
                known: link.known,
            }
        });
        let links = links.collect();
        let rail =
            |(end, rail): (&LinkEnd, &String)| RailJson { node: name(end), port: end.port.clone(), rail: rail.clone() };
        let rails = topology.rails.iter().map(rail).collect();
        let address = |(ip, owner): (&IpAddr, &AddressOwner)| AddressJson {
            address: *ip,
            node: topology.nodes[owner.node].name.clone(),
            port: owner.port.clone(),
        };
        let addresses = topology.addresses.iter().map(address).collect();
        Self { nodes: topology.nodes, links, rails, addresses, contradictions: topology.contradictions }
    }
}

impl From<TopologyJson> for Topology {
    fn from(written: TopologyJson) -> Self {
        let mut topology = Self::new(written.nodes, Vec::new());
        let end = |node: &str, port: String| Some(LinkEnd { node: topology.node(node)?, port });
        let link = |l: LinkJson| {
            let ends = [end(&l.a, l.a_port)?, end(&l.b, l.b_port)?];
            Some(Link { ends, rate: l.rate_gbps.map(|gbps| gbps * GBPS), known: l.known, rail: l.rail })
        };
        let links = written.links.into_iter().filter_map(link).collect();
        let rail = |r: RailJson| Some((end(&r.node, r.port)?, r.rail));
        let rails = written.rails.into_iter().filter_map(rail).collect();
        let address = |a: AddressJson| Some((a.address, AddressOwner { node: topology.node(&a.node)?, port: a.port }));
        let addresses = written.addresses.into_iter().filter_map(address).collect();
        (topology.links, topology.rails, topology.addresses) = (links, rails, addresses);
        topology.contradictions = written.contradictions;
        topology
    }
}
