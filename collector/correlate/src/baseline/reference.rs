//! What was usual before trouble: frames that tell it, and what each job moved.

use crate::baseline::job_load::JobLoad;
use crate::baseline::window::Window;
use crate::model::fabric::Fabric;
use std::sync::Arc;

/// Ticks without which nothing is known of a job; half of what is known of others will do where that is less.
const KNOWN: usize = 10;

/// What was usual, before trouble.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The frames that tell it.
    pub window: Arc<Window>,
    /// How many of them are of after the last trouble, when jobs may have changed their ways.
    pub fresh: usize,
    pub(super) jobs: Arc<[Option<JobLoad>]>,
}

impl Baseline {
    /// Of frames that are calm. What was before `fresh_ns` stays a yardstick, but does not count as known.
    pub fn of(window: Window, fabric: &Fabric, fresh_ns: i64) -> Self {
        let least = KNOWN.min(window.ticks().div_ceil(2));
        let load = |job: usize| {
            let load = JobLoad::of(window.load(fabric, job), fabric.jobs[job].since_ns);
            load.filter(|load| load.ticks.len() >= least)
        };
        let jobs = (0..fabric.jobs.len()).map(load).collect();
        let fresh = window.frames().iter().filter(|f| f.time_ns >= fresh_ns).count();
        Self { window: Arc::new(window), fresh, jobs }
    }

    /// The same, of which so many frames are of after the last trouble.
    #[must_use]
    pub fn known(&self, fresh: usize) -> Self {
        Self { fresh, ..self.clone() }
    }

    /// Of these ports only, and of all jobs: a fraction of the memory.
    #[must_use]
    pub fn only(&self, ports: &[usize]) -> Self {
        Self { window: Arc::new(self.window.only(ports)), fresh: self.fresh, jobs: self.jobs.clone() }
    }

    /// Of a job; `None` if nothing of it was measured, or if its number was another job's then.
    pub fn job(&self, fabric: &Fabric, job: usize) -> Option<&JobLoad> {
        let load = self.jobs.get(job)?.as_ref();
        load.filter(|load| load.since_ns == fabric.jobs[job].since_ns)
    }
}
