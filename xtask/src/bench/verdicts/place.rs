//! Where an incident or an event is, to see whether they belong together.

use super::ground_truth::{Truth, name};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// Hosts of each job.
pub type HostsOf = HashMap<String, BTreeSet<String>>;

/// Where a location, element or event is: its nodes, its ports with their other ends, and its jobs.
#[derive(Default)]
pub struct Place {
    nodes: BTreeSet<String>,
    ports: BTreeSet<(String, String)>,
    jobs: BTreeSet<String>,
}

impl Place {
    /// The place of a JSON location. Hosts of a job belong to it (`hosts_of`).
    pub fn of(truth: &Truth, location: &Value, hosts_of: &HostsOf) -> Self {
        let mut place = Self::default();
        place.add(truth, location, hosts_of);
        place
    }

    /// Adds another location.
    pub fn add(&mut self, truth: &Truth, location: &Value, hosts_of: &HostsOf) {
        let node = location.get("node").or_else(|| location.get("host")).map(name);
        let mut ports: Vec<(String, String)> = Vec::new();
        for (end, port) in [("a", "a_port"), ("b", "b_port")] {
            ports.extend(location.get(end).map(|node| (name(node), name(&location[port]))));
        }
        match (node, location.get("port")) {
            (Some(node), Some(port)) => ports.push((node, name(port))),
            (Some(node), None) => _ = self.nodes.insert(node),
            _ => {}
        }
        ports.extend(ports.clone().iter().filter_map(|port| truth.peers.get(port).cloned()));
        self.ports.extend(ports);
        if let Some(job) = location.get("job").map(name) {
            self.add_job(&job, hosts_of);
        }
    }

    /// Adds a job and its hosts.
    pub fn add_job(&mut self, job: &str, hosts_of: &HostsOf) {
        self.jobs.insert(job.to_owned());
        self.nodes.extend(hosts_of.get(job).into_iter().flatten().cloned());
    }

    /// Whether two places have a node, a port or a job in common.
    pub fn meets(&self, other: &Self) -> bool {
        let touches = |a: &Self, b: &Self| a.ports.iter().any(|(node, _)| b.nodes.contains(node));
        !self.ports.is_disjoint(&other.ports)
            || !self.nodes.is_disjoint(&other.nodes)
            || !self.jobs.is_disjoint(&other.jobs)
            || touches(self, other)
            || touches(other, self)
    }
}
