//! Ports with their cables, and jobs with their ports: what every detector needs beside the signals.

use crate::topology::{End, Role, Topology};
use std::collections::HashMap;

/// A port that is measured or has a cable.
#[derive(Clone, Debug)]
pub struct Port {
    /// Where it is.
    pub end: End,
    /// The port at the other end of its cable.
    pub peer: Option<usize>,
    /// Index of its link.
    pub link: Option<usize>,
}

/// All ports.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// In no order.
    pub list: Vec<Port>,
    index: HashMap<End, usize>,
    by_node: Vec<Vec<usize>>,
}

impl Ports {
    /// Those of a topology.
    pub fn new(topology: &Topology) -> Self {
        let mut ports = Self { by_node: vec![Vec::new(); topology.nodes.len()], ..Self::default() };
        for (at, link) in topology.links.iter().enumerate() {
            let first = ports.list.len();
            for (side, end) in link.ends.iter().enumerate() {
                ports.index.insert(end.clone(), first + side);
                ports.by_node[end.node].push(first + side);
                ports.list.push(Port { end: end.clone(), peer: Some(first + 1 - side), link: Some(at) });
            }
        }
        ports
    }

    /// The port at this end.
    pub fn at(&self, end: &End) -> Option<usize> {
        self.index.get(end).copied()
    }

    /// Those of a node.
    pub fn of_node(&self, node: usize) -> &[usize] {
        &self.by_node[node]
    }
}

/// A job as correlation sees it.
#[derive(Clone, Debug)]
pub struct Job {
    /// As incidents name it.
    pub id: String,
    /// The host ports that it has.
    pub ports: Vec<usize>,
}

/// Topology, ports and jobs.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Who is wired to whom.
    pub topology: Topology,
    /// Of all nodes.
    pub ports: Ports,
    /// Those that run.
    pub jobs: Vec<Job>,
}

impl Fabric {
    /// What the node of a port is.
    pub fn role(&self, port: usize) -> Role {
        self.topology.nodes[self.ports.list[port].end.node].role
    }

    /// Whether a port is a host's.
    pub fn is_host(&self, port: usize) -> bool {
        self.role(port) == Role::Host
    }

    /// The node at the other end of a port's cable.
    pub fn peer_node(&self, port: usize) -> Option<usize> {
        self.ports.list[port].peer.map(|p| self.ports.list[p].end.node)
    }

    /// The job that has a host port.
    pub fn job_of(&self, port: usize) -> Option<usize> {
        self.jobs.iter().position(|job| job.ports.contains(&port))
    }

    /// Bytes a second that a port's link should carry, if the topology says.
    pub fn nominal(&self, port: usize) -> Option<f64> {
        self.ports.list[port].link.and_then(|l| self.topology.links[l].rate)
    }

    /// All ports of hosts.
    pub fn host_ports(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.list.len()).filter(|p| self.is_host(*p))
    }

    /// All ports of switches.
    pub fn switch_ports(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.list.len()).filter(|p| !self.is_host(*p))
    }
}
