//! What a job usually moves, and by how much that varies.

use crate::model::stats::mean;

/// What a job usually moves, both directions of all its ports.
#[derive(Clone, Debug)]
pub struct JobLoad {
    /// By tick, relative to its mean.
    pub(super) ticks: Vec<f64>,
    mean: f64,
    /// When the job began.
    pub(super) since_ns: i64,
}

impl JobLoad {
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
    fn windows(&self, ticks: usize) -> impl Iterator<Item = f64> + '_ {
        self.ticks.windows(ticks).map(|w| w.iter().sum::<f64>() / w.len() as f64)
    }

    /// How much means over so many ticks differ by chance, relative to the mean. Longer than half of what is known cannot
    /// be seen; there chance is taken to fall with the root of length.
    pub fn noise(&self, ticks: usize) -> f64 {
        let seen = ticks.clamp(1, (self.ticks.len() / 2).max(1));
        let variance = mean(self.windows(seen).map(|m| (m - 1.0).powi(2))).unwrap_or(0.0);
        variance.sqrt() * (seen as f64 / ticks.max(seen) as f64).sqrt()
    }

    /// The highest mean over so many ticks, relative to the mean.
    pub fn peak(&self, ticks: usize) -> f64 {
        self.windows(ticks.clamp(1, (self.ticks.len() / 2).max(1))).fold(1.0, f64::max)
    }
}
