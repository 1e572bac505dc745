//! A recorded fabric: `topology.json`, `jobs.json` and `ports.csv.gz`. Its samples become the series that agents and
//! switches would have sent, so that the same questions find them.

mod columns;
mod error;
mod files;

pub use error::RecordingError;

use crate::model::fabric::{Fabric, Job};
use crate::model::ports::Ports;
use crate::model::topology::{HostNames, LinkEnd, Role, TopologySource, merge, port_name};
use fabriclens_model::Memory;
use std::path::Path;

/// What is left out or changed in reading.
#[derive(Clone, Copy, Debug)]
pub struct ReadAs {
    /// Times and cumulative counters are multiplied by this, so that rates and shares keep.
    pub stretch: i64,
    /// Ports of switches are left out, as if nobody read them.
    pub hosts_only: bool,
}

/// See the module.
pub struct Recording {
    /// What its files say of nodes and cables.
    pub described: Vec<TopologySource>,
    /// Nodes, cables, jobs.
    pub fabric: Fabric,
    /// The samples.
    pub memory: Memory,
    /// Instants that have samples, Unix milliseconds, ascending.
    pub ticks_ms: Vec<i64>,
}

impl Recording {
    /// Reads a directory.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn read(dir: &Path, how: ReadAs) -> Result<Self, RecordingError> {
        let described = vec![files::topology(dir)?];
        let topology = merge(&described, &HostNames::default());
        let wanted = |node: &str| {
            let node = topology.node(node).map(|n| &topology.nodes[n]);
            node.is_some_and(|n| !how.hosts_only || n.role == Role::Host)
        };
        let (memory, ticks_ms) = columns::read(dir, how.stretch, wanted)?;
        let mut ports = Ports::new(&topology);
        for labels in memory.0.iter().map(|series| &series.labels) {
            // Nobody may say where its cable leads.
            if let Some(node) = topology.node(labels.get("host")) {
                ports.add(&LinkEnd { node, port: port_name(labels) });
            }
        }
        let job = |(id, hosts): (String, Vec<String>)| {
            let nodes = hosts.iter().filter_map(|h| topology.node(h));
            Job { id, ports: nodes.flat_map(|n| ports.of_node(n).iter().copied()).collect(), since_ns: i64::MIN }
        };
        let jobs = files::jobs(dir)?.into_iter().map(job).collect();
        Ok(Self { described, fabric: Fabric::new(topology, ports, jobs), memory, ticks_ms })
    }
}
