//! The registry of jobs: what each source reports of each run, stored before the answer. It is the only copy of this data.

mod error;
mod query;
mod remove;
mod runs;
mod storage;
mod usage;

pub use error::RegistryError;
pub use query::{Cursor, EndedRun, Filter, Page};
pub(crate) use runs::{Jobs, Run};

use crate::disagreements::TOLERANCE_NS;
use crate::host_names::HostNames;
use crate::record::{JobKey, JobRecord, RecordError, Source};
use crate::sender::{Limits, Reporter};
use crate::view::{Job, run_end, run_start};
use fabriclens_store::MetadataTable;
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
    /// Opens the registry in a table of the metadata database. A record that cannot be decoded, or is too large, is logged,
    /// left in place and not shown.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn open(table: MetadataTable, limits: Limits) -> Result<Self, RegistryError> {
        let (storage, jobs) = Storage::open(table, limits)?;
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
    pub fn begin(
        &self,
        reporter: impl Into<Reporter>,
        key: &JobKey,
        record: JobRecord,
        now_ns: i64,
    ) -> Result<Job, RegistryError> {
        let reporter = reporter.into();
        self.check(&reporter, key, &record)?;
        let mut jobs = self.jobs.lock();
        let key = &self.resolve(&jobs, reporter.source, key, record.start_ns.unwrap_or(now_ns));
        let job = self.begin_run(&mut jobs, &reporter, key, record, now_ns).and_then(|job| {
            let merged = if reporter.is_bound() { None } else { self.merge_aliases(&mut jobs, key)? };
            Ok(merged.unwrap_or(job))
        });
        self.commit().and(job)
    }

    fn begin_run(
        &self,
        jobs: &mut Jobs,
        reporter: &Reporter,
        key: &JobKey,
        mut record: JobRecord,
        now_ns: i64,
    ) -> Result<Job, RegistryError> {
        let source = reporter.source;
        let first = |number, record| {
            let mut run = Run::new(number);
            run.records.insert(source, record);
            run.set_sender(source, &reporter.sender);
            run
        };
        let Some(last) = jobs.last(key) else {
            record.start_ns.get_or_insert(now_ns);
            return self.put(jobs, key, first(1, record));
        };
        let (number, ended) = (last.number, run_end(&last.records));
        let before = last.records.get(&source);
        let known_start = before.and_then(|known| known.start_ns);
        // A pod never runs again, and Kubernetes deletes the first pods of a job first: a common pod means the same run.
        if source == Source::Kubernetes && before.is_some_and(|known| intersect(&known.aliases, &record.aliases)) {
            record.start_ns = known_start;
        }
        let may_change = last.may_be_changed_by(reporter);
        if !may_change && ended.is_none_or(|end| record.start_ns.unwrap_or(now_ns) < end) {
            return Err(RegistryError::Foreign { key: key.clone() });
        }
        // What a host with a credential of its own reported is never part of what others report.
        let joins = may_change && (reporter.is_bound() || last.reporting_host().is_none());
        let same_run = joins
            && match (record.start_ns, ended) {
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
            known.check().map_err(|source| RegistryError::Refused { key: key.clone(), source })?;
            run.set_sender(source, &reporter.sender);
            return self.put(jobs, key, run);
        }
        let start = *record.start_ns.get_or_insert(now_ns);
        self.end_before(jobs, key, source, start)?;
        self.put(jobs, key, first(number + 1, record))
    }

    /// Ends the last run of a job whose end was never reported: it ended at the latest when the next one began.
    pub(crate) fn end_before(
        &self,
        jobs: &mut Jobs,
        key: &JobKey,
        source: Source,
        start_ns: i64,
    ) -> Result<(), RegistryError> {
        let Some(last) = jobs.last(key).filter(|last| !last.is_ended()) else { return Ok(()) };
        let mut before = last.clone();
        let source = if before.reporting_host().is_some() { Source::Http } else { source };
        let record = before.records.entry(source).or_default();
        record.end_ns = Some(start_ns.max(record.start_ns.unwrap_or(start_ns)));
        self.put(jobs, key, before).map(|_| ())
    }

    /// Corrects the last run of a job.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn amend(&self, reporter: impl Into<Reporter>, key: &JobKey, record: JobRecord) -> Result<Job, RegistryError> {
        let reporter = reporter.into();
        let source = reporter.source;
        self.check(&reporter, key, &record)?;
        let mut jobs = self.jobs.lock();
        let key = &self.resolve(&jobs, source, key, i64::MIN);
        let mut run = changeable(&jobs, key, &reporter)?.clone();
        let known = run.records.entry(source).or_default();
        known.amend(record);
        known.check().map_err(|source| RegistryError::Refused { key: key.clone(), source })?;
        run.set_sender(source, &reporter.sender);
        let job = self.put(&mut jobs, key, run);
        self.commit().and(job)
    }

    /// Ends the last run of a job. The first reported end of a source stays.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn end(&self, reporter: impl Into<Reporter>, key: &JobKey, at_ns: i64) -> Result<Job, RegistryError> {
        let reporter = reporter.into();
        let source = reporter.source;
        let mut jobs = self.jobs.lock();
        let key = &self.resolve(&jobs, source, key, at_ns);
        let mut run = changeable(&jobs, key, &reporter)?.clone();
        let is_new = !run.records.contains_key(&source);
        let start = run_start(&run.records);
        if at_ns < start - TOLERANCE_NS {
            let source = RecordError::Backwards((start - at_ns) / 1_000_000_000);
            return Err(RegistryError::Refused { key: key.clone(), source });
        }
        let end = &mut run.records.entry(source).or_default().end_ns;
        if end.is_some() {
            // A retry after a failed write.
            return self.commit().map(|()| self.view(key, &run));
        }
        // Clocks differ, and hooks report whole seconds.
        *end = Some(at_ns.max(start));
        if is_new {
            run.set_sender(source, &reporter.sender);
        }
        let job = self.put(&mut jobs, key, run);
        self.commit().and(job)
    }

    /// Deletes runs that ended before `before_ns` (Unix nanoseconds), and returns how many.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn expire(&self, before_ns: i64) -> Result<usize, RegistryError> {
        let expired = |_: &JobKey, run: &Run| run_end(&run.records).is_some_and(|end| end < before_ns);
        let mut jobs = self.jobs.lock();
        let removed = self.storage.remove_all(&mut jobs, expired);
        self.commit().map(|()| removed)
    }

    fn check(&self, reporter: &Reporter, key: &JobKey, record: &JobRecord) -> Result<(), RegistryError> {
        let checked = key.check().and_then(|()| record.check()).and_then(|()| reporter.check(record));
        checked.map_err(|source| RegistryError::Refused { key: key.clone(), source })
    }

    pub(crate) fn view(&self, key: &JobKey, run: &Run) -> Job {
        let mut job = Job::with_host_names(key, run.number, (&run.records, &run.claims), &self.host_names());
        job.reported_by = run.by.values().cloned().collect();
        job
    }

    /// Stores a run with the next commit, and returns its view.
    pub(crate) fn put(&self, jobs: &mut Jobs, key: &JobKey, mut run: Run) -> Result<Job, RegistryError> {
        run.separate_claims(key, &self.host_names());
        let job = self.view(key, &run);
        self.storage.put(jobs, key, run)?;
        Ok(job)
    }

    /// Removes the last run of a job that is merged into another one.
    pub(crate) fn take_last(&self, jobs: &mut Jobs, key: &JobKey) {
        self.storage.take_last(jobs, key);
    }

    /// Makes all changes durable.
    pub(crate) fn commit(&self) -> Result<(), RegistryError> {
        self.storage.commit()
    }
}

fn intersect(some: &[String], others: &[String]) -> bool {
    let some: HashSet<&String> = some.iter().collect();
    others.iter().any(|name| some.contains(name))
}

/// The last run of a job, if this reporter may change it.
fn changeable<'a>(jobs: &'a Jobs, key: &JobKey, reporter: &Reporter) -> Result<&'a Run, RegistryError> {
    let run = jobs.last(key).ok_or_else(|| RegistryError::Unknown(key.clone()))?;
    if run.may_be_changed_by(reporter) { Ok(run) } else { Err(RegistryError::Foreign { key: key.clone() }) }
}
