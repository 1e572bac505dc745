//! Stretches of communication and gaps in the load of a job.

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
pub(super) struct Run {
    /// The job communicates in none of them.
    pub quiet: bool,
    pub loads: Vec<f64>,
    pub troubled: bool,
}

impl Run {
    pub fn load(&self) -> f64 {
        self.loads.iter().sum()
    }

    /// Frames that it takes: it begins and ends within a frame, at the share of load that the frame has of its neighbor.
    pub fn ticks(&self) -> f64 {
        let edge = |edge: f64, inner: f64| if inner > edge { edge / inner } else { 1.0 };
        match self.loads[..] {
            [] => 0.0,
            [_] => 0.5,
            [a, b] => (a + b) / a.max(b),
            [first, middle, last] => 1.0 + edge(first, middle) + edge(last, middle),
            [first, second, .., before, last] => {
                (self.loads.len() - 2) as f64 + edge(first, second) + edge(last, before)
            }
        }
    }

    pub fn speed(&self) -> f64 {
        self.load() / self.ticks()
    }
}

/// Stretches of communication and gaps, alternately.
#[derive(Clone, Debug)]
pub(super) struct Stretches(Vec<Run>);

impl Stretches {
    /// Frames below a level are quiet.
    pub fn of(level: f64, frames: impl Iterator<Item = JobFrame>) -> Self {
        let one = |JobFrame { load, troubled }| Run { quiet: load < level, loads: vec![load], troubled };
        Self(joined(frames.map(one)))
    }

    /// The same, but gaps with signs of trouble, or of more than `patience` frames, belong to the stretch that waits.
    #[must_use]
    pub fn with_waiting(mut self, patience: usize) -> Self {
        for run in self.0.iter_mut().filter(|run| run.quiet) {
            run.quiet = !run.troubled && run.loads.len() <= patience;
        }
        Self(joined(self.0.into_iter()))
    }

    fn active(&self) -> impl Iterator<Item = &Run> {
        self.0.iter().filter(|run| !run.quiet)
    }

    /// Frames in which the job communicates: a stretch begins and ends within a frame, on average halfway.
    pub fn active_ticks(&self) -> f64 {
        let ticks: usize = self.active().map(|run| run.loads.len()).sum();
        ticks as f64 - 0.5 * self.0.len().saturating_sub(1) as f64
    }

    /// Load per frame over whole cycles, each from the start of a stretch to the start of the next, so that a window does not
    /// count half a cycle. `None` if the window holds fewer than `least`.
    pub fn whole_cycles(&self, least: usize) -> Option<f64> {
        let mut starts = (1..self.0.len()).filter(|at| !self.0[*at].quiet);
        let (first, last) = (starts.next()?, starts.next_back()?);
        let cycles = &self.0[first..last];
        let ticks: usize = cycles.iter().map(|run| run.loads.len()).sum();
        (cycles.len() >= 2 * least).then(|| cycles.iter().map(Run::load).sum::<f64>() / ticks as f64)
    }

    /// Load per frame of communication.
    pub fn speed(&self) -> f64 {
        self.active().map(Run::load).sum::<f64>() / self.active_ticks()
    }

    pub fn ticks(&self) -> usize {
        self.0.iter().map(|run| run.loads.len()).sum()
    }

    /// Stretches that begin and end within the window.
    pub fn whole(&self) -> impl Iterator<Item = &Run> {
        let inner = 1..self.0.len().saturating_sub(1);
        self.0.get(inner).unwrap_or_default().iter().filter(|run| !run.quiet)
    }

    /// Median frames of a whole stretch.
    pub fn stretch_ticks(&self) -> f64 {
        median(self.whole().map(Run::ticks).collect())
    }

    /// Median quiet frames of a gap.
    pub fn gap_ticks(&self) -> f64 {
        median(self.0.iter().filter(|run| run.quiet).map(|run| run.loads.len() as f64).collect())
    }

    /// Frames of the longest gap with the stretch before it.
    pub fn longest_cycle(&self) -> usize {
        let cycle = |pair: &[Run]| pair[0].loads.len() + pair[1].loads.len();
        self.0.windows(2).filter(|pair| pair[1].quiet).map(cycle).max().unwrap_or(0)
    }

    /// Deviation of the speed of single stretches, relative to the speed: scaled from the median, so that one checkpoint
    /// does not count.
    pub fn deviation(&self) -> f64 {
        const OF_MEDIAN: f64 = 1.48;
        let speeds: Vec<f64> = self.whole().map(Run::speed).collect();
        let usual = median(speeds.clone());
        OF_MEDIAN * median(speeds.into_iter().map(|speed| (speed / usual - 1.0).abs()).collect())
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
