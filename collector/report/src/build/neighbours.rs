//! Jobs that ran at the same time on the same devices, hosts or leaf switches.

use super::{Leaves, ReportContext};
use crate::model::{Neighbour, Shares};
use fabriclens_jobs::{Job, overlap_ns};
use fabriclens_promql::QueryError;
use std::collections::HashSet;

/// Maximum number of listed neighbors.
const LISTED: usize = 50;

/// Neighbors among the `concurrent` jobs, which are in the order of the occupancy after the job itself.
pub(super) fn neighbours(
    context: &ReportContext<'_>,
    concurrent: &[&Job],
    mut leaves: Leaves,
    now_ns: i64,
) -> Result<Vec<Neighbour>, QueryError> {
    if concurrent
        .iter()
        .any(|other| other.hosts.keys().chain(context.job.hosts.keys()).any(|h| !leaves.contains_key(h)))
    {
        let known: HashSet<String> = leaves.keys().cloned().collect();
        // All hosts are read: a neighbor on the same leaf runs on other hosts.
        for s in context.source.ask("fabric_port_info{switch!=\"\"}", context.source.end_ms)? {
            if !known.contains(s.labels.get("host")) {
                leaves.entry(s.labels.get("host").into()).or_default().insert(s.labels.get("switch").into());
            }
        }
    }
    let switches = |job: &Job| job.hosts.keys().filter_map(|h| leaves.get(h)).flatten().collect::<HashSet<_>>();
    let own = switches(context.job);
    let mut all: Vec<Neighbour> = Vec::new();
    for (n, other) in concurrent.iter().enumerate() {
        let hosts: Vec<&String> = other.hosts.keys().filter(|h| context.job.hosts.contains_key(*h)).collect();
        let one_device = |host: &str| {
            let (mine, theirs) = (&context.job.hosts[host].devices, &other.hosts[host].devices);
            mine.is_empty() || theirs.is_empty() || mine.iter().any(|d| theirs.contains(d))
        };
        debug_assert!(hosts.iter().all(|h| context.on.on_host(h).any(|job| job == n + 1)));
        let on_devices = hosts.iter().filter(|h| one_device(h)).count();
        let on_leaf =
            || other.hosts.keys().filter(|h| leaves.get(*h).is_some_and(|l| l.iter().any(|s| own.contains(s)))).count();
        let (shares, hosts) = match (on_devices, hosts.len()) {
            (0, 0) => (Shares::Leaf, on_leaf()),
            (0, hosts) => (Shares::Hosts, hosts),
            (hosts, _) => (Shares::Devices, hosts),
        };
        if hosts > 0 {
            all.push(Neighbour {
                cluster: other.cluster.clone(),
                id: other.id.clone(),
                user: other.user.clone(),
                name: other.name.clone(),
                shares,
                hosts,
                seconds: (overlap_ns(context.job, other, now_ns) / 1_000_000_000).unsigned_abs(),
            });
        }
    }
    all.sort_by(|a, b| a.shares.cmp(&b.shares).then(b.seconds.cmp(&a.seconds)).then_with(|| a.id.cmp(&b.id)));
    all.truncate(LISTED);
    Ok(all)
}
