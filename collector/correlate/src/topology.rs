//! Which node is wired to which: hosts, switches, and the links between their ports.

use std::collections::{HashMap, HashSet};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has NICs or HCAs.
    Host,
    /// A switch that hosts are wired to.
    Leaf,
    /// A switch between switches.
    Spine,
}

/// A host or a switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// As series have it (label `host`) and incidents name it.
    pub name: String,
    /// What it is.
    pub role: Role,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Index of the node.
    pub node: usize,
    /// As series have it (label `port`).
    pub port: String,
}

/// A cable.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its two ends.
    pub ends: [End; 2],
    /// Bytes a second in each direction, as it should be; `None` if nobody says.
    pub rate: Option<f64>,
}

/// The fabric.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All links.
    pub links: Vec<Link>,
    by_name: HashMap<String, usize>,
}

impl Topology {
    /// Of nodes and links; a link whose end was named before is left out, because a port has one cable.
    pub fn new(nodes: Vec<Node>, links: Vec<Link>) -> Self {
        let by_name = nodes.iter().enumerate().map(|(i, n)| (n.name.clone(), i)).collect();
        let mut used = HashSet::new();
        let free = |link: &Link| {
            let free = link.ends.iter().all(|end| !used.contains(end));
            if free {
                used.extend(link.ends.iter().cloned());
            }
            free
        };
        let links = links.into_iter().filter(free).collect();
        Self { nodes, links, by_name }
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}
