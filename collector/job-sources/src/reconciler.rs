//! What a scheduler listed last. Each list is compared with the one before: the registry is told what is new, different
//! or over. Without an answer nothing is over.

use std::collections::{HashMap, HashSet};

use fabriclens_jobs::{Filter, JobKey, JobList, JobRecord, ListedJob, Registry, Source};

use fabriclens_core::time::now_ns;

/// See the module.
pub(super) struct Book {
    source: Source,
    told: HashMap<JobKey, JobRecord>,
    /// Jobs that were not listed any more, and since when.
    missing: HashMap<JobKey, i64>,
    /// Told once, not each time.
    failing: bool,
}

impl Book {
    /// Nothing was listed yet.
    pub(super) fn new(source: Source) -> Self {
        Self { source, told: HashMap::new(), missing: HashMap::new(), failing: false }
    }

    /// Tells the registry of an answer. True when something is new, different or over.
    pub(super) fn tell(&mut self, registry: &Registry, answer: Result<JobList, impl std::fmt::Display>) -> bool {
        let source = self.source.text();
        let (listed, odd) = match answer {
            Ok(list) => list,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(source, %error, "cannot learn of jobs");
                }
                return false;
            }
        };
        if std::mem::take(&mut self.failing) {
            tracing::info!(source, "jobs are told again");
        }
        for (job, error) in odd {
            tracing::debug!(source, job, error, "a job is not understood");
        }
        let there: HashSet<JobKey> = listed.iter().map(|l| l.key.clone()).collect();
        let before = std::mem::take(&mut self.told);
        let mut changed = false;
        for ListedJob { key, record } in listed {
            if before.get(&key) != Some(&record) {
                changed = true;
                if let Err(error) = registry.begin(self.source, &key, record.clone(), now_ns()) {
                    tracing::warn!(source, %error, "a job is not kept");
                }
            }
            self.told.insert(key, record);
        }
        changed | self.end_missing(registry, &there)
    }

    /// Whether the last question had no answer.
    #[cfg(test)]
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// A job that is not listed twice in a row is over since the first time: schedulers forget jobs after some minutes,
    /// and nobody may have asked meanwhile.
    fn end_missing(&mut self, registry: &Registry, there: &HashSet<JobKey>) -> bool {
        let now = now_ns();
        let running = registry.list(&Filter { running: Some(true), ..Filter::default() });
        let gone = running
            .into_iter()
            .filter(|job| job.sources.contains(&self.source))
            .map(|job| job.key())
            .filter(|key| !there.contains(key));
        let before = std::mem::take(&mut self.missing);
        let mut changed = false;
        for key in gone {
            match before.get(&key) {
                None => _ = self.missing.insert(key, now),
                Some(since) => {
                    changed = true;
                    if let Err(error) = registry.end(self.source, &key, *since) {
                        tracing::warn!(source = self.source.text(), %error, "cannot end a job that is forgotten");
                    }
                }
            }
        }
        changed
    }
}
