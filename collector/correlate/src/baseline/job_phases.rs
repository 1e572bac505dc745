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
/// The same if it communicates in all frames.
const SENDS_ALWAYS: usize = 2;
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
    /// How fast it sends; `None` if too few frames say.
    sending: Option<Sending>,
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
            sending: Sending::of(level, loads, 0.0),
            stretches: Stretches::of(level, frames),
        }
    }

    /// Whether gaps are part of its work, so that standing still for a while says nothing.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Throughput in the frames of a window in which it communicates, relative to the baseline, and its standard error.
    /// A job that rests longer between its exchanges moves less, but sends as fast as before; a job that the network
    /// slows down sends slower. `None` if either has too few such frames. If it never rests, the standard error is `noise`,
    /// the deviation of its windows: frames that cut its cycles vary more than windows do.
    pub fn sending_ratio(&self, now: &[f64], noise: f64) -> Option<(f64, f64)> {
        let before = self.sending?;
        let after = Sending::of(self.level, now, before.deviation)?;
        let doubt = before.doubt().hypot(after.doubt()) / before.mean;
        Some((after.mean / before.mean, if before.always && after.always { noise } else { doubt }))
    }

    /// Throughput in a window relative to the baseline, and its standard deviation: with the job's usual gaps or as it is
    /// (over whole cycles, or else `all`), the higher of the two, because a job that computes meanwhile loses less than its
    /// stretches. `None`: its stretches are not known, or differ. A ratio of `None`: the window shows too little of a stretch.
    pub fn compare(&self, frames: impl Iterator<Item = JobFrame>, all: f64) -> Option<Option<(f64, f64)>> {
        let known = &self.stretches;
        let (whole, usual) = (known.whole().count(), known.stretch_ticks());
        let resolved = usual >= RESOLVED && known.gap_ticks() >= RESOLVED;
        if whole < STRETCHES || !resolved || known.deviation() > REGULAR {
            return None;
        }
        let patience = ((PATIENCE * known.longest_cycle() as f64) as usize).max(PATIENCE_TICKS);
        let now = Stretches::of(self.level, frames);
        let as_it_is = now.whole_cycles(STRETCHES).zip(known.whole_cycles(STRETCHES));
        let as_it_is = as_it_is.map_or(all, |(now, before)| now / before);
        let now = now.with_waiting(patience);
        let active = now.active_ticks();
        if active < usual {
            return Some(None);
        }
        let part = known.active_ticks() / known.ticks() as f64;
        let speed = now.speed() / known.speed();
        let noise = known.deviation() * (1.0 / (active / usual).max(1.0) + 1.0 / whole as f64).sqrt();
        Some(Some(((1.0 / (part / speed + 1.0 - part)).max(as_it_is), noise * part)))
    }
}

/// How fast a job sends in the frames in which it communicates.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// Mean load.
    mean: f64,
    /// Standard deviation of one frame.
    deviation: f64,
    frames: usize,
    /// It communicates in all frames.
    always: bool,
}

impl Sending {
    /// From the frames with a load from `level` on; `None` if they are few. If that is all of them, none is the begin or end
    /// of a stretch, so that fewer say as much; those are taken to vary at least by `deviation`.
    fn of(level: f64, loads: &[f64], deviation: f64) -> Option<Self> {
        let sends = || loads.iter().copied().filter(|load| *load >= level);
        let frames = sends().count();
        let always = frames == loads.len();
        let few = frames < SENDS;
        let usual = mean(sends()).filter(|_| !few || always && frames >= SENDS_ALWAYS)?;
        let own = mean(sends().map(|load| (load - usual).powi(2)))?.sqrt();
        Some(Self { mean: usual, deviation: if few { own.max(deviation) } else { own }, frames, always })
    }

    /// Standard error of the mean.
    fn doubt(self) -> f64 {
        self.deviation / (self.frames as f64).sqrt()
    }
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
        JobPhases::of(&rhythm(6)).compare(frames, 0.0)
    }

    #[test]
    fn a_long_gap_is_the_applications() {
        let now = [rhythm(2), vec![0.0; 25]].concat();
        let (ratio, _) = compare(&now, false).unwrap().unwrap();
        assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
        assert_eq!(compare(&[0.0; 20], false), Some(None), "a gap alone says nothing");
    }

    #[test]
    fn half_a_cycle_is_not_counted() {
        let slow = [0.3, 0.6, 0.6, 0.6, 0.6, 0.3, 0.001, 0.001, 0.0, 0.001, 0.0].repeat(3);
        let now = [vec![0.0, 0.3], slow, vec![0.3, 0.6, 0.6, 0.6, 0.6, 0.3]].concat();
        let frames = now.iter().map(|load| JobFrame { load: *load, troubled: false });
        // Both begin or end within a stretch, so that their means are too high.
        let (ratio, _) = JobPhases::of(&rhythm(6)).compare(frames, 1.0).unwrap().unwrap();
        assert!((ratio - 9.0 / 11.0).abs() < 0.03, "eleven frames a cycle instead of nine: {ratio}");
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
            JobPhases::of(loads).compare(now, 0.0).is_none()
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
        let ratio = |now: &[f64]| baseline.sending_ratio(now, 0.0).map(|(ratio, _)| ratio);
        assert_eq!(ratio(&cycle(5, 25, 8.0)), Some(1.0), "it computes for longer");
        assert_eq!(ratio(&cycle(10, 5, 4.0).repeat(2)), Some(0.5), "the same bytes take twice as long");
        assert_eq!(ratio(&cycle(3, 27, 8.0)), None, "it hardly sends");
        assert_eq!(ratio(&[4.0, 4.0]), Some(0.5), "long samples, in all of which it sends");
        assert_eq!(ratio(&[4.0]), None);
        let always = JobPhases::of(&[8.0, 4.0].repeat(20));
        assert_eq!(always.sending_ratio(&[4.0, 2.0, 4.0, 2.0], 0.01), Some((0.5, 0.01)), "it never rests");
    }
}
