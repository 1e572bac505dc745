//! The rhythm of a job: stretches of communication, and gaps in which it computes, evaluates or waits for data. The gaps are
//! the application's; only the stretches show how fast the network is.

/// Share of the job's high load below which a frame is quiet, and the quantile of frames that is its high load.
const QUIET: f64 = 0.02;
const HIGH: f64 = 0.9;
/// Frames that the median stretch takes at least to be resolved by samples, and quiet frames of the median gap.
const RESOLVED: f64 = 1.5;
const GAP: f64 = 1.5;
/// Deviation of the speed of its stretches up to which a job has a rhythm: reads at random have none.
const REGULAR: f64 = 0.2;
/// Stretches that the baseline needs.
const STRETCHES: usize = 2;
/// A gap without any sign of trouble is the application's up to so many times the longest known cycle, or so many frames.
const PATIENCE: f64 = 4.0;
const PATIENCE_TICKS: usize = 30;

/// One frame of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobFrame {
    /// Load, in any unit that is the same throughout.
    pub load: f64,
    /// A port of the job is held back, down, or loses packets.
    pub troubled: bool,
}

/// Consecutive frames of one kind.
#[derive(Clone, Debug)]
struct Run {
    quiet: bool,
    loads: Vec<f64>,
    troubled: bool,
}

impl Run {
    fn load(&self) -> f64 {
        self.loads.iter().sum()
    }

    /// Frames that it takes: it begins and ends within a frame, at the share of load that the frame has of its neighbor.
    fn ticks(&self) -> f64 {
        let edge = |edge: f64, inner: f64| if inner > edge { edge / inner } else { 1.0 };
        match self.loads[..] {
            [] => 0.0,
            [_] => 0.5,
            [a, b] => (a + b) / a.max(b),
            [first, second, .., before, last] => {
                (self.loads.len() - 2) as f64 + edge(first, second) + edge(last, before)
            }
            [first, middle, last] => 1.0 + edge(first, middle) + edge(last, middle),
        }
    }

    fn speed(&self) -> f64 {
        self.load() / self.ticks()
    }
}

/// Stretches and gaps of a job in a window.
#[derive(Clone, Debug)]
pub struct JobCycles {
    level: f64,
    runs: Vec<Run>,
}

impl JobCycles {
    /// The cycles of a job's baseline.
    pub fn of_baseline(loads: &[f64]) -> Self {
        let mut sorted = loads.to_vec();
        sorted.sort_by(f64::total_cmp);
        let high = sorted.get((sorted.len() as f64 * HIGH) as usize).copied().unwrap_or(0.0);
        let frames = loads.iter().map(|load| JobFrame { load: *load, troubled: false });
        Self::of(QUIET * high, frames)
    }

    fn of(level: f64, frames: impl Iterator<Item = JobFrame>) -> Self {
        let one = |JobFrame { load, troubled }| Run { quiet: load < level, loads: vec![load], troubled };
        Self { level, runs: joined(frames.map(one)) }
    }

    fn stretches(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.quiet)
    }

    /// Frames in which the job communicates: a stretch begins and ends within a frame, on average halfway.
    fn active_ticks(&self) -> f64 {
        let ticks: usize = self.stretches().map(|run| run.loads.len()).sum();
        ticks as f64 - 0.5 * self.runs.len().saturating_sub(1) as f64
    }

    /// Load per frame over whole cycles, each from the start of a stretch to the start of the next, so that a window does not
    /// count half a cycle. `None` if the window holds less than [`STRETCHES`].
    fn whole_cycles(&self) -> Option<f64> {
        let mut starts = (1..self.runs.len()).filter(|at| !self.runs[*at].quiet);
        let (first, last) = (starts.next()?, starts.next_back()?);
        let cycles = &self.runs[first..last];
        let ticks: usize = cycles.iter().map(|run| run.loads.len()).sum();
        (cycles.len() >= 2 * STRETCHES).then(|| cycles.iter().map(Run::load).sum::<f64>() / ticks as f64)
    }

    /// Load per frame of communication.
    fn speed(&self) -> f64 {
        self.stretches().map(Run::load).sum::<f64>() / self.active_ticks()
    }

    fn ticks(&self) -> usize {
        self.runs.iter().map(|run| run.loads.len()).sum()
    }

    /// Whole stretches, without those that the window cuts.
    fn whole(&self) -> impl Iterator<Item = &Run> {
        let inner = 1..self.runs.len().saturating_sub(1);
        self.runs.get(inner).unwrap_or_default().iter().filter(|run| !run.quiet)
    }

    /// Median frames of a whole stretch.
    fn stretch_ticks(&self) -> f64 {
        median(self.whole().map(Run::ticks).collect())
    }

    /// Median quiet frames of a gap.
    fn gap_ticks(&self) -> f64 {
        median(self.runs.iter().filter(|run| run.quiet).map(|run| run.loads.len() as f64).collect())
    }

    /// Frames of the longest gap with the stretch before it.
    fn longest_cycle(&self) -> usize {
        let cycle = |pair: &[Run]| pair[0].loads.len() + pair[1].loads.len();
        self.runs.windows(2).filter(|pair| pair[1].quiet).map(cycle).max().unwrap_or(0)
    }

    /// Deviation of the speed of single stretches, relative to the speed: scaled from the median, so that one checkpoint
    /// does not count.
    fn deviation(&self) -> f64 {
        const OF_MEDIAN: f64 = 1.48;
        let speeds: Vec<f64> = self.whole().map(Run::speed).collect();
        let usual = median(speeds.clone());
        OF_MEDIAN * median(speeds.into_iter().map(|speed| (speed / usual - 1.0).abs()).collect())
    }

    /// Throughput in a window relative to these cycles and its standard deviation: with the job's usual gaps or as it is, the
    /// higher of the two, because a job that computes meanwhile loses less than its stretches. `None`: no rhythm is known. A
    /// ratio of `None`: the window shows too little of a cycle.
    pub fn compare(&self, frames: impl Iterator<Item = JobFrame>, all: f64) -> Option<Option<(f64, f64)>> {
        let (whole, usual) = (self.whole().count(), self.stretch_ticks());
        let rhythm = usual >= RESOLVED && self.gap_ticks() >= GAP && self.deviation() <= REGULAR;
        if whole < STRETCHES || !rhythm {
            return None;
        }
        let patience = ((PATIENCE * self.longest_cycle() as f64) as usize).max(PATIENCE_TICKS);
        let mut now = Self::of(self.level, frames);
        let as_it_is = now.whole_cycles().zip(self.whole_cycles()).map_or(all, |(now, before)| now / before);
        for run in now.runs.iter_mut().filter(|run| run.quiet) {
            // Waiting belongs to the stretch that waits.
            run.quiet = !run.troubled && run.loads.len() <= patience;
        }
        now.runs = joined(now.runs.into_iter());
        let active = now.active_ticks();
        if active < usual {
            return Some(None);
        }
        let part = self.active_ticks() / self.ticks() as f64;
        let speed = now.speed() / self.speed();
        let noise = self.deviation() * (1.0 / (active / usual).max(1.0) + 1.0 / whole as f64).sqrt();
        Some(Some(((1.0 / (part / speed + 1.0 - part)).max(as_it_is), noise * part)))
    }
}

/// Joins consecutive runs of one kind.
fn joined(all: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for run in all {
        match runs.last_mut().filter(|last| last.quiet == run.quiet) {
            Some(last) => {
                last.loads.extend(run.loads);
                last.troubled |= run.troubled;
            }
            None => runs.push(run),
        }
    }
    runs
}

/// The middle value; `NaN` without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
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
        JobCycles::of_baseline(&rhythm(6)).compare(frames, 0.0)
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
        let (ratio, _) = JobCycles::of_baseline(&rhythm(6)).compare(frames, 1.0).unwrap().unwrap();
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
    fn jobs_without_rhythm_have_no_cycles() {
        let none = |loads: &[f64]| {
            let now = loads.iter().map(|load| JobFrame { load: *load, troubled: false });
            JobCycles::of_baseline(loads).compare(now, 0.0).is_none()
        };
        assert!(none(&[1.0; 60]), "it never rests");
        assert!(none(&[1.0, 0.0].repeat(30)), "samples do not resolve it");
        assert!(none(&[]), "nothing is known");
    }
}
