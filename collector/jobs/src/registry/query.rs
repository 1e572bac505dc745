//! Queries of the registry: one job by key or name, all runs by filter.

use super::Registry;
use super::error::RegistryError;
use super::runs::{Jobs, Run};
use crate::host_names::HostNames;
use crate::record::{JobKey, JobRecord};
use crate::view::{Job, run_end, run_start};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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
    /// Sender that reported it: `caller/ann`, `host/gpu-01`.
    pub sender: Option<String>,
}

impl Filter {
    /// Decides by the records; the view of a large job is expensive.
    fn matches(&self, key: &JobKey, run: &Run, names: &HostNames) -> bool {
        let end = run_end(&run.records);
        let user = || run.records.values().rev().find_map(|record| record.user.as_deref()).unwrap_or_default();
        let on = |host: &String| {
            let mut hosts = run.records.values().flat_map(|record| record.hosts.keys());
            hosts.any(|name| names.is_same(name, host))
        };
        self.running.is_none_or(|running| running == end.is_none())
            && self.from_ns.is_none_or(|from| end.is_none_or(|end| end >= from))
            && self.to_ns.is_none_or(|to| run_start(&run.records) <= to)
            && self.cluster.as_ref().is_none_or(|cluster| *cluster == key.cluster)
            && self.user.as_ref().is_none_or(|of| *of == user())
            && self.sender.as_ref().is_none_or(|of| run.charges().iter().any(|(sender, _)| sender == of))
            && self.host.as_ref().is_none_or(on)
    }
}

/// Position in the list of runs: the last one that a page has. As text it is opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    start_ns: i64,
    key: JobKey,
    run: u32,
}

impl Cursor {
    fn rank(&self) -> (Reverse<i64>, &str, &str, Reverse<u32>) {
        (Reverse(self.start_ns), &self.key.id, &self.key.cluster, Reverse(self.run))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start_ns, key, run } = self;
        write!(f, "{start_ns}:{run}:{}:{}{}", key.cluster.len(), key.cluster, key.id)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(4, ':');
        let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok()).ok_or(());
        let (start_ns, run, length) = (number()?, number()?, number()?);
        let names = parts.next().ok_or(())?;
        let (cluster, id) = usize::try_from(length).ok().and_then(|at| names.split_at_checked(at)).ok_or(())?;
        let key = JobKey { cluster: cluster.to_owned(), id: id.to_owned() };
        Ok(Self { start_ns, key, run: u32::try_from(run).map_err(|_| ())? })
    }
}

/// A part of the list of runs.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Runs, the latest start first.
    pub jobs: Vec<Job>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<Cursor>,
    /// Estimated memory of the runs, bytes.
    pub bytes: usize,
}

/// A run that has ended, without its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Key of the job.
    pub key: JobKey,
    /// Number of the run.
    pub run: u32,
    /// Owner; `""` if unknown.
    pub user: String,
    /// Display name; `""` if unknown.
    pub name: String,
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// End, Unix nanoseconds.
    pub end_ns: i64,
}

impl Registry {
    /// Runs that have ended and are wanted, the earliest end first: at most `most`. `wanted` sees start and end, Unix nanoseconds. Only
    /// records are read, which is cheap for large jobs.
    pub fn ended_runs(&self, most: usize, wanted: impl Fn(&JobKey, u32, [i64; 2]) -> bool) -> Vec<EndedRun> {
        let jobs = self.jobs();
        let all = jobs.runs.iter().flat_map(|(key, runs)| runs.iter().map(move |run| (key, run)));
        let ended = all.filter_map(|(key, run)| Some((run_end(&run.records)?, run_start(&run.records), key, run)));
        let mut found: Vec<_> =
            ended.filter(|(end, start, key, run)| wanted(key, run.number, [*start, *end])).collect();
        found.sort_unstable_by(|a, b| (a.0, a.2, a.3.number).cmp(&(b.0, b.2, b.3.number)));
        let text = |run: &Run, of: fn(&JobRecord) -> Option<&String>| {
            run.records.values().rev().find_map(of).cloned().unwrap_or_default()
        };
        let ended = |(end_ns, start_ns, key, run): (i64, i64, &JobKey, &Run)| EndedRun {
            key: key.clone(),
            run: run.number,
            user: text(run, |record| record.user.as_ref()),
            name: text(run, |record| record.name.as_ref()),
            start_ns,
            end_ns,
        };
        found.into_iter().take(most).map(ended).collect()
    }

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
        self.page(filter, None, usize::MAX, usize::MAX).jobs
    }

    /// The runs that match and follow `after`, the latest start first: at most `most`, which take about `bytes` of memory,
    /// but at least one.
    pub fn page(&self, filter: &Filter, after: Option<&Cursor>, most: usize, bytes: usize) -> Page {
        let (jobs, names) = (self.jobs(), self.host_names());
        let all = jobs.runs.iter().flat_map(|(key, runs)| runs.iter().map(move |run| (key, run)));
        let all = all.filter(|(key, run)| filter.matches(key, run, &names));
        let mut found: Vec<(Cursor, &Run)> = all
            .map(|(key, run)| (Cursor { start_ns: run_start(&run.records), key: key.clone(), run: run.number }, run))
            .filter(|(at, _)| after.is_none_or(|after| at.rank() > after.rank()))
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.rank().cmp(&b.rank()));
        let mut page = Page::default();
        for (n, (at, run)) in found.iter().enumerate() {
            let taken = page.bytes.saturating_add(run.records.values().map(JobRecord::weight).sum());
            if n > 0 && (n >= most || taken > bytes) {
                page.next = Some(found[n - 1].0.clone());
                break;
            }
            page.bytes = taken;
            page.jobs.push(self.view(&at.key, run));
        }
        page
    }
}
