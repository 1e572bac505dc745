//! Which node is wired to which: hosts, switches, and the cables between their ports. Files in several formats describe
//! it ([`FORMATS`]), and so do agents, which hear what is at the other end of their cables ([`told`]); [`merge`] makes
//! one topology of all that is said, and says where it does not agree.

mod agents;
mod contradiction;
mod described;
mod ib;
mod iblinkinfo;
mod ibnetdiscover;
mod ibports;
mod json;
mod merge;
mod names;
mod slurm;
mod slurm_yaml;
mod topograph;

pub use agents::{PortInfo, port_name, told};
pub use contradiction::{Claim, Contradiction};
pub use described::{Cable, CableEnd, FORMATS, Format, TopologyError, TopologySource, parse};
pub(crate) use json::Id;
pub use merge::merge;
pub use names::HostNames;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a node is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has NICs or HCAs.
    Host,
    /// A switch that hosts are wired to.
    Leaf,
    /// A switch between switches.
    Spine,
}

/// How a cable is known, from what is trusted least to what is trusted most.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Nobody says it; it fits what ports are called.
    Inferred,
    /// A scheduler places jobs by it: near enough for that, and it knows no ports.
    Scheduler,
    /// Counters of two ports move together: what one sends, the other receives.
    Counters,
    /// Somebody wrote it down.
    #[default]
    File,
    /// A subnet manager walked it.
    SubnetManager,
    /// The port hears it from the other end of its cable, now.
    Lldp,
}

impl Provenance {
    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inferred => "inferred",
            Self::Scheduler => "scheduler",
            Self::Counters => "counters",
            Self::File => "file",
            Self::SubnetManager => "subnet_manager",
            Self::Lldp => "lldp",
        }
    }
}

/// A host or a switch.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// As series have it (label `host`) and incidents name it.
    pub name: String,
    /// What it is.
    pub role: Role,
}

impl Node {
    /// Only its number is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.name.is_empty()
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEnd {
    /// Index of the node.
    pub node: usize,
    /// As series have it: `device/port` of a host, the label `port` of a switch. `?PEER` where nobody says which.
    pub port: String,
}

impl LinkEnd {
    /// Nobody says which port of the node it is.
    pub fn is_unknown(&self) -> bool {
        self.port.starts_with(UNKNOWN)
    }
}

/// Begins the names of ports that nobody names: no counter has such a one.
const UNKNOWN: char = '?';

/// A cable.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its two ends.
    pub ends: [LinkEnd; 2],
    /// Bytes a second in each direction, as it should be; `None` if nobody says.
    pub rate: Option<f64>,
    /// By whom it is known; the most trusted of those who say it.
    pub known: Provenance,
    /// The rail that it belongs to, if somebody says.
    pub rail: Option<String>,
}

impl Link {
    /// One that is written down somewhere.
    pub fn new(ends: [LinkEnd; 2], rate: Option<f64>) -> Self {
        Self { ends, rate, known: Provenance::File, rail: None }
    }
}

/// The fabric.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(from = "TopologyJson", into = "TopologyJson")]
pub struct Topology {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All links.
    pub links: Vec<Link>,
    /// Rails of hosts' ports, cabled or not, as agents tell them.
    pub rails: BTreeMap<LinkEnd, String>,
    /// Where those who describe it do not agree.
    pub contradictions: Vec<Contradiction>,
    by_name: HashMap<String, usize>,
    /// Nodes that are gone: their numbers are for others.
    free: Vec<usize>,
}

impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        let Self { nodes, links, rails, contradictions, by_name: _, free: _ } = self;
        *nodes == other.nodes
            && *links == other.links
            && *rails == other.rails
            && *contradictions == other.contradictions
    }
}

impl Topology {
    /// Of nodes and links; a link whose end was named before is left out, because a port has one cable.
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
        Self { nodes, links, rails: BTreeMap::new(), contradictions: Vec::new(), by_name, free: gone }
    }

    /// The host of this name, from now on if there is no node of it.
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

    /// A node is gone, and no link or port is its own: the next that nobody knew has its number.
    pub(crate) fn remove_node(&mut self, node: usize) {
        self.by_name.remove(&std::mem::take(&mut self.nodes[node].name));
        self.free.push(node);
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// The form of a topology in JSON: ends by name. The format of files reads it too.
#[derive(Serialize, Deserialize, Clone)]
struct TopologyJson {
    nodes: Vec<Node>,
    links: Vec<LinkJson>,
    #[serde(default)]
    rails: Vec<RailJson>,
    contradictions: Vec<Contradiction>,
}

#[derive(Serialize, Deserialize, Clone)]
struct RailJson {
    node: String,
    port: String,
    rail: String,
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

/// Bytes a second of a gigabit a second.
const GBPS: f64 = 1.25e8;

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
        Self { nodes: topology.nodes, links, rails, contradictions: topology.contradictions }
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
        (topology.links, topology.rails) = (links, rails);
        topology.contradictions = written.contradictions;
        topology
    }
}
