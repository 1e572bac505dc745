//! One view of a job from all that is said of it.

use crate::agents::Agents;
use crate::differ;
use crate::facts::{Facts, Key, Place, Source};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const SECOND_NS: i64 = 1_000_000_000;

/// A run of a job, as far as it is known.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// `""` where there is one cluster.
    pub cluster: String,
    /// The scheduler's.
    pub id: String,
    /// Which run under this id, from 1: a requeued job runs again, and schedulers give numbers again.
    pub run: u32,
    /// Whose; `""` if nobody says.
    pub user: String,
    /// What its owner calls it; `""` if nobody says.
    pub name: String,
    /// Partition, account, namespace and the like.
    pub labels: BTreeMap<String, String>,
    /// Other names that hosts know it by, such as the number of an array's task and the UIDs of pods; sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Unix nanoseconds.
    pub start_ns: i64,
    /// Unix nanoseconds; `None`: it runs.
    pub end_ns: Option<i64>,
    /// By host.
    pub hosts: BTreeMap<String, Place>,
    /// Who said something of it.
    pub sources: Vec<Source>,
    /// Where they differ, in words.
    pub disagreements: Vec<String>,
}

impl Job {
    /// Its name in all sources.
    pub fn key(&self) -> Key {
        Key { cluster: self.cluster.clone(), id: self.id.clone() }
    }

    /// Of what was said; the earliest start counts, the hosts of all, and of names the later source's.
    pub fn of(key: &Key, run: u32, said: &BTreeMap<Source, Facts>) -> Self {
        Self::among(key, run, said, &Agents::default())
    }

    /// The same, with hosts and devices as these agents call them.
    pub(crate) fn among(key: &Key, run: u32, said: &BTreeMap<Source, Facts>, agents: &Agents) -> Self {
        let mut job = Self {
            cluster: key.cluster.clone(),
            id: key.id.clone(),
            run,
            user: String::new(),
            name: String::new(),
            labels: BTreeMap::new(),
            aliases: Vec::new(),
            start_ns: start_of(said),
            end_ns: end_of(said).map(|end| last_seen_in(end, said).unwrap_or(end)),
            hosts: BTreeMap::new(),
            sources: said.keys().copied().collect(),
            disagreements: Vec::new(),
        };
        let mut aliases = BTreeSet::new();
        for facts in said.values() {
            facts.user.iter().for_each(|user| job.user.clone_from(user));
            facts.name.iter().for_each(|name| job.name.clone_from(name));
            job.labels.extend(facts.labels.clone());
            aliases.extend(facts.aliases.iter().filter(|alias| **alias != key.id).cloned());
            for (told, place) in &facts.hosts {
                let host = agents.host(told);
                let there = job.hosts.entry(host.to_owned()).or_default();
                for told in &place.devices {
                    let device = agents.device(host, told).unwrap_or(told);
                    if !there.devices.iter().any(|d| d == device) {
                        there.devices.push(device.to_owned());
                    }
                }
                let pids = &mut there.pids;
                pids.extend(place.pids.iter().filter(|p| !pids.contains(p)).copied().collect::<Vec<_>>());
            }
        }
        job.aliases = aliases.into_iter().collect();
        job.disagreements = differ::disagreements(said, agents);
        job
    }

    /// Whether it has this name, or hosts know it by it.
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.aliases.binary_search_by(|alias| alias.as_str().cmp(name)).is_ok()
    }

    /// Whether it ran at a time, Unix nanoseconds.
    pub fn ran_at(&self, ns: i64) -> bool {
        self.start_ns <= ns && self.end_ns.is_none_or(|end| ns < end)
    }
}

/// When a run began, Unix nanoseconds.
pub(crate) fn start_of(said: &BTreeMap<Source, Facts>) -> i64 {
    said.values().filter_map(|f| f.start_ns).min().unwrap_or(0)
}

/// When a run was over, Unix nanoseconds: the earliest end; `None`: it runs. Processes may be gone for a while and come
/// back, so what agents see ends no job that a scheduler keeps.
pub(crate) fn end_of(said: &BTreeMap<Source, Facts>) -> Option<i64> {
    let asked = said.keys().any(|source| source.is_asked());
    said.iter().filter(|(source, _)| !asked || **source != Source::Agent).filter_map(|(_, f)| f.end_ns).min()
}

/// A scheduler cuts an end to whole seconds: when agents last saw the job, if that was in the second that it began with.
fn last_seen_in(end: i64, said: &BTreeMap<Source, Facts>) -> Option<i64> {
    let seen = said.get(&Source::Agent)?.end_ns?;
    (end % SECOND_NS == 0 && (end..=end.saturating_add(SECOND_NS)).contains(&seen)).then_some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_of_a_job_is_its_own_where_agents_saw_it() {
        let end = |slurm: i64, agent: i64| {
            let ended = |end_ns| Facts { end_ns: Some(end_ns), ..Facts::default() };
            let said = BTreeMap::from([(Source::Agent, ended(agent)), (Source::Slurm, ended(slurm))]);
            Job::of(&Key { cluster: String::new(), id: "1".into() }, 1, &said).end_ns
        };
        assert_eq!(end(7_000_000_000, 7_600_000_000), Some(7_600_000_000));
        assert_eq!(end(7_000_000_000, 8_100_000_000), Some(7_000_000_000), "a process that stayed behind is no job");
        assert_eq!(end(7_000_000_000, 6_900_000_000), Some(7_000_000_000));
        assert_eq!(end(7_000_000_001, 7_600_000_000), Some(7_000_000_001), "told to the nanosecond, and so believed");
    }
}
