//! A recorded fabric: `topology.json`, `jobs.json` and `ports.csv.gz`. Its samples become the series that agents and
//! switches would have exported, so that the same queries find them.

mod columns;
mod error;
mod files;

pub use error::RecordingError;

use crate::model::fabric::{Fabric, Job};
use crate::model::ports::Ports;
use crate::model::topology::{HostNames, LinkEnd, Role, TopologySource, merge, port_name};
use fabriclens_model::Memory;
use std::path::Path;

/// How a recording is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadAs {
    /// Factor for times and cumulative counters, so that rates and shares stay the same.
    pub stretch: i64,
    /// Skips switch ports, as if no switch was monitored.
    pub hosts_only: bool,
}

/// A recording in memory.
pub struct Recording {
    /// Nodes and cables as its files describe them.
    pub described: Vec<TopologySource>,
    /// Topology and ports; without jobs.
    pub fabric: Fabric,
    /// Jobs, each with its end (Unix ns).
    jobs: Vec<(Job, i64)>,
    /// Samples.
    pub memory: Memory,
    /// Instants with samples, Unix milliseconds, ascending.
    pub ticks_ms: Vec<i64>,
}

impl Recording {
    /// Reads a directory.
    ///
    /// # Errors
    /// [`RecordingError`] names the file and what is wrong.
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
            // Ports without a known cable are kept too.
            if let Some(node) = topology.node(labels.get("host")) {
                ports.add(&LinkEnd { node, port: port_name(labels) });
            }
        }
        let job = |job: files::RecordedJob| {
            let nodes = job.hosts.iter().filter_map(|h| topology.node(h));
            let ports = nodes.flat_map(|n| ports.of_node(n).iter().copied()).collect();
            (Job { id: job.id, ports, since_ns: job.start_ns }, job.end_ns)
        };
        let jobs = files::jobs(dir, how.stretch)?.into_iter().map(job).collect();
        Ok(Self { described, fabric: Fabric::new(topology, ports, Vec::new()), jobs, memory, ticks_ms })
    }

    /// Jobs that run at an instant (Unix ns).
    pub(super) fn running(&self, time_ns: i64) -> impl Iterator<Item = &Job> {
        let runs = move |(job, end_ns): &&(Job, i64)| (job.since_ns..*end_ns).contains(&time_ns);
        self.jobs.iter().filter(runs).map(|(job, _)| job)
    }
}
