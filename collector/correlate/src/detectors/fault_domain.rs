//! A fault domain: ports, nodes and jobs of a part of the fabric that trouble elsewhere does not reach.

use crate::model::fabric::Fabric;
use std::collections::BTreeSet;

/// A connected component of the fabric, or several that one incident touches.
#[derive(Clone, Debug, Default)]
pub struct FaultDomain {
    /// Its ports, ascending.
    pub ports: Vec<usize>,
    /// Its host ports.
    pub hosts: Vec<usize>,
    /// Its switch ports.
    pub switches: Vec<usize>,
    /// Nodes of its ports, ascending.
    pub nodes: Vec<usize>,
    /// Jobs with any of its ports.
    pub jobs: Vec<usize>,
}

impl FaultDomain {
    /// The whole fabric.
    pub fn whole(fabric: &Fabric) -> Self {
        let (hosts, switches) = (fabric.host_ports().collect(), fabric.switch_ports().collect());
        let ports = (0..fabric.ports.list.len()).collect();
        let nodes = (0..fabric.topology.nodes.len()).collect();
        Self { ports, hosts, switches, nodes, jobs: (0..fabric.jobs.len()).collect() }
    }
}

/// A set of fault domains; empty: all of them.
#[derive(Clone, Debug, Default)]
pub struct DomainSet(pub(super) BTreeSet<usize>);

impl DomainSet {
    /// Whether two sets share a domain.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.is_empty() || other.0.is_empty() || !self.0.is_disjoint(&other.0)
    }
}
