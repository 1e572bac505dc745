//! What a detector is given: a stretch of time, what was usual before it, and the fabric. It asks; it keeps nothing.

use crate::baseline::job_load::JobLoad;
use crate::baseline::reference::Baseline;
use crate::baseline::window::Window;
use crate::detectors::fault_domain::FaultDomain;
use crate::detectors::thresholds::{Threshold, Thresholds};
use crate::model::fabric::{Fabric, Job};
use crate::model::frame::Frame;
use crate::model::priority::{PRIORITIES, Priorities};
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::cell::OnceCell;
use std::collections::HashSet;

/// Ticks in a row in which a port that always moves something moves nothing, and its counters are no longer believed.
const STILL: usize = 5;
/// Bytes a second that tell who is wired to whom, and what part of them both ends must have counted.
const MOVES: f64 = 1e6;
const SAME: f64 = 0.9;

/// See the module. Values are `None` where nothing was measured.
pub struct DetectorContext<'a> {
    /// Ports, cables and jobs.
    pub fabric: &'a Fabric,
    /// What is judged.
    pub window: &'a Window,
    /// The same and what was before it, as far as it is known: who was first.
    pub history: &'a Window,
    /// Before trouble.
    pub baseline: &'a Baseline,
    /// Seconds from one tick to the next.
    pub step_s: f64,
    /// The part of the fabric that is judged.
    pub domain: &'a FaultDomain,
    /// Numbers to compare with.
    pub thresholds: &'a Thresholds,
    slowdowns: &'a SlowdownCache,
}

/// How all jobs fare, once it was asked.
pub type SlowdownCache = OnceCell<Vec<Option<JobSlowdown>>>;

impl<'a> DetectorContext<'a> {
    /// Of its parts, of ticks that are so many seconds apart. `fares` is of no other stretch, usual or fabric.
    pub fn new(
        fabric: &'a Fabric,
        thresholds: &'a Thresholds,
        [window, history]: [&'a Window; 2],
        baseline: &'a Baseline,
        step_s: f64,
        domain: &'a FaultDomain,
        slowdowns: &'a SlowdownCache,
    ) -> Self {
        Self { fabric, window, history, baseline, step_s, domain, thresholds, slowdowns }
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.ports.iter().copied()
    }

    /// All ports of hosts.
    pub fn host_ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.hosts.iter().copied()
    }

    /// All ports of switches.
    pub fn switch_ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.switches.iter().copied()
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.jobs.iter().copied()
    }

    /// The same of its last ticks alone. `fares` is of no other.
    pub fn with_window<'b>(&'b self, window: &'b Window, slowdowns: &'b SlowdownCache) -> DetectorContext<'b> {
        DetectorContext { window, slowdowns, ..*self }
    }

    /// Seconds of the stretch.
    pub fn seconds(&self) -> f64 {
        self.window.ticks() as f64 * self.step_s
    }

    /// A number to compare with.
    pub fn threshold(&self, threshold: &Threshold) -> f64 {
        self.thresholds.get(threshold)
    }

    /// Mean of a signal.
    pub fn mean(&self, signal: Signal, port: usize) -> Option<f64> {
        self.window.mean(signal, port)
    }

    /// Mean of a signal as far as it may be of a priority: all of it where nobody says whose it is.
    pub fn mean_in_priority(&self, signal: Signal, port: usize, priority: Option<usize>) -> Option<f64> {
        let all = self.mean(signal, port)?;
        let Some(priority) = priority.filter(|_| all > 0.0) else { return Some(all) };
        let mut parts = self.priority_means(signal, port).peekable();
        let known = parts.peek().is_some();
        let own = parts.find(|(of, _)| *of == priority).map(|(_, mean)| mean);
        Some(if known { own.unwrap_or(0.0) } else { all })
    }

    /// Priorities of which a signal's mean is at least so much, or those with most of it if none is.
    pub fn priorities(&self, signal: Signal, port: usize, least: f64) -> Priorities {
        let most = self.priority_means(signal, port).map(|(_, mean)| mean).fold(0.0, f64::max);
        self.priority_means(signal, port).filter(|(_, mean)| *mean >= least.min(most)).map(|(of, _)| of).collect()
    }

    /// The priority that has most of a signal's mean; `None` where nobody says.
    pub fn dominant_priority(&self, signal: Signal, port: usize) -> Option<usize> {
        self.priority_means(signal, port).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(of, _)| of)
    }

    /// What of a signal's mean is whose.
    fn priority_means(&self, signal: Signal, port: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..PRIORITIES).filter_map(move |of| Some((of, self.window.priority_mean(signal, of, port)?)))
    }

    /// Sum of a signal's means over ports; those that were not measured add nothing.
    pub fn sum(&self, signal: Signal, ports: impl Iterator<Item = usize>) -> f64 {
        ports.filter_map(|p| self.mean(signal, p)).sum()
    }

    /// What was usual on average.
    pub fn baseline_mean(&self, signal: Signal, port: usize) -> Option<f64> {
        self.baseline.window.mean(signal, port)
    }

    /// The same over ports.
    pub fn baseline_sum(&self, signal: Signal, ports: impl Iterator<Item = usize>) -> f64 {
        ports.filter_map(|p| self.baseline_mean(signal, p)).sum()
    }

    /// Bytes a second of a port's link: as measured before trouble, or as the topology has it.
    pub fn line_rate(&self, port: usize) -> Option<f64> {
        let baseline = self.baseline_mean(Signal::Rate, port).filter(|r| *r > 0.0);
        baseline
            .or_else(|| self.fabric.nominal_rate(port))
            .or_else(|| self.mean(Signal::Rate, port))
            .filter(|r| *r > 0.0)
    }

    /// The port at the other end of the cable, if traffic shows that what the topology says is so: one usually receives what the
    /// other sends.
    pub fn confirmed_peer(&self, port: usize) -> Option<usize> {
        let peer = self.fabric.ports.list[port].peer?;
        let [sent, got] = [self.baseline_mean(Signal::Tx, peer)?, self.baseline_mean(Signal::Rx, port)?];
        (sent.max(got) >= MOVES && sent.min(got) >= SAME * sent.max(got)).then_some(peer)
    }

    /// When something was first so, Unix nanoseconds.
    pub fn first_time(&self, so: impl Fn(&Frame) -> bool) -> Option<i64> {
        self.window.frames().iter().find(|f| so(f)).map(|f| f.time_ns)
    }

    /// How a job fares; `None` if that cannot be told.
    pub fn slowdown(&self, job: usize) -> Option<JobSlowdown> {
        self.slowdowns.get_or_init(|| (0..self.fabric.jobs.len()).map(|job| self.compare_job(job)).collect())[job]
    }

    /// How all jobs fare of which that can be told.
    pub fn slowdowns(&self) -> impl Iterator<Item = (usize, JobSlowdown)> + '_ {
        self.jobs().filter_map(|job| Some((job, self.slowdown(job)?)))
    }

    /// Ports of a job that stood still for so many ticks in a row, while a port of that name on another of its hosts went on:
    /// where a whole rail rests, that is no wonder.
    pub fn stalled_alone(&self, job: &Job, ticks: usize) -> Vec<usize> {
        let end = |port: &usize| &self.fabric.ports.list[*port].end;
        let (still, moving): (Vec<usize>, Vec<usize>) = job.ports.iter().partition(|p| self.window.stalled(**p, ticks));
        let goes_on: HashSet<&str> = moving.iter().map(|port| end(port).port.as_str()).collect();
        still.into_iter().filter(|port| goes_on.contains(end(port).port.as_str())).collect()
    }

    fn compare_job(&self, job: usize) -> Option<JobSlowdown> {
        let baseline = self.baseline.job(self.fabric, job)?;
        let slowdown = |now: Vec<f64>, baseline: &JobLoad| {
            let (now, ticks) = (mean(now.into_iter())?, self.window.ticks());
            Some(JobSlowdown { ratio: now / baseline.mean(), noise: baseline.noise(ticks), peak: baseline.peak(ticks) })
        };
        let all = slowdown(self.window.load(self.fabric, job), baseline)?;
        if all.ratio >= 1.0 {
            return Some(all);
        }
        // One that stands still alone is an agent's or a driver's trouble: a job whose port moves nothing waits for it.
        let job = &self.fabric.jobs[job];
        let still = self.stalled_alone(job, STILL);
        let stuck = |p: &usize| still.contains(p) && !self.baseline.window.stalled(*p, STILL);
        let others: Vec<usize> = job.ports.iter().copied().filter(|p| !stuck(p)).collect();
        if others.len() == job.ports.len() {
            return Some(all);
        }
        let baseline = JobLoad::of(self.baseline.window.load_of_ports(&others, job.since_ns), job.since_ns);
        baseline
            .and_then(|baseline| slowdown(self.window.load_of_ports(&others, job.since_ns), &baseline))
            .or(Some(all))
    }
}

/// A job's traffic beside what was usual of it. All are relative to its mean.
#[derive(Clone, Copy, Debug)]
pub struct JobSlowdown {
    /// Now.
    pub ratio: f64,
    /// How much it differs by chance over a time as long.
    pub noise: f64,
    /// The highest that it was over a time as long.
    pub peak: f64,
}

impl JobSlowdown {
    /// Whether it lost more than a part, for sure.
    pub fn lost_more_than(&self, part: f64) -> bool {
        self.ratio + self.noise < 1.0 - part
    }
}
