//! Stores the runs in a table of the metadata database. Changes of one call become durable together, before the registry
//! answers.

use super::error::RegistryError;
use super::runs::{Jobs, Run};
use super::usage::Bound;
use crate::record::{JobKey, RECORD_BYTES};
use crate::sender::Limits;
use crate::view::run_end;
use fabriclens_store::{MetadataBatch, MetadataTable, StoreError};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs kept of one job, so that a job that is requeued without end does not fill the registry.
const MAX_RUNS: usize = 100;
/// Part of a bound that is freed beyond what is needed, so that a sender at its bound does not free room with each report.
const SPARE: usize = 16;
/// Longest stored run that is read; a longer one is from a version without bounds.
const STORED_BYTES: usize = 2 * RECORD_BYTES;

/// The table, and a number that changes with its content.
pub(super) struct Storage {
    table: MetadataTable,
    /// Changes that are not durable yet.
    changes: Mutex<MetadataBatch>,
    revision: AtomicU64,
}

impl Storage {
    /// Reads all runs. A record that cannot be decoded, or exceeds the bounds, is logged and left in place.
    pub(super) fn open(table: MetadataTable, limits: Limits) -> Result<(Self, Jobs), RegistryError> {
        let mut jobs = Jobs::new(limits);
        let read = table.each(|key, value| {
            if value.len() > STORED_BYTES {
                let job = decode_key(key).map(|key| key.to_string()).unwrap_or_default();
                tracing::error!(job, bytes = value.len(), "a stored job is too large and is not shown; delete it");
                return;
            }
            match (decode_key(key), serde_json::from_slice::<Run>(value)) {
                (Some(key), Ok(run)) => {
                    jobs.index(&key, &run);
                    jobs.usage.add(run.usage());
                    jobs.runs.entry(key).or_default().push(run);
                }
                (_, read) => {
                    let error = read.err().map(|e| e.to_string()).unwrap_or_default();
                    tracing::error!(error, "cannot decode a job record; the job is not shown");
                }
            }
        });
        read.map_err(disk_error)?;
        Ok((Self { table, changes: Mutex::default(), revision: AtomicU64::new(0) }, jobs))
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    pub(super) fn changed(&self) {
        self.revision.fetch_add(1, Ordering::Release);
    }

    /// Makes the changes durable; costs nothing if there are none. After an error they wait for the next call.
    pub(super) fn commit(&self) -> Result<(), RegistryError> {
        let mut changes = self.changes.lock();
        self.table.commit(&changes).map_err(disk_error)?;
        *changes = MetadataBatch::default();
        Ok(())
    }

    /// Stores a run with the next commit. A run that equals the known one is not written. Where a bound is reached, ended
    /// runs make room, oldest first.
    ///
    /// # Errors
    /// [`RegistryError::Full`] if running jobs leave no room.
    pub(super) fn put(&self, jobs: &mut Jobs, key: &JobKey, run: Run) -> Result<(), RegistryError> {
        let known = |jobs: &Jobs| jobs.runs.get(key).and_then(|runs| runs.iter().position(|r| r.number == run.number));
        let before = known(jobs).map(|at| jobs.runs[key][at].usage());
        for (bound, bytes) in jobs.usage.exceeded(before, run.usage()) {
            self.make_room(jobs, key, &bound, bytes)?;
        }
        let value = serde_json::to_vec(&run).map_err(|e| RegistryError::Disk(e.to_string()))?;
        let same = |at: usize| serde_json::to_vec(&jobs.runs[key][at]).is_ok_and(|known| known == value);
        if !known(jobs).is_some_and(same) {
            self.changes.lock().put(&self.table, encode_key(key, run.number), value);
            self.changed();
        }
        jobs.index(key, &run);
        jobs.usage.add(run.usage());
        let runs = jobs.runs.entry(key.clone()).or_default();
        let gone = match runs.iter_mut().find(|r| r.number == run.number) {
            Some(known) => Some(std::mem::replace(known, run)),
            None => {
                runs.push(run);
                let oldest = (runs.len() > MAX_RUNS).then(|| runs.remove(0));
                if let Some(oldest) = &oldest {
                    self.changes.lock().remove(&self.table, encode_key(key, oldest.number));
                }
                oldest
            }
        };
        if let Some(gone) = gone {
            jobs.usage.remove(gone.usage());
        }
        jobs.trim_index();
        Ok(())
    }

    /// Removes ended runs that a bound counts, oldest first, until `bytes` are free, and some more.
    fn make_room(&self, jobs: &mut Jobs, keep: &JobKey, bound: &Bound, bytes: usize) -> Result<(), RegistryError> {
        let limit = jobs.usage.limit(bound);
        let full = || RegistryError::Full { key: keep.clone(), who: bound.text(), limit };
        if jobs.usage.ended(bound) < bytes {
            return Err(full());
        }
        let mut ended = Vec::new();
        for (key, run) in
            jobs.runs.iter().filter(|(key, _)| *key != keep).flat_map(|(k, runs)| runs.iter().map(move |r| (k, r)))
        {
            let Some(end) = run_end(&run.records) else { continue };
            let of_bound: usize =
                run.charges().iter().filter(|(sender, _)| bound.covers(sender)).map(|(_, bytes)| bytes).sum();
            if of_bound > 0 {
                ended.push((end, key.clone(), run.number, of_bound));
            }
        }
        ended.sort_unstable();
        let (mut free, mut gone) = (0, HashSet::new());
        for (_, key, number, of_run) in ended {
            if free >= bytes + limit / SPARE {
                break;
            }
            free += of_run;
            gone.insert((key, number));
        }
        if free < bytes {
            return Err(full());
        }
        tracing::warn!(
            runs = gone.len(),
            who = bound.text(),
            limit,
            "the job registry is full; the oldest ended runs are deleted"
        );
        self.remove_all(jobs, |key, run| gone.contains(&(key.clone(), run.number)));
        Ok(())
    }

    /// Removes the last run of a job.
    pub(super) fn take_last(&self, jobs: &mut Jobs, key: &JobKey) {
        let Some(run) = jobs.runs.get_mut(key).and_then(Vec::pop) else { return };
        jobs.usage.remove(run.usage());
        self.changes.lock().remove(&self.table, encode_key(key, run.number));
        self.changed();
        if jobs.runs.get(key).is_some_and(Vec::is_empty) {
            jobs.runs.remove(key);
        }
    }

    /// Removes all runs for which `expired` is true, and returns how many.
    pub(super) fn remove_all(&self, jobs: &mut Jobs, expired: impl Fn(&JobKey, &Run) -> bool) -> usize {
        let mut gone = Vec::new();
        for (key, runs) in &jobs.runs {
            gone.extend(runs.iter().filter(|r| expired(key, r)).map(|r| encode_key(key, r.number)));
        }
        if !gone.is_empty() {
            let mut changes = self.changes.lock();
            gone.iter().for_each(|key| changes.remove(&self.table, key));
            jobs.retain(|key, run| !expired(key, run));
            self.changed();
        }
        gone.len()
    }

    /// Removes all runs of a job from the table, those that are not shown included, and returns how many.
    pub(super) fn remove_job(&self, jobs: &mut Jobs, key: &JobKey) -> Result<usize, RegistryError> {
        let stored = encode_key(key, 0);
        let mut gone = 0;
        for found in self.table.keys_with(&stored[..stored.len() - 4]).map_err(disk_error)? {
            if decode_key(&found).as_ref() == Some(key) {
                self.changes.lock().remove(&self.table, found);
                gone += 1;
            }
        }
        if gone > 0 {
            jobs.retain(|other, _| other != key);
            self.changed();
        }
        Ok(gone)
    }
}

fn disk_error(e: StoreError) -> RegistryError {
    RegistryError::Disk(e.to_string())
}

/// Cluster, id and run number. Names have no control characters, so a zero byte separates them, and runs sort by number.
fn encode_key(key: &JobKey, run: u32) -> Vec<u8> {
    let mut out = key.cluster.clone().into_bytes();
    out.push(0);
    out.extend(key.id.as_bytes());
    out.push(0);
    out.extend(run.to_be_bytes());
    out
}

fn decode_key(bytes: &[u8]) -> Option<JobKey> {
    let (names, _) = bytes.split_at(bytes.len().checked_sub(4)?);
    let names = std::str::from_utf8(names.strip_suffix(&[0])?).ok()?;
    let (cluster, id) = names.split_once('\0')?;
    Some(JobKey { cluster: cluster.into(), id: id.into() })
}
