//! Slow and failed work requests that the library's log names, by the queue pairs that agents list.

use super::rank_network::rank_network;
use crate::build::ReportContext;
use crate::build::ranks::UsedPorts;
use crate::model::{RankNetwork, WorkRequest};
use fabriclens_correlate::QueuePairIndex;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;

/// Maximum number of listed queue pairs.
const LISTED: usize = 16;

/// Queue pairs of slow and failed work requests, failed ones first.
pub(super) fn work_requests(context: &ReportContext<'_>) -> Result<Vec<WorkRequest>, QueryError> {
    let labels = |metric| -> Result<Vec<Labels>, QueryError> {
        let series = context.own_over_time("last_over_time", metric)?;
        Ok(series.into_iter().map(|(labels, _)| labels).collect())
    };
    let mut named = labels("fabric_collective_queue_pair_info")?;
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let order = |labels: &Labels| ["kind", "host", "rdma_device", "local"].map(|name| labels.get(name).to_owned());
    named.sort_by_cached_key(order);
    named.truncate(LISTED);
    let pairs = labels("fabric_queue_pair_info")?;
    let ends = QueuePairIndex::of(&pairs);
    Ok(named.iter().map(|one| of_log(context, one, near_end(&pairs, one), &ends)).collect())
}

/// The listed queue pair that the log means; on any device of the host if the log names none and only one device has the number.
fn near_end<'a>(pairs: &'a [Labels], named: &Labels) -> Option<&'a Labels> {
    let [host, device, local] = ["host", "rdma_device", "local"].map(|name| named.get(name));
    let is_meant = |pair: &&Labels| {
        pair.get("host") == host && pair.get("local") == local && (device.is_empty() || pair.get("device") == device)
    };
    only(pairs.iter().filter(is_meant))
}

/// The only one of these ends, if all are of one port.
fn only<'a>(ends: impl Iterator<Item = &'a Labels>) -> Option<&'a Labels> {
    let mut ends = ends;
    let first = ends.next()?;
    ends.all(|end| name_of(end) == name_of(first)).then_some(first)
}

fn of_log(
    context: &ReportContext<'_>,
    named: &Labels,
    near: Option<&Labels>,
    ends: &QueuePairIndex<'_>,
) -> WorkRequest {
    let [host, device, local] = ["host", "rdma_device", "local"].map(|name| named.get(name));
    // The log may lack the number of the peer.
    let numbers = near.unwrap_or(named);
    let far = only(ends.other(numbers).iter().copied().filter(|end| end.get("host") != host));
    let (network, text) = match near {
        Some(near) => {
            let port = UsedPorts::one(near.get("device").to_owned(), near.get("port").to_owned());
            rank_network(context, host, &port, (context.source.start_ms, context.source.end_ms))
        }
        None => (RankNetwork::Unknown, format!("the agent of {host} does not list this queue pair")),
    };
    WorkRequest {
        kind: if named.get("kind") == "failed_work_request" { "failed" } else { "slow" }.to_owned(),
        from: near.map_or_else(|| place(host, device), name_of),
        to: far.map_or_else(|| named.get("peer").to_owned(), name_of),
        local: local.to_owned(),
        remote: numbers.get("remote").to_owned(),
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
