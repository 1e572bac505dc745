//! A window of consecutive frames, with sums per signal and port worked out once.

use crate::baseline::frame_group::{FrameGroup, GROUP};
use crate::baseline::totals::{SectionTotals, Totals};
use crate::model::fabric::Fabric;
use crate::model::frame::Frame;
use crate::model::priority::{COLUMNS, column, whole};
use crate::model::signal::Signal;
use std::sync::{Arc, OnceLock};

/// Consecutive frames, with means computed once for all ports, because every detector asks for them.
#[derive(Clone, Debug)]
pub struct Window {
    frames: Vec<Arc<Frame>>,
    totals: Vec<Totals>,
    /// A window of its last frames, whose sums are already known.
    end: Option<Arc<Window>>,
    /// Groups of some of its frames, ascending by the index of their first frame: their sums are needed by other windows too.
    groups: Vec<(usize, Arc<FrameGroup>)>,
    /// Loads of the jobs in each frame, with the revision of the jobs that first asked.
    loads: OnceLock<(u64, Vec<Arc<[f64]>>)>,
}

impl Default for Window {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Window {
    pub(crate) fn new(frames: Vec<Arc<Frame>>) -> Self {
        Self { frames, totals: vec![Totals::default(); COLUMNS], end: None, groups: Vec::new(), loads: OnceLock::new() }
    }

    /// Attaches groups of some of its frames, each with the index of its first frame, ascending.
    #[must_use]
    pub(super) fn with_groups(self, groups: Vec<(usize, Arc<FrameGroup>)>) -> Self {
        Self { groups, ..self }
    }

    /// Attaches a window of its last frames, whose sums need not be computed again.
    #[must_use]
    pub(crate) fn with_suffix(self, end: Option<Arc<Window>>) -> Self {
        Self { end, ..self }
    }

    /// Frames in order of time.
    pub fn frames(&self) -> &[Arc<Frame>] {
        &self.frames
    }

    /// Number of frames.
    pub fn ticks(&self) -> usize {
        self.frames.len()
    }

    /// A copy with the samples of these ports only.
    #[must_use]
    pub fn only_ports(&self, ports: &[usize]) -> Self {
        Self::new(self.frames.iter().map(|frame| Arc::new(frame.only_ports(ports))).collect())
    }

    /// A window with each frame replaced.
    #[must_use]
    pub fn map(&self, other: impl FnMut(&Arc<Frame>) -> Arc<Frame>) -> Self {
        Self::new(self.frames.iter().map(other).collect())
    }

    /// Its last frames.
    #[must_use]
    pub fn last(&self, ticks: usize) -> Self {
        self.earlier(ticks, 0)
    }

    /// So many of its frames, without the `newer` ones after them.
    #[must_use]
    pub fn earlier(&self, ticks: usize, newer: usize) -> Self {
        let end = self.frames.len().saturating_sub(newer);
        Self::new(self.frames[end.saturating_sub(ticks)..end].to_vec())
    }

    /// First and last instant, Unix nanoseconds.
    pub fn time_range_ns(&self) -> [i64; 2] {
        [self.frames.first(), self.frames.last()].map(|f| f.map_or(0, |f| f.time_ns))
    }

    /// Measured values of a signal.
    pub fn values(&self, signal: Signal, port: usize) -> impl Iterator<Item = f64> + '_ {
        self.frames.iter().filter_map(move |f| f.get(signal, port))
    }

    /// Mean of a signal; `None` if nothing was measured.
    pub fn mean(&self, signal: Signal, port: usize) -> Option<f64> {
        self.mean_of(signal as usize, port)
    }

    /// Mean of a signal in one priority; `None` if that is zero or unknown.
    pub fn priority_mean(&self, signal: Signal, priority: usize, port: usize) -> Option<f64> {
        self.mean_of(column(signal, priority)?, port).filter(|mean| *mean > 0.0)
    }

    fn mean_of(&self, column: usize, port: usize) -> Option<f64> {
        // Zero parts are not stored: a frame with the total but no part counts as zero.
        let (sum, own) = self.totals(column, port);
        let count = whole(column).map_or(own, |whole| self.totals(whole as usize, port).1);
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Sum of a column at a port, and the frames in which it has a value.
    fn totals(&self, column: usize, port: usize) -> (f64, u32) {
        self.section(column, SectionTotals::of(port)).map_or((0.0, 0), |section| section.get(port))
    }

    fn section(&self, column: usize, section: usize) -> Option<&SectionTotals> {
        self.totals[column].section(section, (&self.frames, column), || self.sum_up(column, section))
    }

    fn sum_up(&self, column: usize, section: usize) -> SectionTotals {
        let before = self.ticks() - self.end.as_ref().map_or(0, |end| end.ticks());
        let mut totals = self.end.as_ref().and_then(|end| end.section(column, section)).cloned().unwrap_or_default();
        let mut groups = self.groups.iter().filter(|(first, _)| first + GROUP <= before).peekable();
        let mut at = 0;
        while at < before {
            if let Some((_, group)) = groups.next_if(|(first, _)| *first == at) {
                if let Some(sums) = group.section(column, section, &self.frames[at..at + GROUP]) {
                    totals.add(sums);
                }
                at += GROUP;
            } else {
                totals.add_column(&self.frames[at].columns[column], section);
                at += 1;
            }
        }
        totals
    }

    /// Sum of a signal over the frames; `None` if nothing was measured.
    pub fn sum(&self, signal: Signal, port: usize) -> Option<f64> {
        let (sum, count) = self.totals(signal as usize, port);
        (count > 0).then_some(sum)
    }

    /// The last value of a signal. Most ports have no value of most signals: the sums tell that at once.
    pub fn last_value(&self, signal: Signal, port: usize) -> Option<f64> {
        let newest = self.frames.last()?.get(signal, port);
        newest.or_else(|| {
            self.sum(signal, port)?;
            self.frames.iter().rev().find_map(|f| f.get(signal, port))
        })
    }

    /// Whether any port has a value of a signal.
    pub fn measures(&self, signal: Signal) -> bool {
        self.frames.iter().any(|frame| frame.columns[signal as usize].blocks().next().is_some())
    }

    /// Whether any port has a value of a signal that is not zero.
    pub fn moves(&self, signal: Signal) -> bool {
        self.frames.iter().any(|frame| frame.columns[signal as usize].blocks().any(|(_, block)| block.moves))
    }

    /// The highest value of a signal.
    pub fn max(&self, signal: Signal, port: usize) -> Option<f64> {
        self.sum(signal, port)?;
        self.values(signal, port).reduce(f64::max)
    }

    /// Bytes per second that a job's ports send and receive, per frame since the job began, without retransmitted and
    /// out-of-sequence packets. Frames without samples are left out.
    pub fn load(&self, fabric: &Fabric, job: usize) -> Vec<f64> {
        self.job_frames(fabric, job).map(|(_, load)| load).collect()
    }

    /// The same with its frames.
    pub fn job_frames<'a>(&'a self, fabric: &'a Fabric, job: usize) -> impl Iterator<Item = (&'a Frame, f64)> + 'a {
        let since_ns = fabric.jobs[job].since_ns;
        let all = || self.frames.iter().map(|frame| frame.job_loads(fabric)).collect();
        let known = Some(self.loads.get_or_init(|| (fabric.revision(), all())));
        let known = known.filter(|(revision, _)| *revision == fabric.revision()).map(|(_, loads)| loads);
        let load = move |(at, frame): (usize, &'a Arc<Frame>)| {
            (&**frame, known.map_or_else(|| frame.job_loads(fabric)[job], |loads| loads[at][job]))
        };
        let frames = self.frames.iter().enumerate().filter(move |(_, frame)| frame.time_ns >= since_ns);
        frames.map(load).filter(|(_, load)| !load.is_nan())
    }

    /// The same for some ports.
    pub fn load_of_ports(&self, ports: &[usize], since_ns: i64) -> Vec<f64> {
        let frames = self.frames.iter().filter(|f| f.time_ns >= since_ns);
        frames.map(|f| f.load_of_ports(ports)).filter(|load| !load.is_nan()).collect()
    }

    /// Whether the port's counters stood still for so many consecutive frames although it was up and not paused.
    pub fn stalled(&self, port: usize, ticks: usize) -> bool {
        const MOVES: [Signal; 3] = [Signal::Rx, Signal::PauseRx, Signal::XmitWait];
        let still = |f: &Arc<Frame>| {
            f.get(Signal::Tx, port).is_some_and(|rate| rate <= 0.0)
                && f.get(Signal::Up, port) != Some(0.0)
                && MOVES.iter().all(|s| f.get(*s, port).is_none_or(|rate| rate <= 0.0))
        };
        // Each run of so many frames has one of every so many frames in it.
        let ticks = ticks.max(1);
        (1..=self.frames.len() / ticks).map(|nth| nth * ticks - 1).any(|at| {
            let before = self.frames[..=at].iter().rev().take(ticks).take_while(|frame| still(frame)).count();
            let after = || self.frames[at + 1..].iter().take(ticks).take_while(|frame| still(frame)).count();
            before > 0 && before + after() >= ticks
        })
    }
}
