//! The phases of a job: stretches in which it communicates, and gaps in which it computes, evaluates or waits for data.
//! The gaps are the application's; only the stretches show how fast the network is.

use crate::baseline::rate_levels::RateLevels;
use crate::baseline::stretches::Stretches;
use crate::model::stats::mean;

pub use crate::baseline::stretches::JobFrame;

/// Load of quiet frames, relative to that of communication, up to which they are gaps; otherwise its load merely varies.
/// Verdicts on recorded runs are the same from 0.1 to 0.3.
const GAP_LOAD: f64 = 0.1;
/// Share of frames from which gaps are part of its work.
const RESTS: f64 = 0.1;
/// Frames of communication that say how fast it sends.
const SENDS: usize = 4;
/// Frames that the median stretch takes at least to be resolved by samples, and quiet frames of the median gap.
const RESOLVED: f64 = 1.5;
/// Deviation of the speed of its stretches up to which they compare: reads at random have none.
const REGULAR: f64 = 0.2;
/// Stretches that the baseline needs.
const STRETCHES: usize = 2;
/// A gap without any sign of trouble is the application's up to so many times the longest known cycle, or so many frames.
const PATIENCE: f64 = 4.0;
const PATIENCE_TICKS: usize = 30;

/// The phases of a job in its baseline.
#[derive(Clone, Debug)]
pub struct JobPhases {
    /// Load from which the job communicates.
    level: f64,
    rests: bool,
    /// Mean load of the frames in which it communicates, and its standard error; `None` if they are few.
    sends: Option<(f64, f64)>,
    stretches: Stretches,
}

impl JobPhases {
    /// From the load of each frame, in any unit.
    pub fn of(loads: &[f64]) -> Self {
        let highest = loads.iter().copied().fold(0.0, f64::max);
        let gaps = RateLevels::of(loads).filter(|levels| levels.quiet <= GAP_LOAD * levels.active);
        let level = gaps.map_or(GAP_LOAD * highest, RateLevels::middle);
        let quiet = loads.iter().filter(|load| **load < level).count();
        let frames = loads.iter().map(|load| JobFrame { load: *load, troubled: false });
        Self {
            level,
            rests: quiet as f64 >= RESTS * loads.len() as f64,
            sends: sending(level, loads),
            stretches: Stretches::of(level, frames),
        }
    }

    /// Whether gaps are part of its work, so that standing still for a while says nothing.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Throughput in the frames of a window in which it communicates, relative to the baseline, and its standard error.
    /// A job that rests longer between its exchanges moves less, but sends as fast as before; a job that the network
    /// slows down sends slower. `None` if either has too few such frames.
    pub fn sending_ratio(&self, now: &[f64]) -> Option<(f64, f64)> {
        let (before, doubt) = self.sends?;
        let (after, doubt_now) = sending(self.level, now)?;
        Some((after / before, doubt.hypot(doubt_now) / before))
    }

    /// Throughput in a window relative to the baseline, with the job's usual gaps, and its standard deviation. `None`:
    /// its stretches are not known, or differ. A ratio of `None`: the window shows too little of a stretch.
    pub fn compare(&self, frames: impl Iterator<Item = JobFrame>) -> Option<Option<(f64, f64)>> {
        let known = &self.stretches;
        let (whole, usual) = (known.whole().count(), known.stretch_ticks());
        let resolved = usual >= RESOLVED && known.gap_ticks() >= RESOLVED;
        if whole < STRETCHES || !resolved || known.deviation() > REGULAR {
            return None;
        }
        let patience = ((PATIENCE * known.longest_cycle() as f64) as usize).max(PATIENCE_TICKS);
        let now = Stretches::of(self.level, frames).with_waiting(patience);
        let active = now.active_ticks();
        if active < usual {
            return Some(None);
        }
        let part = known.active_ticks() / known.ticks() as f64;
        let speed = now.speed() / known.speed();
        let noise = known.deviation() * (1.0 / (active / usual).max(1.0) + 1.0 / whole as f64).sqrt();
        Some(Some((1.0 / (part / speed + 1.0 - part), noise * part)))
    }
}

/// Mean load and standard error of the frames from a level on; `None` if they are few.
fn sending(level: f64, loads: &[f64]) -> Option<(f64, f64)> {
    let sends = || loads.iter().copied().filter(|load| *load >= level);
    let count = sends().count();
    let usual = mean(sends()).filter(|_| count >= SENDS)?;
    let variance = mean(sends().map(|load| (load - usual).powi(2)))?;
    Some((usual, (variance / count as f64).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of four frames of communication and five of computing.
    fn rhythm(cycles: usize) -> Vec<f64> {
        std::iter::repeat_n([0.5, 1.0, 1.0, 0.5, 0.001, 0.001, 0.0, 0.001, 0.0], cycles).flatten().collect()
    }

    fn compare(now: &[f64], troubled: bool) -> Option<Option<(f64, f64)>> {
        let frames = now.iter().map(|load| JobFrame { load: *load, troubled });
        JobPhases::of(&rhythm(6)).compare(frames)
    }

    #[test]
    fn a_long_gap_is_the_applications() {
        let now = [rhythm(2), vec![0.0; 25]].concat();
        let (ratio, _) = compare(&now, false).unwrap().unwrap();
        assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
        assert_eq!(compare(&[0.0; 20], false), Some(None), "a gap alone says nothing");
    }

    #[test]
    fn slow_stretches_and_troubled_gaps_are_losses() {
        let slow = [0.4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.1, 0.0, 0.001, 0.0, 0.001, 0.0].repeat(3);
        let (ratio, _) = compare(&slow, false).unwrap().unwrap();
        assert!((0.6..0.85).contains(&ratio), "{ratio}");
        let stalled = [rhythm(1), vec![0.0; 25]].concat();
        let (ratio, _) = compare(&stalled, true).unwrap().unwrap();
        assert!(ratio < 0.5, "{ratio}");
        let (ratio, _) = compare(&[0.0; 60], false).unwrap().unwrap();
        assert!(ratio < 0.01, "no gap of the application lasts so long: {ratio}");
    }

    #[test]
    fn jobs_without_rhythm_have_no_stretches_that_compare() {
        let none = |loads: &[f64]| {
            let now = loads.iter().map(|load| JobFrame { load: *load, troubled: false });
            JobPhases::of(loads).compare(now).is_none()
        };
        assert!(none(&[1.0; 60]), "it never rests");
        assert!(none(&[1.0, 0.0].repeat(30)), "samples do not resolve it");
        assert!(none(&[]), "nothing is known");
    }

    #[test]
    fn longer_rest_is_no_slower_sending() {
        let cycle = |sends: usize, rests: usize, rate: f64| [vec![rate; sends], vec![0.0; rests]].concat();
        let baseline = JobPhases::of(&cycle(5, 5, 8.0).repeat(6));
        assert!(baseline.rests());
        assert!(!JobPhases::of(&[8.0; 60]).rests());
        let ratio = |now: &[f64]| baseline.sending_ratio(now).map(|(ratio, _)| ratio);
        assert_eq!(ratio(&cycle(5, 25, 8.0)), Some(1.0), "it computes for longer");
        assert_eq!(ratio(&cycle(10, 5, 4.0).repeat(2)), Some(0.5), "the same bytes take twice as long");
        assert_eq!(ratio(&cycle(3, 27, 8.0)), None, "it hardly sends");
    }
}
