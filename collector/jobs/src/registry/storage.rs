//! Stores the runs in a tree of the metadata database. A run is durable before the registry answers.

use super::error::RegistryError;
use super::runs::{Jobs, Run};
use crate::record::JobKey;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs kept of one job, so that a job that is requeued without end does not fill the registry.
const MAX_RUNS: usize = 100;

/// The tree, and a number that changes with its content.
pub(super) struct Storage {
    tree: sled::Tree,
    revision: AtomicU64,
}

impl Storage {
    /// Reads all runs. A record that cannot be decoded is logged and left in place.
    pub(super) fn open(tree: sled::Tree) -> Result<(Self, Jobs), RegistryError> {
        let mut jobs = Jobs::default();
        for entry in &tree {
            let (key, value) = entry.map_err(disk_error)?;
            match (decode_key(&key), serde_json::from_slice::<Run>(&value)) {
                (Some(key), Ok(run)) => {
                    jobs.index(&key, &run);
                    jobs.runs.entry(key).or_default().push(run);
                }
                (_, read) => {
                    let error = read.err().map(|e| e.to_string()).unwrap_or_default();
                    tracing::error!(error, "cannot decode a job record; the job is not shown");
                }
            }
        }
        Ok((Self { tree, revision: AtomicU64::new(0) }, jobs))
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    pub(super) fn changed(&self) {
        self.revision.fetch_add(1, Ordering::Release);
    }

    /// Writes a run to disk, then to `jobs`. A run that equals the stored one is not flushed.
    pub(super) fn put(&self, jobs: &mut Jobs, key: &JobKey, run: Run) -> Result<(), RegistryError> {
        let value = serde_json::to_vec(&run).map_err(|e| RegistryError::Disk(e.to_string()))?;
        let stored = encode_key(key, run.number);
        if self.tree.insert(stored, value.as_slice()).map_err(disk_error)?.as_deref() != Some(&value[..]) {
            self.tree.flush().map_err(disk_error)?;
            self.changed();
        }
        jobs.index(key, &run);
        let runs = jobs.runs.entry(key.clone()).or_default();
        match runs.iter_mut().find(|r| r.number == run.number) {
            Some(known) => *known = run,
            None => runs.push(run),
        }
        if runs.len() > MAX_RUNS {
            let oldest = runs.remove(0);
            self.tree.remove(encode_key(key, oldest.number)).map_err(disk_error)?;
        }
        Ok(())
    }

    /// Removes the last run of a job, and returns it.
    pub(super) fn take_last(&self, jobs: &mut Jobs, key: &JobKey) -> Result<Option<Run>, RegistryError> {
        let Some(run) = jobs.runs.get_mut(key).and_then(Vec::pop) else { return Ok(None) };
        self.tree.remove(encode_key(key, run.number)).map_err(disk_error)?;
        self.changed();
        if jobs.runs.get(key).is_some_and(Vec::is_empty) {
            jobs.runs.remove(key);
        }
        Ok(Some(run))
    }

    /// Removes all runs for which `expired` is true, and returns how many.
    pub(super) fn remove_all(&self, jobs: &mut Jobs, expired: impl Fn(&Run) -> bool) -> Result<usize, RegistryError> {
        let mut gone = Vec::new();
        for (key, runs) in &jobs.runs {
            gone.extend(runs.iter().filter(|r| expired(r)).map(|r| (key.clone(), r.number)));
        }
        for (key, number) in &gone {
            self.tree.remove(encode_key(key, *number)).map_err(disk_error)?;
        }
        if !gone.is_empty() {
            self.tree.flush().map_err(disk_error)?;
            jobs.retain(|r| !expired(r));
            self.changed();
        }
        Ok(gone.len())
    }
}

fn disk_error(e: sled::Error) -> RegistryError {
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
