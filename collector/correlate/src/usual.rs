//! What was usual before trouble: frames that tell it, and what each job moved.

use crate::fabric::Fabric;
use crate::history::{Stretch, mean};

/// Ticks without which nothing is known of a job; half of what is known of others will do where that is less.
const KNOWN: usize = 10;

/// What was usual, before trouble.
#[derive(Clone, Debug)]
pub struct Usual {
    /// The frames that tell it.
    pub stretch: Stretch,
    /// How many of them are of after the last trouble, when jobs may have changed their ways.
    pub fresh: usize,
    jobs: Vec<Option<Load>>,
}

impl Usual {
    /// Of frames that are calm. What was before `fresh_ns` stays a yardstick, but does not count as known.
    pub fn of(stretch: Stretch, fabric: &Fabric, fresh_ns: i64) -> Self {
        let least = KNOWN.min(stretch.ticks().div_ceil(2));
        let load = |job: usize| {
            let load = Load::of(stretch.load(fabric, job), fabric.jobs[job].since_ns);
            load.filter(|load| load.ticks.len() >= least)
        };
        let jobs = (0..fabric.jobs.len()).map(load).collect();
        let fresh = stretch.frames().iter().filter(|f| f.time_ns >= fresh_ns).count();
        Self { stretch, fresh, jobs }
    }

    /// Of these ports only, and of all jobs: a fraction of the memory.
    #[must_use]
    pub fn only(&self, ports: &[usize]) -> Self {
        Self { stretch: self.stretch.only(ports), fresh: self.fresh, jobs: self.jobs.clone() }
    }

    /// Of a job; `None` if nothing of it was measured, or if its number was another job's then.
    pub fn job(&self, fabric: &Fabric, job: usize) -> Option<&Load> {
        let load = self.jobs.get(job)?.as_ref();
        load.filter(|load| load.since_ns == fabric.jobs[job].since_ns)
    }
}

/// What a job usually moves, both directions of all its ports.
#[derive(Clone, Debug)]
pub struct Load {
    /// By tick, relative to its mean.
    ticks: Vec<f64>,
    mean: f64,
    /// When the job began.
    since_ns: i64,
}

impl Load {
    /// Of bytes a second by tick, for a job that began at `since_ns`; `None` if it moved nothing.
    pub fn of(mut ticks: Vec<f64>, since_ns: i64) -> Option<Self> {
        let mean = mean(ticks.iter().copied()).filter(|m| *m > 0.0)?;
        ticks.iter_mut().for_each(|t| *t /= mean);
        Some(Self { ticks, mean, since_ns })
    }

    /// Bytes a second.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Means over every stretch of so many ticks, relative to the mean of all.
    fn stretches(&self, ticks: usize) -> impl Iterator<Item = f64> + '_ {
        self.ticks.windows(ticks).map(|w| w.iter().sum::<f64>() / w.len() as f64)
    }

    /// How much means over so many ticks differ by chance, relative to the mean. Longer than half of what is known cannot
    /// be seen; there chance is taken to fall with the root of length.
    pub fn chance(&self, ticks: usize) -> f64 {
        let seen = ticks.clamp(1, (self.ticks.len() / 2).max(1));
        let variance = mean(self.stretches(seen).map(|m| (m - 1.0).powi(2))).unwrap_or(0.0);
        variance.sqrt() * (seen as f64 / ticks.max(seen) as f64).sqrt()
    }

    /// The highest mean over so many ticks, relative to the mean.
    pub fn high(&self, ticks: usize) -> f64 {
        self.stretches(ticks.clamp(1, (self.ticks.len() / 2).max(1))).fold(1.0, f64::max)
    }
}
