//! The registry of jobs: what each source reports of each run, stored before the answer. It is the only copy of this data.

mod error;
mod query;
mod runs;
mod storage;

pub use error::RegistryError;
pub use query::Filter;
pub(crate) use runs::{Jobs, Run};

use crate::disagreements::TOLERANCE_NS;
use crate::host_names::HostNames;
use crate::record::{JobKey, JobRecord, RecordError, Source};
use crate::view::{Job, run_end, run_start};
use parking_lot::{Mutex, RwLock};
use std::collections::HashSet;
use std::sync::Arc;
use storage::Storage;

/// The registry of jobs.
pub struct Registry {
    storage: Storage,
    jobs: Mutex<Jobs>,
    host_names: RwLock<Arc<HostNames>>,
}

impl Registry {
    /// Opens the registry in a tree of a database. A record that cannot be decoded is logged, left in place and not shown.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn open(tree: sled::Tree) -> Result<Self, RegistryError> {
        let (storage, jobs) = Storage::open(tree)?;
        Ok(Self { storage, jobs: Mutex::new(jobs), host_names: RwLock::default() })
    }

    /// Names of hosts and devices that views use.
    pub fn host_names(&self) -> Arc<HostNames> {
        self.host_names.read().clone()
    }

    /// Sets the names of hosts and devices that views use.
    pub fn set_host_names(&self, names: HostNames) {
        let mut known = self.host_names.write();
        if **known != names {
            *known = Arc::new(names);
            self.storage.changed();
        }
    }

    pub(crate) fn jobs(&self) -> parking_lot::MutexGuard<'_, Jobs> {
        self.jobs.lock()
    }

    /// A number that changes whenever a job or a name of a host changes.
    pub fn revision(&self) -> u64 {
        self.storage.revision()
    }

    /// Records that a job runs: in its current run, or in a new one. A repeated report changes nothing.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn begin(&self, source: Source, key: &JobKey, record: JobRecord, now_ns: i64) -> Result<Job, RegistryError> {
        self.check(key, &record)?;
        let mut jobs = self.jobs.lock();
        let key = &self.resolve(&jobs, source, key, record.start_ns.unwrap_or(now_ns));
        let job = self.begin_run(&mut jobs, source, key, record, now_ns)?;
        Ok(self.merge_aliases(&mut jobs, key)?.unwrap_or(job))
    }

    fn begin_run(
        &self,
        jobs: &mut Jobs,
        source: Source,
        key: &JobKey,
        mut record: JobRecord,
        now_ns: i64,
    ) -> Result<Job, RegistryError> {
        let Some(last) = jobs.last(key) else {
            record.start_ns.get_or_insert(now_ns);
            return self.put(jobs, key, Run { number: 1, records: [(source, record)].into() });
        };
        let (number, ended) = (last.number, run_end(&last.records));
        let before = last.records.get(&source);
        let known_start = before.and_then(|known| known.start_ns);
        // A pod never runs again, and Kubernetes deletes the first pods of a job first: a common pod means the same run.
        if source == Source::Kubernetes && before.is_some_and(|known| intersect(&known.aliases, &record.aliases)) {
            record.start_ns = known_start;
        }
        let same_run = match (record.start_ns, ended) {
            (None, end) => end.is_none(),
            (Some(start), _) if known_start == Some(start) => true,
            (Some(start), Some(end)) if start < end && known_start.is_some() => {
                return Err(RegistryError::Overlap { key: key.clone() });
            }
            (Some(start), Some(end)) => start < end,
            (Some(start), None) => known_start.is_none_or(|known| start < known),
        };
        if same_run {
            let mut run = last.clone();
            let known = run.records.entry(source).or_default();
            if source.is_polled() {
                // The scheduler lists it again: it was missing by mistake, or is retried.
                known.end_ns = None;
            }
            known.amend(record);
            return self.put(jobs, key, run);
        }
        let start = *record.start_ns.get_or_insert(now_ns);
        if ended.is_none() {
            // The end of the run before was never reported; it ended at the latest when this one began.
            let mut before = last.clone();
            before.records.entry(source).or_default().end_ns = Some(start);
            self.put(jobs, key, before)?;
        }
        self.put(jobs, key, Run { number: number + 1, records: [(source, record)].into() })
    }

    /// Corrects the last run of a job.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn amend(&self, source: Source, key: &JobKey, record: JobRecord) -> Result<Job, RegistryError> {
        self.check(key, &record)?;
        let mut jobs = self.jobs.lock();
        let key = &self.resolve(&jobs, source, key, i64::MIN);
        let mut run = last_run(&jobs, key)?.clone();
        let known = run.records.entry(source).or_default();
        known.amend(record);
        known.check().map_err(|source| RegistryError::Refused { key: key.clone(), source })?;
        self.put(&mut jobs, key, run)
    }

    /// Ends the last run of a job. The first reported end of a source stays.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn end(&self, source: Source, key: &JobKey, at_ns: i64) -> Result<Job, RegistryError> {
        let mut jobs = self.jobs.lock();
        let key = &self.resolve(&jobs, source, key, at_ns);
        let mut run = last_run(&jobs, key)?.clone();
        let start = run_start(&run.records);
        if at_ns < start - TOLERANCE_NS {
            let source = RecordError::Backwards((start - at_ns) / 1_000_000_000);
            return Err(RegistryError::Refused { key: key.clone(), source });
        }
        let end = &mut run.records.entry(source).or_default().end_ns;
        if end.is_some() {
            return Ok(self.view(key, &run));
        }
        // Clocks differ, and hooks report whole seconds.
        *end = Some(at_ns.max(start));
        self.put(&mut jobs, key, run)
    }

    /// Deletes runs that ended before `before_ns` (Unix nanoseconds), and returns how many.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn expire(&self, before_ns: i64) -> Result<usize, RegistryError> {
        let expired = |run: &Run| run_end(&run.records).is_some_and(|end| end < before_ns);
        self.storage.remove_all(&mut self.jobs.lock(), expired)
    }

    pub(crate) fn check(&self, key: &JobKey, record: &JobRecord) -> Result<(), RegistryError> {
        key.check().and_then(|()| record.check()).map_err(|source| RegistryError::Refused { key: key.clone(), source })
    }

    pub(crate) fn view(&self, key: &JobKey, run: &Run) -> Job {
        Job::with_host_names(key, run.number, &run.records, &self.host_names())
    }

    /// Stores a run, and returns its view.
    pub(crate) fn put(&self, jobs: &mut Jobs, key: &JobKey, run: Run) -> Result<Job, RegistryError> {
        let job = self.view(key, &run);
        self.storage.put(jobs, key, run)?;
        Ok(job)
    }

    /// Removes the last run of a job that is merged into another one.
    pub(crate) fn take_last(&self, jobs: &mut Jobs, key: &JobKey) -> Result<Option<Run>, RegistryError> {
        self.storage.take_last(jobs, key)
    }
}

fn intersect(some: &[String], others: &[String]) -> bool {
    let some: HashSet<&String> = some.iter().collect();
    others.iter().any(|name| some.contains(name))
}

fn last_run<'a>(jobs: &'a Jobs, key: &JobKey) -> Result<&'a Run, RegistryError> {
    jobs.last(key).ok_or_else(|| RegistryError::Unknown(key.clone()))
}
