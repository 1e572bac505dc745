//! Ports that a rank uses: those with queue pairs of its process. Agents tell the process of each rank of their host, and the process
//! of each queue pair.

use super::over_time;
use crate::build::ReportContext;
use crate::build::ports::Port;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet};

/// Device and port.
type PortId = (String, String);

/// Ports of its host that a rank uses; none if they are unknown.
#[derive(Default)]
pub(super) struct UsedPorts(BTreeSet<PortId>);

impl UsedPorts {
    /// Whether nothing tells which ports it uses.
    pub fn are_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a port of its host is one of them.
    pub fn has(&self, port: &Port) -> bool {
        self.0.contains(&(port.device.clone(), port.port.clone()))
    }
}

/// Ports of ranks.
#[derive(Default)]
pub(super) struct RankPorts {
    /// Processes by host, communicator and rank.
    processes: BTreeMap<(String, String, String), BTreeSet<String>>,
    /// Ports by host and process.
    ports: BTreeMap<(String, String), BTreeSet<PortId>>,
}

impl RankPorts {
    /// Reads both.
    pub fn read(context: &ReportContext<'_>) -> Result<Self, QueryError> {
        let mut all = Self::default();
        for (labels, _) in over_time(context, "last_over_time", "fabric_collective_rank_info")? {
            let [host, communicator, rank, pid] =
                ["host", "communicator", "rank", "pid"].map(|name| labels.get(name).to_owned());
            all.processes.entry((host, communicator, rank)).or_default().insert(pid);
        }
        if all.processes.is_empty() {
            return Ok(all);
        }
        for (labels, _) in over_time(context, "last_over_time", "fabric_queue_pair_info")? {
            let [host, pid, device, port] = ["host", "pid", "device", "port"].map(|name| labels.get(name).to_owned());
            all.ports.entry((host, pid)).or_default().insert((device, port));
        }
        Ok(all)
    }

    /// Ports of a rank, by its communicators and its number in each.
    pub fn of(&self, host: &str, ranks: &BTreeSet<(String, String)>) -> UsedPorts {
        let process = |(communicator, rank): &(String, String)| {
            self.processes.get(&(host.to_owned(), communicator.clone(), rank.clone()))
        };
        let pids = ranks.iter().filter_map(process).flatten();
        UsedPorts(pids.filter_map(|pid| self.ports.get(&(host.to_owned(), pid.clone()))).flatten().cloned().collect())
    }
}
