//! Ranks of the job's hosts, their GPUs and the ports that they use: those with queue pairs of their process. Agents tell the process
//! and GPU of each rank of their host, and the process of each queue pair.

use super::ports::Port;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet};

/// Device and port.
type PortId = (String, String);

/// Ports of its host that a rank uses; none if they are unknown.
#[derive(Default)]
pub(super) struct UsedPorts(BTreeSet<PortId>);

impl UsedPorts {
    /// A single port.
    pub fn one(device: String, port: String) -> Self {
        Self(BTreeSet::from([(device, port)]))
    }

    /// Whether nothing tells which ports it uses.
    pub fn are_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a port of its host is one of them.
    pub fn has(&self, port: &Port) -> bool {
        self.0.contains(&(port.device.clone(), port.port.clone()))
    }
}

/// A rank as the agent of its host tells it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub host: String,
    communicator: String,
    pub rank: String,
    pub pid: String,
    /// Index of the GPU as its driver counts; empty if it is not known.
    pub gpu: String,
}

/// Ranks and ports.
#[derive(Default)]
pub(super) struct Ranks {
    ranks: BTreeSet<Rank>,
    /// Ports by host and process.
    ports: BTreeMap<(String, String), BTreeSet<PortId>>,
}

impl Ranks {
    /// Puts both together from the job's own series of a metric, as `own` reads them.
    pub fn read(own: impl Fn(&str) -> Result<Vec<(Labels, f64)>, QueryError>) -> Result<Self, QueryError> {
        let mut all = Self::default();
        for (labels, _) in own("fabric_collective_rank_info")? {
            let label = |name: &str| labels.get(name).to_owned();
            let [host, communicator, rank, pid, gpu] = ["host", "communicator", "rank", "pid", "gpu"].map(label);
            all.ranks.insert(Rank { host, communicator, rank, pid, gpu });
        }
        if all.ranks.is_empty() {
            return Ok(all);
        }
        for (labels, _) in own("fabric_queue_pair_info")? {
            let [host, pid, device, port] = ["host", "pid", "device", "port"].map(|name| labels.get(name).to_owned());
            all.ports.entry((host, pid)).or_default().insert((device, port));
        }
        Ok(all)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.iter()
    }

    /// Ports of a rank, by its communicators and its number in each.
    pub fn ports(&self, host: &str, ranks: &BTreeSet<(String, String)>) -> UsedPorts {
        let is_one = |r: &&Rank| r.host == host && ranks.contains(&(r.communicator.clone(), r.rank.clone()));
        UsedPorts(self.iter().filter(is_one).flat_map(|rank| self.ports_of_process(rank)).cloned().collect())
    }

    /// Devices of the ports of a rank's process.
    pub fn devices(&self, rank: &Rank) -> impl Iterator<Item = &str> {
        self.ports_of_process(rank).map(|(device, _)| device.as_str())
    }

    fn ports_of_process(&self, rank: &Rank) -> impl Iterator<Item = &PortId> {
        self.ports.get(&(rank.host.clone(), rank.pid.clone())).into_iter().flatten()
    }
}
