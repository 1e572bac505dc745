//! The usual throughput of a job, and how much it varies.

use crate::baseline::job_cycles::JobCycles;
use crate::model::stats::mean;
use std::sync::OnceLock;

/// Share of its busiest frame from which a job sends in a frame.
const SENDS: f64 = 0.1;
/// Frames in which a job sends that say how fast it sends.
const PHASE: usize = 4;
/// The same if it sends in all of them.
const LEAST: usize = 2;

/// The usual throughput of a job: both directions of all its ports.
#[derive(Clone, Debug)]
pub struct JobLoad {
    /// Throughput per frame, relative to the mean.
    pub(super) ticks: Vec<f64>,
    mean: f64,
    /// Start of the job, Unix nanoseconds.
    pub(super) since_ns: i64,
    cycles: OnceLock<JobCycles>,
}

impl JobLoad {
    /// From bytes per second in each frame, for a job that began at `since_ns`; `None` if it moved nothing.
    pub fn of(mut ticks: Vec<f64>, since_ns: i64) -> Option<Self> {
        let mean = mean(ticks.iter().copied()).filter(|m| *m > 0.0)?;
        ticks.iter_mut().for_each(|t| *t /= mean);
        Some(Self { ticks, mean, since_ns, cycles: OnceLock::new() })
    }

    /// Its stretches of communication and gaps, relative to the mean.
    pub fn cycles(&self) -> &JobCycles {
        self.cycles.get_or_init(|| JobCycles::of_baseline(&self.ticks))
    }

    /// Mean in bytes per second.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Means over every window of so many frames, relative to the overall mean.
    fn windows(&self, ticks: usize) -> impl Iterator<Item = f64> + '_ {
        self.ticks.windows(ticks).map(|w| w.iter().sum::<f64>() / w.len() as f64)
    }

    /// Standard deviation of means over so many frames, relative to the overall mean. Windows longer than half of the
    /// data are extrapolated: deviation falls with the square root of length.
    pub fn noise(&self, ticks: usize) -> f64 {
        let seen = ticks.clamp(1, (self.ticks.len() / 2).max(1));
        let variance = mean(self.windows(seen).map(|m| (m - 1.0).powi(2))).unwrap_or(0.0);
        variance.sqrt() * (seen as f64 / ticks.max(seen) as f64).sqrt()
    }

    /// Mean and standard error of the frames in which it sends, of the baseline or of `now` (relative to the overall mean):
    /// at least a tenth of its busiest frames. `None` if those are too few. If it sends in all of them, none of them is the
    /// begin or end of a stretch, so that fewer say as much; they are taken to vary at least by `deviation`.
    fn sending(&self, now: impl Iterator<Item = f64>, deviation: f64) -> Option<(f64, f64)> {
        let (least, mut all) = (self.least_sent(), 0);
        let sends: Vec<f64> = now.inspect(|_| all += 1).filter(|load| *load >= least).collect();
        let few = sends.len() < PHASE;
        let mean_load = mean(sends.iter().copied()).filter(|_| !few || sends.len() == all && all >= LEAST)?;
        let variance = mean(sends.iter().map(|load| (load - mean_load).powi(2)))?;
        let variance = if few { variance.max(deviation.powi(2)) } else { variance };
        Some((mean_load, (variance / sends.len() as f64).sqrt()))
    }

    /// Load of a frame, relative to the overall mean, from which it sends.
    fn least_sent(&self) -> f64 {
        SENDS * self.ticks.iter().copied().fold(0.0, f64::max)
    }

    /// Whether it rests between its exchanges, in a tenth of the frames or more.
    pub fn rests(&self) -> bool {
        let least = self.least_sent();
        let rests = self.ticks.iter().filter(|load| **load < least).count();
        rests * 10 >= self.ticks.len()
    }

    /// Throughput while it sends (bytes per second in each frame of a window) relative to that of the baseline, and its
    /// standard error. A job that rests longer between its exchanges (it computes, evaluates, waits for input) moves
    /// less, but sends as fast as before; a job that the network slows down sends slower. `None` if either has too few
    /// frames in which it sends. If it never rests, the standard error is the deviation of its windows ([`Self::noise`]): frames
    /// that cut its cycles vary more than windows do.
    pub fn sending_ratio(&self, now: &[f64]) -> Option<(f64, f64)> {
        let (before, doubt) = self.sending(self.ticks.iter().copied(), 0.0)?;
        let deviation = doubt * (self.ticks.len() as f64).sqrt();
        let (after, doubt_now) = self.sending(now.iter().map(|load| load / self.mean), deviation)?;
        let (least, mut all) =
            (self.least_sent(), self.ticks.iter().copied().chain(now.iter().map(|load| load / self.mean)));
        if all.all(|load| load >= least) {
            return Some((after / before, self.noise(now.len())));
        }
        Some((after / before, doubt.hypot(doubt_now) / before))
    }

    /// The highest mean over so many frames, relative to the overall mean.
    pub fn peak(&self, ticks: usize) -> f64 {
        self.windows(ticks.clamp(1, (self.ticks.len() / 2).max(1))).fold(1.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_rest_is_no_slower_sending() {
        let cycle = |sends: usize, rests: usize, rate: f64| [vec![rate; sends], vec![0.0; rests]].concat();
        let baseline = JobLoad::of(cycle(5, 5, 8.0).repeat(6), 0).unwrap();
        assert!(baseline.rests());
        assert!(!JobLoad::of(vec![8.0; 60], 0).unwrap().rests());
        let ratio = |now: &[f64]| baseline.sending_ratio(now).map(|(ratio, _)| ratio);
        assert_eq!(ratio(&cycle(5, 25, 8.0)), Some(1.0), "it computes for longer");
        assert_eq!(ratio(&cycle(10, 5, 4.0).repeat(2)), Some(0.5), "the same bytes take twice as long");
        assert_eq!(ratio(&cycle(3, 27, 8.0)), None, "it hardly sends");
        assert_eq!(ratio(&[4.0, 4.0]), Some(0.5), "long samples, in all of which it sends");
        assert_eq!(ratio(&[4.0]), None);
        let (ratio, doubt) =
            JobLoad::of([8.0, 4.0].repeat(20), 0).unwrap().sending_ratio(&[4.0, 2.0, 4.0, 2.0]).unwrap();
        assert!((ratio - 0.5).abs() < 1e-9 && doubt < 0.01, "it never rests, and windows do not vary: {ratio} {doubt}");
    }
}
