//! The baseline: frames and job throughput from before an incident.

use crate::baseline::job_highs::JobHighs;
use crate::baseline::job_load::JobLoad;
use crate::baseline::memo::Derived;
use crate::baseline::window::Window;
use crate::model::fabric::Fabric;
use std::sync::Arc;

/// Frames that a job's throughput needs to count as known, or half of the frames if those are fewer.
const KNOWN: usize = 10;

/// Frames and job throughput from before an incident.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Its frames.
    pub window: Arc<Window>,
    /// How many of them are newer than the last incident, after which jobs may behave differently.
    pub fresh: usize,
    pub(super) jobs: Arc<[Option<JobLoad>]>,
    pub(crate) derived: Arc<Derived>,
}

impl Baseline {
    /// Builds a baseline of frames without incidents. Frames before `fresh_ns` do not count as fresh.
    pub fn of(window: Window, fabric: &Fabric, fresh_ns: i64) -> Self {
        Self::learning(window, fabric, fresh_ns, &mut JobHighs::default())
    }

    /// The same, with what is known of the jobs from before these frames.
    pub(super) fn learning(window: Window, fabric: &Fabric, fresh_ns: i64, highs: &mut JobHighs) -> Self {
        let least = KNOWN.min(window.ticks().div_ceil(2));
        let load = |job: usize| {
            let load = JobLoad::of(window.load(fabric, job), fabric.jobs[job].since_ns);
            let mut load = load.filter(|load| load.ticks.len() >= least)?;
            load.highs = highs.learn(fabric, job, |ticks| load.last_mean(ticks));
            Some(load)
        };
        let jobs = (0..fabric.jobs.len()).map(load).collect();
        highs.retain(fabric);
        let fresh = window.frames().iter().filter(|f| f.time_ns >= fresh_ns).count();
        Self { window: Arc::new(window), fresh, jobs, derived: Arc::default() }
    }

    /// A copy with another number of fresh frames.
    #[must_use]
    pub fn known(&self, fresh: usize) -> Self {
        Self { fresh, ..self.clone() }
    }

    /// A copy with the samples of these ports only, and with all jobs, to save memory.
    #[must_use]
    pub fn only_ports(&self, ports: &[usize]) -> Self {
        let window = Arc::new(self.window.only_ports(ports));
        Self { window, fresh: self.fresh, jobs: self.jobs.clone(), derived: Arc::default() }
    }

    /// Usual throughput of a job; `None` if it was not measured or the index belonged to another job then.
    pub fn job(&self, fabric: &Fabric, job: usize) -> Option<&JobLoad> {
        let load = self.jobs.get(job)?.as_ref();
        load.filter(|load| load.since_ns == fabric.jobs[job].since_ns)
    }
}
