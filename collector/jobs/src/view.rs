//! One view of a job, merged from the records of all sources.

use crate::SECOND;
use crate::disagreements;
use crate::host_names::HostNames;
use crate::record::{HostAllocation, JobKey, JobRecord, Source};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A run of a job, merged from all sources.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Cluster name; empty in a single-cluster setup.
    pub cluster: String,
    /// Job id of the scheduler.
    pub id: String,
    /// Number of the run under this id, from 1: requeued jobs run again, and schedulers reuse ids.
    pub run: u32,
    /// Owner; `""` if unknown.
    pub user: String,
    /// Display name; `""` if unknown.
    pub name: String,
    /// Labels, such as partition, account and namespace.
    pub labels: BTreeMap<String, String>,
    /// Other ids that hosts have for it, such as the number of an array task and the UIDs of pods; sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// End, Unix nanoseconds; `None` while it runs.
    pub end_ns: Option<i64>,
    /// Allocation by the agent's name of the host.
    pub hosts: BTreeMap<String, HostAllocation>,
    /// Sources with a record of it.
    pub sources: Vec<Source>,
    /// Differences between sources, as text.
    pub disagreements: Vec<String>,
    /// Callers of the API that reported it: `caller/ann`, `host/gpu-01`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reported_by: Vec<String>,
}

impl Job {
    /// Key of the job.
    pub fn key(&self) -> JobKey {
        JobKey { cluster: self.cluster.clone(), id: self.id.clone() }
    }

    /// Merges records: the earliest start, the hosts of all, and of names the later source's.
    pub fn from_records(key: &JobKey, run: u32, records: &BTreeMap<Source, JobRecord>) -> Self {
        Self::with_host_names(key, run, (records, &BTreeSet::new()), &HostNames::default())
    }

    /// The same, with hosts that only claim the run, and the agents' names of hosts and devices.
    pub(crate) fn with_host_names(
        key: &JobKey,
        run: u32,
        (records, claims): (&BTreeMap<Source, JobRecord>, &BTreeSet<String>),
        agents: &HostNames,
    ) -> Self {
        let mut job = Self {
            cluster: key.cluster.clone(),
            id: key.id.clone(),
            run,
            user: String::new(),
            name: String::new(),
            labels: BTreeMap::new(),
            aliases: Vec::new(),
            start_ns: run_start(records),
            end_ns: run_end(records).map(|end| refined_end(end, records).unwrap_or(end)),
            hosts: BTreeMap::new(),
            sources: records.keys().copied().collect(),
            disagreements: Vec::new(),
            reported_by: Vec::new(),
        };
        let mut aliases = BTreeSet::new();
        for record in records.values() {
            record.user.iter().for_each(|user| job.user.clone_from(user));
            record.name.iter().for_each(|name| job.name.clone_from(name));
            job.labels.extend(record.labels.clone());
            aliases.extend(record.aliases.iter().filter(|alias| **alias != key.id).cloned());
            for (name, allocation) in &record.hosts {
                let host = agents.host(name);
                let merged = job.hosts.entry(host.to_owned()).or_default();
                for name in &allocation.devices {
                    let device = agents.device(host, name).unwrap_or(name);
                    if !merged.devices.iter().any(|d| d == device) {
                        merged.devices.push(device.to_owned());
                    }
                }
                let pids = &mut merged.pids;
                pids.extend(allocation.pids.iter().filter(|p| !pids.contains(p)).copied().collect::<Vec<_>>());
            }
        }
        job.aliases = aliases.into_iter().collect();
        job.disagreements = disagreements::disagreements(records, claims, agents);
        job
    }

    /// Whether this is its id or an alias.
    pub fn has_name(&self, name: &str) -> bool {
        self.id == name || self.aliases.binary_search_by(|alias| alias.as_str().cmp(name)).is_ok()
    }

    /// Whether it ran at this time, Unix nanoseconds.
    pub fn ran_at(&self, ns: i64) -> bool {
        self.start_ns <= ns && self.end_ns.is_none_or(|end| ns < end)
    }
}

/// Earliest start in Unix nanoseconds; 0 if unknown.
pub(crate) fn run_start(records: &BTreeMap<Source, JobRecord>) -> i64 {
    records.values().filter_map(|f| f.start_ns).min().unwrap_or(0)
}

/// Earliest end in Unix nanoseconds; `None` while it runs. Processes may vanish and return, so the agents' record ends
/// no job that a scheduler lists.
pub(crate) fn run_end(records: &BTreeMap<Source, JobRecord>) -> Option<i64> {
    let polled = records.keys().any(|source| source.is_polled());
    records.iter().filter(|(source, _)| !polled || **source != Source::Agent).filter_map(|(_, f)| f.end_ns).min()
}

/// A scheduler truncates the end to whole seconds. Returns the agents' last sighting if it lies within that second.
fn refined_end(end: i64, records: &BTreeMap<Source, JobRecord>) -> Option<i64> {
    let seen = records.get(&Source::Agent)?.end_ns?;
    (end % SECOND == 0 && (end..=end.saturating_add(SECOND)).contains(&seen)).then_some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_refine_the_last_second() {
        let end = |slurm: i64, agent: i64| {
            let ended = |end_ns| JobRecord { end_ns: Some(end_ns), ..JobRecord::default() };
            let records = BTreeMap::from([(Source::Agent, ended(agent)), (Source::Slurm, ended(slurm))]);
            Job::from_records(&JobKey { cluster: String::new(), id: "1".into() }, 1, &records).end_ns
        };
        assert_eq!(end(7_000_000_000, 7_600_000_000), Some(7_600_000_000));
        assert_eq!(
            end(7_000_000_000, 8_100_000_000),
            Some(7_000_000_000),
            "a leftover process does not extend the job"
        );
        assert_eq!(end(7_000_000_000, 6_900_000_000), Some(7_000_000_000));
        assert_eq!(end(7_000_000_001, 7_600_000_000), Some(7_000_000_001), "exact end time");
    }
}
