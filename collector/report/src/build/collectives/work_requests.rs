//! Slow and failed work requests that the library's log names, by the queue pairs that agents list.

use super::rank_network::rank_network;
use crate::build::ReportContext;
use crate::build::ranks::UsedPorts;
use crate::model::{RankNetwork, WorkRequest};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;

/// Maximum number of listed queue pairs.
const LISTED: usize = 16;

/// A queue pair by the host, device and number of one end.
type End = (String, String, String);

/// Both ends of each connection of the job that agents list.
struct QueuePairs {
    /// Labels by the local end.
    by_end: BTreeMap<End, Labels>,
    /// Local ends by their number and that of the peer.
    by_numbers: BTreeMap<[String; 2], Vec<End>>,
}

impl QueuePairs {
    fn read(context: &ReportContext<'_>) -> Result<Self, QueryError> {
        let mut all = Self { by_end: BTreeMap::new(), by_numbers: BTreeMap::new() };
        for (labels, _) in context.own_over_time("last_over_time", "fabric_queue_pair_info")? {
            let [host, device, local, remote] = ["host", "device", "local", "remote"].map(|n| labels.get(n).to_owned());
            let end = (host, device, local.clone());
            all.by_numbers.entry([local, remote]).or_default().push(end.clone());
            all.by_end.insert(end, labels);
        }
        Ok(all)
    }

    /// The end of this number on a host; on any of its devices if the log names none and only one has it.
    fn end(&self, host: &str, device: &str, local: &str) -> Option<&Labels> {
        if !device.is_empty() {
            return self.by_end.get(&(host.to_owned(), device.to_owned(), local.to_owned()));
        }
        let mut found = self.by_end.iter().filter(|((of, _, number), _)| of == host && number == local);
        found.next().filter(|_| found.next().is_none()).map(|(_, labels)| labels)
    }

    /// The far end: the only one with the reversed numbers on another host.
    fn peer(&self, host: &str, local: &str, remote: &str) -> Option<&Labels> {
        let ends = self.by_numbers.get(&[remote.to_owned(), local.to_owned()])?;
        let mut far = ends.iter().filter(|(of, ..)| of != host);
        far.next().filter(|_| far.next().is_none()).and_then(|end| self.by_end.get(end))
    }
}

/// Queue pairs of slow and failed work requests, failed ones first.
pub(super) fn work_requests(context: &ReportContext<'_>) -> Result<Vec<WorkRequest>, QueryError> {
    let named = context.own_over_time("last_over_time", "fabric_collective_queue_pair_info")?;
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let pairs = QueuePairs::read(context)?;
    let mut all: Vec<WorkRequest> = named.iter().map(|(labels, _)| of_log(context, &pairs, labels)).collect();
    all.sort_by(|a, b| a.kind.cmp(&b.kind).then_with(|| (&a.from, &a.local).cmp(&(&b.from, &b.local))));
    all.truncate(LISTED);
    Ok(all)
}

fn of_log(context: &ReportContext<'_>, pairs: &QueuePairs, labels: &Labels) -> WorkRequest {
    let [host, device, local, remote] = ["host", "rdma_device", "local", "remote"].map(|name| labels.get(name));
    let near = pairs.end(host, device, local);
    let remote = near.map(|near| near.get("remote")).filter(|number| !number.is_empty()).unwrap_or(remote);
    let far = pairs.peer(host, local, remote);
    let port = near.map(|near| (near.get("device").to_owned(), near.get("port").to_owned()));
    let (network, text) = match port {
        Some((device, port)) => {
            let whole = (context.source.start_ms, context.source.end_ms);
            rank_network(context, host, &UsedPorts::one(device, port), whole)
        }
        None => (RankNetwork::Unknown, format!("the agent of {host} does not list this queue pair")),
    };
    WorkRequest {
        kind: if labels.get("kind") == "failed_work_request" { "failed" } else { "slow" }.to_owned(),
        from: near.map_or_else(|| place(host, device), name_of),
        to: far.map_or_else(|| labels.get("peer").to_owned(), name_of),
        local: local.to_owned(),
        remote: remote.to_owned(),
        network,
        text,
    }
}

/// `gpu-03 mlx5_1/1`
fn name_of(end: &Labels) -> String {
    format!("{} {}/{}", end.get("host"), end.get("device"), end.get("port"))
}

fn place(host: &str, device: &str) -> String {
    if device.is_empty() { host.to_owned() } else { format!("{host} {device}") }
}
