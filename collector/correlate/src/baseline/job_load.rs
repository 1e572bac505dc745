//! The usual throughput of a job, and how much it varies.

use crate::baseline::job_highs::Highs;
use crate::baseline::job_phases::JobPhases;
use crate::model::stats::mean;
use std::sync::OnceLock;

/// The usual throughput of a job: both directions of all its ports.
#[derive(Clone, Debug)]
pub struct JobLoad {
    /// Throughput per frame, relative to the mean.
    pub(super) ticks: Vec<f64>,
    mean: f64,
    /// Start of the job, Unix nanoseconds.
    pub(super) since_ns: i64,
    phases: OnceLock<JobPhases>,
    /// Its highest throughput since it began.
    pub(super) highs: Highs,
}

impl JobLoad {
    /// From bytes per second in each frame, for a job that began at `since_ns`; `None` if it moved nothing.
    pub fn of(mut ticks: Vec<f64>, since_ns: i64) -> Option<Self> {
        let mean = mean(ticks.iter().copied()).filter(|m| *m > 0.0)?;
        ticks.iter_mut().for_each(|t| *t /= mean);
        Some(Self { ticks, mean, since_ns, phases: OnceLock::new(), highs: Highs::default() })
    }

    /// Its phases; loads are relative to the mean.
    pub fn phases(&self) -> &JobPhases {
        self.phases.get_or_init(|| JobPhases::of(&self.ticks))
    }

    /// Mean in bytes per second.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Mean over the last frames in bytes per second; `None` if there are fewer.
    pub(super) fn last_mean(&self, ticks: usize) -> Option<f64> {
        let from = self.ticks.len().checked_sub(ticks)?;
        Some(self.mean * self.ticks[from..].iter().sum::<f64>() / ticks as f64)
    }

    /// Means over every window of so many frames, relative to the overall mean.
    fn windows(&self, ticks: usize) -> impl Iterator<Item = f64> + '_ {
        self.ticks.windows(ticks).map(|w| w.iter().sum::<f64>() / w.len() as f64)
    }

    /// How means over so many frames vary. Windows longer than half of the data are extrapolated: deviation falls with the square
    /// root of length.
    pub fn spread(&self, ticks: usize) -> Spread {
        let seen = ticks.clamp(1, (self.ticks.len() / 2).max(1));
        let means: Vec<f64> = self.windows(seen).collect();
        let variance = mean(means.iter().map(|m| (m - 1.0).powi(2))).unwrap_or(0.0);
        let peak = means.into_iter().fold(1.0, f64::max);
        Spread {
            noise: variance.sqrt() * (seen as f64 / ticks.max(seen) as f64).sqrt(),
            peak,
            highest: peak.max(self.highs.over(ticks) / self.mean),
        }
    }
}

/// How a job's means over windows of one length vary, relative to its overall mean.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Standard deviation.
    pub noise: f64,
    /// The highest.
    pub peak: f64,
    /// The highest since the job began.
    pub highest: f64,
}
