//! Queries of the registry: one job by key or name, all runs by filter.

use super::Registry;
use super::error::RegistryError;
use super::runs::Jobs;
use crate::record::JobKey;
use crate::view::{Job, run_end};
use std::collections::BTreeSet;

/// Selects runs; `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Runs that had not ended at this time, Unix nanoseconds.
    pub from_ns: Option<i64>,
    /// Runs that had begun at this time, Unix nanoseconds.
    pub to_ns: Option<i64>,
    /// Running, or ended.
    pub running: Option<bool>,
    /// User name.
    pub user: Option<String>,
    /// Host name, as its agent has it.
    pub host: Option<String>,
    /// Cluster name.
    pub cluster: Option<String>,
}

impl Filter {
    /// Tests everything except `running`, which needs no view of the job.
    fn matches(&self, job: &Job) -> bool {
        self.from_ns.is_none_or(|from| job.end_ns.is_none_or(|end| end >= from))
            && self.to_ns.is_none_or(|to| job.start_ns <= to)
            && self.user.as_ref().is_none_or(|user| *user == job.user)
            && self.host.as_ref().is_none_or(|host| job.hosts.contains_key(host))
            && self.cluster.as_ref().is_none_or(|cluster| *cluster == job.cluster)
    }
}

impl Registry {
    /// Parses `id` or `cluster/id`. Ids may contain slashes too, so `cluster/id` is taken only if that job is known.
    pub fn parse_key(&self, name: &str) -> JobKey {
        let bare = JobKey { cluster: String::new(), id: name.to_owned() };
        let split = |(at, _)| JobKey { cluster: name[..at].to_owned(), id: name[at + 1..].to_owned() };
        let mut candidates = std::iter::once(bare.clone()).chain(name.match_indices('/').map(split));
        candidates.find(|key| self.get(key).is_some()).unwrap_or(bare)
    }

    /// The last run of a job. The id may be an alias: of several jobs of the cluster with that alias, the one that started
    /// last is returned.
    pub fn get(&self, key: &JobKey) -> Option<Job> {
        let jobs = self.jobs();
        let of_cluster = || jobs.with_name(&key.id).filter(|k| k.cluster == key.cluster);
        let view = |k: &JobKey| jobs.last(k).map(|run| self.view(k, run));
        view(key).or_else(|| of_cluster().filter_map(view).max_by_key(|job| job.start_ns))
    }

    /// As [`Registry::get`], for requests by people: without a cluster it finds the job in the only cluster that has it,
    /// because a scheduler names its cluster even if there is just one.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], [`RegistryError::Ambiguous`].
    pub fn find(&self, key: &JobKey) -> Result<Job, RegistryError> {
        if let Some(job) = self.get(key) {
            return Ok(job);
        }
        let with_id = |jobs: &Jobs| jobs.with_name(&key.id).map(|known| known.cluster.clone()).collect::<BTreeSet<_>>();
        let clusters: Vec<String> = match key.cluster.is_empty() {
            true => with_id(&self.jobs()).into_iter().collect(),
            false => Vec::new(),
        };
        match clusters.as_slice() {
            [] => Err(RegistryError::Unknown(key.clone())),
            [one] => {
                let of_it = JobKey { cluster: one.clone(), id: key.id.clone() };
                self.get(&of_it).ok_or_else(|| RegistryError::Unknown(key.clone()))
            }
            _ => Err(RegistryError::Ambiguous { id: key.id.clone(), clusters }),
        }
    }

    /// All runs that match, the latest start first.
    pub fn list(&self, filter: &Filter) -> Vec<Job> {
        let jobs = self.jobs();
        let all = jobs.runs.iter().flat_map(|(key, runs)| runs.iter().map(move |r| (key, r)));
        // The view of a large job is expensive. Most stored runs have ended, and most requests are for running ones.
        let all = all.filter(|(_, r)| filter.running.is_none_or(|running| running == run_end(&r.records).is_none()));
        let mut found: Vec<Job> = all.map(|(key, r)| self.view(key, r)).filter(|job| filter.matches(job)).collect();
        drop(jobs);
        found.sort_by(|a, b| b.start_ns.cmp(&a.start_ns).then_with(|| a.id.cmp(&b.id)));
        found
    }
}
