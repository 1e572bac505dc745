//! Compares each job list of a scheduler with the previous one, and reports new, changed and ended jobs to the
//! registry. A failed request ends no job.

use std::collections::{HashMap, HashSet};

use fabriclens_jobs::{Filter, JobKey, JobList, JobRecord, ListedJob, Registry, Source};

use fabriclens_core::time::now_ns;

/// The last list of a scheduler.
pub(super) struct Reconciler {
    source: Source,
    listed_before: HashMap<JobKey, JobRecord>,
    /// Jobs missing from the last list, and since when.
    missing: HashMap<JobKey, i64>,
    /// Whether the last request failed, which is logged once.
    failing: bool,
}

impl Reconciler {
    /// Creates a reconciler without a list.
    pub(super) fn new(source: Source) -> Self {
        Self { source, listed_before: HashMap::new(), missing: HashMap::new(), failing: false }
    }

    /// Reports the differences of a list to the registry. Returns whether there were any.
    pub(super) fn update(&mut self, registry: &Registry, answer: Result<JobList, impl std::fmt::Display>) -> bool {
        let source = self.source.text();
        let (listed, invalid) = match answer {
            Ok(list) => list,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(source, %error, "cannot list jobs");
                }
                return false;
            }
        };
        if std::mem::take(&mut self.failing) {
            tracing::info!(source, "jobs are listed again");
        }
        for (job, error) in invalid {
            tracing::debug!(source, job, error, "invalid job");
        }
        let listed_keys: HashSet<JobKey> = listed.iter().map(|l| l.key.clone()).collect();
        let before = std::mem::take(&mut self.listed_before);
        let mut changed = false;
        for ListedJob { key, record } in listed {
            if before.get(&key) != Some(&record) {
                changed = true;
                if let Err(error) = registry.begin(self.source, &key, record.clone(), now_ns()) {
                    tracing::warn!(source, %error, "cannot keep a job");
                }
            }
            self.listed_before.insert(key, record);
        }
        changed | self.end_missing(registry, &listed_keys)
    }

    /// Whether the last request failed.
    #[cfg(test)]
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// A job missing from two lists in a row ended when it was first missing: schedulers forget jobs after some
    /// minutes, and the collector may have been down.
    fn end_missing(&mut self, registry: &Registry, listed_keys: &HashSet<JobKey>) -> bool {
        let now = now_ns();
        let running = registry.list(&Filter { running: Some(true), ..Filter::default() });
        let gone = running
            .into_iter()
            .filter(|job| job.sources.contains(&self.source))
            .map(|job| job.key())
            .filter(|key| !listed_keys.contains(key));
        let before = std::mem::take(&mut self.missing);
        let mut changed = false;
        for key in gone {
            match before.get(&key) {
                None => _ = self.missing.insert(key, now),
                Some(since) => {
                    changed = true;
                    if let Err(error) = registry.end(self.source, &key, *since) {
                        tracing::warn!(source = self.source.text(), %error, "cannot end a job");
                    }
                }
            }
        }
        changed
    }
}
