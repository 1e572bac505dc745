//! Where an incident is: [`LocationId`] by indices of the fabric, [`Location`] by names as the API and back-tests give it.

use crate::model::fabric::Fabric;
use crate::model::topology::{Link, LinkEnd};
use serde::{Deserialize, Serialize};

/// A location by indices of one [`Fabric`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LocationId {
    /// Index of a port.
    Port(usize),
    /// Index of a link.
    Link(usize),
    /// Index of a switch node.
    Switch(usize),
    /// Index of a host node.
    Host(usize),
    /// Index of a job.
    Job(usize),
    /// Several places, or a place that the counters do not show.
    Fabric,
}

impl LocationId {
    /// Ports that belong to the location; empty for [`LocationId::Fabric`].
    pub fn ports(&self, fabric: &Fabric) -> Vec<usize> {
        match self {
            Self::Port(port) => vec![*port],
            Self::Link(link) => fabric.ports.of_link(*link).to_vec(),
            Self::Switch(node) | Self::Host(node) => fabric.ports.of_node(*node).to_vec(),
            Self::Job(job) => fabric.jobs[*job].ports.clone(),
            Self::Fabric => Vec::new(),
        }
    }

    /// Whether two locations share hardware. A port is part of its link, of its node, and of the node at the other end.
    pub fn overlaps(&self, other: &Self, fabric: &Fabric) -> bool {
        let link = |port: usize| fabric.ports.list[port].link;
        let ends = |link: usize| fabric.topology.links.get(link).map(|l| l.ends.each_ref().map(|e| e.node));
        match (self, other) {
            (Self::Port(a), Self::Port(b)) => a == b || link(*a).is_some_and(|l| link(*b) == Some(l)),
            (Self::Port(p), Self::Link(l)) | (Self::Link(l), Self::Port(p)) => link(*p) == Some(*l),
            (Self::Port(p), Self::Switch(n) | Self::Host(n)) | (Self::Switch(n) | Self::Host(n), Self::Port(p)) => {
                fabric.ports.list[*p].end.node == *n || fabric.peer_node(*p) == Some(*n)
            }
            (Self::Link(l), Self::Switch(n) | Self::Host(n)) | (Self::Switch(n) | Self::Host(n), Self::Link(l)) => {
                ends(*l).is_some_and(|ends| ends.contains(n))
            }
            _ => self == other,
        }
    }
}

/// A location by names. JSON has the variant in `type`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Location {
    /// A port.
    Port {
        /// Host or switch.
        node: String,
        /// Port name on that node.
        port: String,
    },
    /// A link; two nodes may have several.
    Link {
        /// Node at the first end.
        a: String,
        /// Its port; `""` if unknown.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        a_port: String,
        /// Node at the second end.
        b: String,
        /// Its port; `""` if unknown.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        b_port: String,
    },
    /// A switch.
    Switch {
        /// Switch name.
        node: String,
    },
    /// A host.
    Host {
        /// Host name.
        node: String,
    },
    /// A job.
    Job {
        /// Job id.
        job: String,
    },
    /// Several places, or a place that the counters do not show.
    Fabric,
}

impl Location {
    /// Names of the location `id` in `fabric`.
    pub fn of(fabric: &Fabric, id: &LocationId) -> Self {
        let node = |n: usize| fabric.topology.nodes[n].name.clone();
        match id {
            LocationId::Port(port) => {
                let end = &fabric.ports.list[*port].end;
                Self::Port { node: node(end.node), port: end.port.clone() }
            }
            LocationId::Link(link) => {
                let [a, b] = &fabric.topology.links[*link].ends;
                let port = |end: &LinkEnd| if end.is_unknown() { String::new() } else { end.port.clone() };
                Self::Link { a: node(a.node), a_port: port(a), b: node(b.node), b_port: port(b) }
            }
            LocationId::Switch(n) => Self::Switch { node: node(*n) },
            LocationId::Host(n) => Self::Host { node: node(*n) },
            LocationId::Job(job) => Self::Job { job: fabric.jobs[*job].id.clone() },
            LocationId::Fabric => Self::Fabric,
        }
    }

    /// Hosts and switches in the location; empty for jobs and the fabric.
    pub fn nodes(&self) -> Vec<String> {
        match self {
            Self::Port { node, .. } | Self::Switch { node } | Self::Host { node } => vec![node.clone()],
            Self::Link { a, b, .. } if a == b => vec![a.clone()],
            Self::Link { a, b, .. } => vec![a.clone(), b.clone()],
            Self::Job { .. } | Self::Fabric => Vec::new(),
        }
    }

    /// Indices of the location, if `fabric` has it.
    pub fn find(&self, fabric: &Fabric) -> Option<LocationId> {
        let node = |name: &String| fabric.topology.node(name);
        Some(match self {
            Self::Port { node: n, port } => {
                LocationId::Port(fabric.ports.at(&LinkEnd { node: node(n)?, port: port.clone() })?)
            }
            Self::Link { a, a_port, b, b_port } => {
                let ends = [(node(a)?, a_port), (node(b)?, b_port)];
                // The ports may have become known since, and the ends may have swapped.
                let is = |end: &LinkEnd, (node, port): (usize, &String)| {
                    end.node == node && (port.is_empty() || end.is_unknown() || end.port == *port)
                };
                let fits = |l: &Link| {
                    let [one, other] = &l.ends;
                    is(one, ends[0]) && is(other, ends[1]) || is(one, ends[1]) && is(other, ends[0])
                };
                LocationId::Link(fabric.topology.links.iter().position(fits)?)
            }
            Self::Switch { node: n } => LocationId::Switch(node(n)?),
            Self::Host { node: n } => LocationId::Host(node(n)?),
            Self::Job { job } => LocationId::Job(fabric.jobs.iter().position(|j| j.id == *job)?),
            Self::Fabric => LocationId::Fabric,
        })
    }
}
