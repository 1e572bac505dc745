//! Paths of a job's flows for its report: by the forwarding tables of InfiniBand subnets, by the traces of RoCE source ports, and
//! by the cables where both ports are at one switch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fabriclens_correlate::topology::{LinkEnd, Provenance};
use fabriclens_correlate::{FlowName, PathSource, PortName, Role, Topology};
use fabriclens_probing::Probing;
use fabriclens_report::{KnownPaths, Link, PathLookup};
use fabriclens_subnet_paths::{Endpoint, Hop, PathError, PathFinder, SubnetPaths};

use super::report_topology::report_link;

/// What is known of paths.
pub(super) struct ReportPaths {
    topology: Arc<Topology>,
    /// Link by end.
    cables: HashMap<LinkEnd, usize>,
    finder: PathFinder,
    probing: Arc<Probing>,
}

impl ReportPaths {
    /// Paths in a topology; `None` if neither forwarding tables nor traces are known.
    pub fn new(topology: &Arc<Topology>, subnets: &SubnetPaths, probing: &Arc<Probing>) -> Option<Self> {
        let now = Instant::now();
        if !subnets.is_usable(now) && !probing.is_used() {
            return None;
        }
        let known = topology.links.iter().enumerate().filter(|(_, link)| link.known != Provenance::Inferred);
        let cables = known.flat_map(|(at, link)| link.ends.iter().map(move |end| (end.clone(), at))).collect();
        let (topology, probing) = (Arc::clone(topology), Arc::clone(probing));
        Some(Self { topology, cables, finder: subnets.finder(now), probing })
    }

    fn cable(&self, port: &PortName) -> Option<usize> {
        let node = self.topology.node(&port.node)?;
        self.cables.get(&LinkEnd { node, port: port.port.clone() }).copied()
    }

    /// The port at the other end of a host port's cable, if it is that of a switch.
    fn switch_port(&self, port: &PortName) -> Option<PortName> {
        let link = &self.topology.links[self.cable(port)?];
        let far = link.ends.iter().find(|end| self.topology.nodes[end.node].name != port.node)?;
        let node = &self.topology.nodes[far.node];
        (node.role != Role::Host).then(|| PortName { node: node.name.clone(), port: far.port.clone() })
    }

    /// By the forwarding tables.
    fn by_tables(&self, flow: &FlowName) -> Result<KnownPaths, PathError> {
        let endpoint = |port: &PortName| {
            let attached = self.switch_port(port).map(|far| (far.node, far.port));
            Endpoint { host: port.node.clone(), port: port.port.clone(), attached }
        };
        let found = self.finder.paths(&endpoint(&flow.from), &endpoint(&flow.to))?;
        let hop = |hop: &Hop| PortName { node: hop.node.to_string(), port: hop.port.to_string() };
        // The report knows the sender's port by the name in samples.
        let whole = |hops: &Vec<Hop>| [flow.from.clone()].into_iter().chain(hops.iter().skip(1).map(hop)).collect();
        Ok(KnownPaths {
            known: PathSource::ForwardingTable.words(),
            paths: found.all.iter().map(whole).collect(),
            is_exact: found.is_exact(),
        })
    }

    /// By the trace of its source port.
    fn by_trace(&self, flow: &FlowName) -> Result<KnownPaths, String> {
        let exact = |known, hops| KnownPaths { known, paths: vec![hops], is_exact: true };
        let why = match self.probing.path(flow) {
            Ok(hops) => return Ok(exact(PathSource::Traced.words(), hops)),
            Err(why) => why,
        };
        match (self.switch_port(&flow.from), self.switch_port(&flow.to)) {
            (Some(first), Some(last)) if first.node == last.node => {
                Ok(exact("by the cables", vec![flow.from.clone(), last]))
            }
            _ => Err(why.to_owned()),
        }
    }
}

impl PathLookup for ReportPaths {
    fn paths(&self, flow: &FlowName) -> Result<KnownPaths, String> {
        if flow.source_port.is_some() {
            return self.by_trace(flow);
        }
        self.by_tables(flow).map_err(|error| match error {
            PathError::NoTables | PathError::UnknownPort(..) => {
                "a port is in no InfiniBand subnet whose forwarding tables are known, and the UDP source port is not known"
            }
            PathError::DifferentSubnets => "the two ports are in different subnets",
            PathError::NotAttached(..) => "a port is connected to no known switch",
            PathError::NoRoute { .. } => "a switch has no route to the receiver",
            PathError::DeadEnd { .. } => "the forwarding tables lead nowhere",
            PathError::Loop(_) => "the forwarding tables lead in a circle",
        })
        .map_err(str::to_owned)
    }

    fn link(&self, egress: &PortName) -> Option<Link> {
        Some(report_link(&self.topology, &self.topology.links[self.cable(egress)?]))
    }
}

#[cfg(test)]
mod tests;
