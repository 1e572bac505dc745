//! All jobs that are known, durable before the answer. Small next to samples, and precious: it is the only copy.

use crate::agents::Agents;
use crate::differ::SAME_NS;
use crate::facts::{Facts, FactsError, Key, Source};
use crate::view::{Job, end_of, start_of};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs of one job that are kept; a job that is requeued for ever must not fill the registry.
const RUNS: usize = 100;

/// Why something is not kept or not found.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// What was said is not taken.
    #[error("job {key}: {source}")]
    Refused {
        /// The job.
        key: Key,
        /// Why.
        source: FactsError,
    },
    /// There is no such job.
    #[error("there is no job {0}; GET /api/v1/jobs lists those that are known")]
    Unknown(Key),
    /// No cluster was named, and several have such a job.
    #[error("clusters {} each have a job {id}; name one (cluster)", .clusters.join(" and "))]
    Several {
        /// What was asked for.
        id: String,
        /// Which have it.
        clusters: Vec<String>,
    },
    /// The start lies in a run that is over.
    #[error("job {key} has a run that ended after this start; PATCH corrects that run, POST begins another")]
    Overlap {
        /// The job.
        key: Key,
    },
    /// The disk.
    #[error("the registry of jobs in the data directory cannot be used: {0}; check the disk and the permissions")]
    Disk(String),
}

/// Which jobs are asked for; `None` and empty is any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// That ran at some time from here on, Unix nanoseconds …
    pub from_ns: Option<i64>,
    /// … to here.
    pub to_ns: Option<i64>,
    /// Running, or over.
    pub running: Option<bool>,
    /// Of one user.
    pub user: Option<String>,
    /// On one host.
    pub host: Option<String>,
    /// Of one cluster.
    pub cluster: Option<String>,
}

impl Filter {
    /// All but `running`, which can be told without a view.
    fn fits(&self, job: &Job) -> bool {
        self.from_ns.is_none_or(|from| job.end_ns.is_none_or(|end| end >= from))
            && self.to_ns.is_none_or(|to| job.start_ns <= to)
            && self.user.as_ref().is_none_or(|user| *user == job.user)
            && self.host.as_ref().is_none_or(|host| job.hosts.contains_key(host))
            && self.cluster.as_ref().is_none_or(|cluster| *cluster == job.cluster)
    }
}

/// A run: what each source said of it.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Run {
    pub(crate) number: u32,
    pub(crate) said: BTreeMap<Source, Facts>,
}

/// All jobs, and where to find them.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Runs of each job, oldest first.
    pub(crate) runs: BTreeMap<Key, Vec<Run>>,
    /// Jobs by each id and each other name of theirs.
    names: HashMap<String, BTreeSet<Key>>,
}

impl Jobs {
    pub(crate) fn last(&self, key: &Key) -> Option<&Run> {
        self.runs.get(key)?.last()
    }

    /// Jobs that have or had this name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &Key> {
        self.names.get(name).into_iter().flatten()
    }

    fn learn(&mut self, key: &Key, run: &Run) {
        let aliases = run.said.values().flat_map(|f| &f.aliases);
        for name in std::iter::once(&key.id).chain(aliases) {
            if let Some(keys) = self.names.get_mut(name) {
                keys.insert(key.clone());
            } else {
                self.names.insert(name.clone(), [key.clone()].into());
            }
        }
    }

    /// Keeps the runs that fit.
    fn retain(&mut self, keep: impl Fn(&Run) -> bool) {
        self.runs.retain(|_, runs| {
            runs.retain(&keep);
            !runs.is_empty()
        });
        self.names.clear();
        let all = std::mem::take(&mut self.runs);
        all.iter().for_each(|(key, runs)| runs.iter().for_each(|run| self.learn(key, run)));
        self.runs = all;
    }
}

/// See the module.
pub struct Registry {
    tree: sled::Tree,
    jobs: Mutex<Jobs>,
    agents: RwLock<Arc<Agents>>,
    /// Counts what changes.
    revision: AtomicU64,
}

impl Registry {
    /// In a table of a database. A record that cannot be read is told, left alone and not shown.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn open(tree: sled::Tree) -> Result<Self, RegistryError> {
        let mut jobs = Jobs::default();
        for entry in &tree {
            let (key, value) = entry.map_err(disk)?;
            match (decode_key(&key), serde_json::from_slice::<Run>(&value)) {
                (Some(key), Ok(run)) => {
                    jobs.learn(&key, &run);
                    jobs.runs.entry(key).or_default().push(run);
                }
                (_, read) => {
                    let error = read.err().map(|e| e.to_string()).unwrap_or_default();
                    tracing::error!(error, "a job's record cannot be read and is left out");
                }
            }
        }
        Ok(Self { tree, jobs: Mutex::new(jobs), agents: RwLock::default(), revision: AtomicU64::new(0) })
    }

    /// What agents call their hosts and devices, as it was set last.
    pub fn agents(&self) -> Arc<Agents> {
        self.agents.read().clone()
    }

    /// From now on jobs are shown with these names.
    pub fn set_agents(&self, agents: Agents) {
        let mut known = self.agents.write();
        if **known != agents {
            *known = Arc::new(agents);
            self.revision.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn jobs(&self) -> parking_lot::MutexGuard<'_, Jobs> {
        self.jobs.lock()
    }

    /// A job runs, says a source: of the run that goes on, or of a new one. Said again it changes nothing.
    ///
    /// # Errors
    /// [`RegistryError`]; then nothing is changed.
    pub fn begin(&self, source: Source, key: &Key, facts: Facts, now_ns: i64) -> Result<Job, RegistryError> {
        self.check(key, &facts)?;
        let mut jobs = self.jobs.lock();
        let key = &self.meant(&jobs, source, key, facts.start_ns.unwrap_or(now_ns));
        let job = self.begin_run(&mut jobs, source, key, facts, now_ns)?;
        Ok(self.join(&mut jobs, key)?.unwrap_or(job))
    }

    fn begin_run(
        &self,
        jobs: &mut Jobs,
        source: Source,
        key: &Key,
        mut facts: Facts,
        now_ns: i64,
    ) -> Result<Job, RegistryError> {
        let Some(last) = jobs.last(key) else {
            facts.start_ns.get_or_insert(now_ns);
            return self.put(jobs, key, Run { number: 1, said: [(source, facts)].into() });
        };
        let (number, ended) = (last.number, end_of(&last.said));
        let before = last.said.get(&source);
        let told = before.and_then(|f| f.start_ns);
        // Pods never run again, and the first ones of a job are forgotten first.
        let pods = source == Source::Kubernetes && before.is_some_and(|f| share(&f.aliases, &facts.aliases));
        if pods {
            facts.start_ns = told;
        }
        let same = match (facts.start_ns, ended) {
            (None, end) => end.is_none(),
            (Some(start), _) if told == Some(start) => true,
            (Some(start), Some(end)) if start < end && told.is_some() => {
                return Err(RegistryError::Overlap { key: key.clone() });
            }
            (Some(start), Some(end)) => start < end,
            (Some(start), None) => told.is_none_or(|told| start < told),
        };
        if same {
            let mut run = last.clone();
            let said = run.said.entry(source).or_default();
            if source.is_asked() {
                // It was missed by mistake, or tries again.
                said.end_ns = None;
            }
            said.amend(facts);
            return self.put(jobs, key, run);
        }
        let start = *facts.start_ns.get_or_insert(now_ns);
        if ended.is_none() {
            // Nobody told the end of the run before, but this one could not begin ahead of it.
            let mut over = last.clone();
            over.said.entry(source).or_default().end_ns = Some(start);
            self.put(jobs, key, over)?;
        }
        self.put(jobs, key, Run { number: number + 1, said: [(source, facts)].into() })
    }

    /// Corrects the last run.
    ///
    /// # Errors
    /// [`RegistryError`]; then nothing is changed.
    pub fn amend(&self, source: Source, key: &Key, facts: Facts) -> Result<Job, RegistryError> {
        self.check(key, &facts)?;
        let mut jobs = self.jobs.lock();
        let key = &self.meant(&jobs, source, key, i64::MIN);
        let mut run = last(&jobs, key)?.clone();
        let said = run.said.entry(source).or_default();
        said.amend(facts);
        said.check().map_err(|source| RegistryError::Refused { key: key.clone(), source })?;
        self.put(&mut jobs, key, run)
    }

    /// The last run is over; its first end stands.
    ///
    /// # Errors
    /// [`RegistryError`]; then nothing is changed.
    pub fn end(&self, source: Source, key: &Key, at_ns: i64) -> Result<Job, RegistryError> {
        let mut jobs = self.jobs.lock();
        let key = &self.meant(&jobs, source, key, at_ns);
        let mut run = last(&jobs, key)?.clone();
        let start = start_of(&run.said);
        if at_ns < start - SAME_NS {
            let source = FactsError::Backwards((start - at_ns) / 1_000_000_000);
            return Err(RegistryError::Refused { key: key.clone(), source });
        }
        let end = &mut run.said.entry(source).or_default().end_ns;
        if end.is_some() {
            return Ok(Job::among(key, run.number, &run.said, &self.agents()));
        }
        // Clocks differ, and hooks know whole seconds.
        *end = Some(at_ns.max(start));
        self.put(&mut jobs, key, run)
    }

    /// The key that is written so: the id alone, or `cluster/id` if that is a job that is known; ids may have slashes too.
    pub fn named(&self, name: &str) -> Key {
        let bare = Key { cluster: String::new(), id: name.to_owned() };
        let parted = |(at, _)| Key { cluster: name[..at].to_owned(), id: name[at + 1..].to_owned() };
        let mut all = std::iter::once(bare.clone()).chain(name.match_indices('/').map(parted));
        all.find(|key| self.get(key).is_some()).unwrap_or(bare)
    }

    /// The last run of a job; of its other names any will do, as long as they mean one job of the cluster.
    pub fn get(&self, key: &Key) -> Option<Job> {
        let jobs = self.jobs.lock();
        let of_cluster = || jobs.named(&key.id).filter(|k| k.cluster == key.cluster);
        let known = |k: &Key| Some(Job::among(k, jobs.last(k)?.number, &jobs.last(k)?.said, &self.agents()));
        known(key).or_else(|| of_cluster().filter_map(known).max_by_key(|job| job.start_ns))
    }

    /// As [`Registry::get`], for people: without a cluster the job of the one cluster that has it, since a scheduler
    /// names its cluster whether there are others or not.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`], [`RegistryError::Several`].
    pub fn asked(&self, key: &Key) -> Result<Job, RegistryError> {
        if let Some(job) = self.get(key) {
            return Ok(job);
        }
        let named = |jobs: &Jobs| jobs.named(&key.id).map(|known| known.cluster.clone()).collect::<BTreeSet<_>>();
        let clusters: Vec<String> = match key.cluster.is_empty() {
            true => named(&self.jobs.lock()).into_iter().collect(),
            false => Vec::new(),
        };
        match clusters.as_slice() {
            [] => Err(RegistryError::Unknown(key.clone())),
            [one] => {
                let of_it = Key { cluster: one.clone(), id: key.id.clone() };
                self.get(&of_it).ok_or_else(|| RegistryError::Unknown(key.clone()))
            }
            _ => Err(RegistryError::Several { id: key.id.clone(), clusters }),
        }
    }

    /// All runs that fit, the one that started last first.
    pub fn list(&self, filter: &Filter) -> Vec<Job> {
        let (jobs, agents) = (self.jobs.lock(), self.agents());
        let all = jobs.runs.iter().flat_map(|(key, runs)| runs.iter().map(move |r| (key, r)));
        // A view of a large job is large: most that are kept are over, and mostly those that run are asked for.
        let all = all.filter(|(_, r)| filter.running.is_none_or(|running| running == end_of(&r.said).is_none()));
        let all = all.map(|(key, r)| Job::among(key, r.number, &r.said, &agents));
        let mut some: Vec<Job> = all.filter(|job| filter.fits(job)).collect();
        drop(jobs);
        some.sort_by(|a, b| b.start_ns.cmp(&a.start_ns).then_with(|| a.id.cmp(&b.id)));
        some
    }

    /// Forgets runs that ended before a time, Unix nanoseconds; returns how many.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn expire(&self, before_ns: i64) -> Result<usize, RegistryError> {
        let mut jobs = self.jobs.lock();
        let over = |r: &Run| end_of(&r.said).is_some_and(|end| end < before_ns);
        let mut gone = Vec::new();
        for (key, runs) in &jobs.runs {
            gone.extend(runs.iter().filter(|r| over(r)).map(|r| (key.clone(), r.number)));
        }
        for (key, number) in &gone {
            self.tree.remove(encode_key(key, *number)).map_err(disk)?;
        }
        if !gone.is_empty() {
            self.tree.flush().map_err(disk)?;
            jobs.retain(|r| !over(r));
            self.revision.fetch_add(1, Ordering::Release);
        }
        Ok(gone.len())
    }

    /// Differs from what it was when something has changed since.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    pub(crate) fn check(&self, key: &Key, facts: &Facts) -> Result<(), RegistryError> {
        key.check().and_then(|()| facts.check()).map_err(|source| RegistryError::Refused { key: key.clone(), source })
    }

    /// Writes a run, and then knows it.
    pub(crate) fn put(&self, jobs: &mut Jobs, key: &Key, run: Run) -> Result<Job, RegistryError> {
        let value = serde_json::to_vec(&run).map_err(|e| RegistryError::Disk(e.to_string()))?;
        let stored = encode_key(key, run.number);
        if self.tree.insert(stored, value.as_slice()).map_err(disk)?.as_deref() != Some(&value[..]) {
            self.tree.flush().map_err(disk)?;
            self.revision.fetch_add(1, Ordering::Release);
        }
        let job = Job::among(key, run.number, &run.said, &self.agents());
        jobs.learn(key, &run);
        let runs = jobs.runs.entry(key.clone()).or_default();
        match runs.iter_mut().find(|r| r.number == run.number) {
            Some(known) => *known = run,
            None => runs.push(run),
        }
        if runs.len() > RUNS {
            let oldest = runs.remove(0);
            self.tree.remove(encode_key(key, oldest.number)).map_err(disk)?;
        }
        Ok(job)
    }

    /// Forgets the last run of a job, which is told under another name.
    pub(crate) fn take(&self, jobs: &mut Jobs, key: &Key) -> Result<Option<Run>, RegistryError> {
        let Some(run) = jobs.runs.get_mut(key).and_then(Vec::pop) else { return Ok(None) };
        self.tree.remove(encode_key(key, run.number)).map_err(disk)?;
        self.revision.fetch_add(1, Ordering::Release);
        if jobs.runs.get(key).is_some_and(Vec::is_empty) {
            jobs.runs.remove(key);
        }
        Ok(Some(run))
    }
}

fn share(some: &[String], others: &[String]) -> bool {
    let some: HashSet<&String> = some.iter().collect();
    others.iter().any(|name| some.contains(name))
}

fn last<'a>(jobs: &'a Jobs, key: &Key) -> Result<&'a Run, RegistryError> {
    jobs.last(key).ok_or_else(|| RegistryError::Unknown(key.clone()))
}

fn disk(e: sled::Error) -> RegistryError {
    RegistryError::Disk(e.to_string())
}

/// Cluster, id and number of the run; names have no control characters, so zeros part them, and runs are in order.
fn encode_key(key: &Key, run: u32) -> Vec<u8> {
    let mut out = key.cluster.clone().into_bytes();
    out.push(0);
    out.extend(key.id.as_bytes());
    out.push(0);
    out.extend(run.to_be_bytes());
    out
}

fn decode_key(bytes: &[u8]) -> Option<Key> {
    let (names, _) = bytes.split_at(bytes.len().checked_sub(4)?);
    let names = std::str::from_utf8(names.strip_suffix(&[0])?).ok()?;
    let (cluster, id) = names.split_once('\0')?;
    Some(Key { cluster: cluster.into(), id: id.into() })
}
