//! A fault domain: ports, nodes and jobs of a part of the fabric that trouble elsewhere does not reach.

use crate::model::fabric::Fabric;
use std::collections::BTreeSet;

/// One part, or several that one trouble touches.
#[derive(Clone, Debug, Default)]
pub struct FaultDomain {
    /// In order.
    pub ports: Vec<usize>,
    /// Those of them that are hosts'.
    pub hosts: Vec<usize>,
    /// Those of them that are switches'.
    pub switches: Vec<usize>,
    /// Nodes that have any of them, in order.
    pub nodes: Vec<usize>,
    /// That have any of them.
    pub jobs: Vec<usize>,
}

impl FaultDomain {
    /// All there is.
    pub fn whole(fabric: &Fabric) -> Self {
        let (hosts, switches) = (fabric.host_ports().collect(), fabric.switch_ports().collect());
        let ports = (0..fabric.ports.list.len()).collect();
        let nodes = (0..fabric.topology.nodes.len()).collect();
        Self { ports, hosts, switches, nodes, jobs: (0..fabric.jobs.len()).collect() }
    }
}

/// Parts of a fabric that something touches; none in particular: all.
#[derive(Clone, Debug, Default)]
pub struct DomainSet(pub(super) BTreeSet<usize>);

impl DomainSet {
    /// Whether two have a part in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.is_empty() || other.0.is_empty() || !self.0.is_disjoint(&other.0)
    }
}
