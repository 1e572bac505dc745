//! The running jobs, recomputed only when something changed: a view of a large job is large.

use std::sync::Arc;

use fabriclens_jobs::{Filter, Job, Registry};

/// A cached list of running jobs.
#[derive(Default)]
pub struct Running {
    /// Running jobs, latest start first.
    pub jobs: Arc<[Job]>,
    /// Revision of the registry; `None` before the first update.
    revision: Option<u64>,
    /// Earliest start among jobs announced for the future, Unix ms.
    until_ms: Option<i64>,
}

impl Running {
    /// Recomputes the list if needed; returns whether it did.
    pub fn update(&mut self, registry: &Registry, now_ms: i64) -> bool {
        let revision = registry.revision();
        if self.revision == Some(revision) && self.until_ms.is_none_or(|until| now_ms < until) {
            return false;
        }
        let mut jobs = registry.list(&Filter { running: Some(true), ..Filter::default() });
        let now_ns = now_ms.saturating_mul(1_000_000);
        self.until_ms = jobs.iter().map(|j| j.start_ns).filter(|s| *s > now_ns).min().map(|ns| ns / 1_000_000 + 1);
        jobs.retain(|job| job.ran_at(now_ns));
        self.jobs = jobs.into();
        self.revision = Some(revision);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_jobs::{JobKey, JobRecord, Source};

    #[test]
    fn announced_jobs_run_from_their_start() {
        let dir = tempfile::tempdir().unwrap();
        let options = fabriclens_store::Options { background: false, ..Default::default() };
        let store = fabriclens_store::Store::open(dir.path(), options).unwrap();
        let registry = Registry::open(store.table("jobs"), fabriclens_jobs::Limits::default()).unwrap();
        let begin = |id: &str, start_ms: i64| {
            let record = JobRecord { start_ns: Some(start_ms * 1_000_000), ..JobRecord::default() };
            registry.begin(Source::Http, &JobKey { cluster: String::new(), id: id.into() }, record, 0).unwrap();
        };
        let mut running = Running::default();
        assert!(running.update(&registry, 0) && !running.update(&registry, 1));
        begin("now", 10);
        begin("later", 500);
        assert!(running.update(&registry, 100) && !running.update(&registry, 400));
        assert_eq!(running.jobs.iter().map(|j| j.id.as_str()).collect::<Vec<_>>(), ["now"]);
        assert!(running.update(&registry, 501) && !running.update(&registry, 9999));
        assert_eq!(running.jobs.len(), 2);
    }
}
