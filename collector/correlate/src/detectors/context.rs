//! What a detector is given: a stretch of time, what was usual before it, and the fabric. It asks; it keeps nothing.

use crate::detectors::fault_domain::FaultDomain;
use crate::model::fabric::{Fabric, Job};
use crate::baseline::window::Window;
use crate::model::frame::Frame;
use crate::model::stats::mean;
use crate::detectors::thresholds::{Threshold, Thresholds};
use crate::model::priority::{PRIORITIES, Priorities};
use crate::model::signal::Signal;
use crate::baseline::job_load::JobLoad;
use crate::baseline::reference::Baseline;
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
    pub now: &'a Window,
    /// The same and what was before it, as far as it is known: who was first.
    pub past: &'a Window,
    /// Before trouble.
    pub usual: &'a Baseline,
    /// Seconds from one tick to the next.
    pub step_s: f64,
    /// The part of the fabric that is judged.
    pub district: &'a FaultDomain,
    /// Numbers to compare with.
    pub limits: &'a Thresholds,
    fares: &'a SlowdownCache,
}

/// How all jobs fare, once it was asked.
pub type SlowdownCache = OnceCell<Vec<Option<JobSlowdown>>>;

impl<'a> DetectorContext<'a> {
    /// Of its parts, of ticks that are so many seconds apart. `fares` is of no other stretch, usual or fabric.
    pub fn new(
        fabric: &'a Fabric,
        limits: &'a Thresholds,
        [now, past]: [&'a Window; 2],
        usual: &'a Baseline,
        step_s: f64,
        district: &'a FaultDomain,
        fares: &'a SlowdownCache,
    ) -> Self {
        Self { fabric, now, past, usual, step_s, district, limits, fares }
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.district.ports.iter().copied()
    }

    /// All ports of hosts.
    pub fn host_ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.district.hosts.iter().copied()
    }

    /// All ports of switches.
    pub fn switch_ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.district.switches.iter().copied()
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = usize> + '_ {
        self.district.jobs.iter().copied()
    }

    /// The same of its last ticks alone. `fares` is of no other.
    pub fn lately<'b>(&'b self, now: &'b Window, fares: &'b SlowdownCache) -> DetectorContext<'b> {
        DetectorContext { now, fares, ..*self }
    }

    /// Seconds of the stretch.
    pub fn seconds(&self) -> f64 {
        self.now.ticks() as f64 * self.step_s
    }

    /// A number to compare with.
    pub fn limit(&self, limit: &Threshold) -> f64 {
        self.limits.get(limit)
    }

    /// Mean of a signal.
    pub fn now(&self, signal: Signal, port: usize) -> Option<f64> {
        self.now.mean(signal, port)
    }

    /// Mean of a signal as far as it may be of a priority: all of it where nobody says whose it is.
    pub fn of_priority(&self, signal: Signal, port: usize, priority: Option<usize>) -> Option<f64> {
        let all = self.now(signal, port)?;
        let Some(priority) = priority.filter(|_| all > 0.0) else { return Some(all) };
        let mut parts = self.parts(signal, port).peekable();
        let known = parts.peek().is_some();
        let own = parts.find(|(of, _)| *of == priority).map(|(_, mean)| mean);
        Some(if known { own.unwrap_or(0.0) } else { all })
    }

    /// Priorities of which a signal's mean is at least so much, or those with most of it if none is.
    pub fn priorities(&self, signal: Signal, port: usize, least: f64) -> Priorities {
        let most = self.parts(signal, port).map(|(_, mean)| mean).fold(0.0, f64::max);
        self.parts(signal, port).filter(|(_, mean)| *mean >= least.min(most)).map(|(of, _)| of).collect()
    }

    /// The priority that has most of a signal's mean; `None` where nobody says.
    pub fn loudest(&self, signal: Signal, port: usize) -> Option<usize> {
        self.parts(signal, port).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(of, _)| of)
    }

    /// What of a signal's mean is whose.
    fn parts(&self, signal: Signal, port: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..PRIORITIES).filter_map(move |of| Some((of, self.now.mean_part(signal, of, port)?)))
    }

    /// Sum of a signal's means over ports; those that were not measured add nothing.
    pub fn sum(&self, signal: Signal, ports: impl Iterator<Item = usize>) -> f64 {
        ports.filter_map(|p| self.now(signal, p)).sum()
    }

    /// What was usual on average.
    pub fn usual(&self, signal: Signal, port: usize) -> Option<f64> {
        self.usual.stretch.mean(signal, port)
    }

    /// The same over ports.
    pub fn usual_sum(&self, signal: Signal, ports: impl Iterator<Item = usize>) -> f64 {
        ports.filter_map(|p| self.usual(signal, p)).sum()
    }

    /// Bytes a second of a port's link: as measured before trouble, or as the topology has it.
    pub fn rate(&self, port: usize) -> Option<f64> {
        let usual = self.usual(Signal::Rate, port).filter(|r| *r > 0.0);
        usual.or_else(|| self.fabric.nominal(port)).or_else(|| self.now(Signal::Rate, port)).filter(|r| *r > 0.0)
    }

    /// The port at the other end of the cable, if traffic shows that what the topology says is so: one usually receives what the
    /// other sends.
    pub fn wired(&self, port: usize) -> Option<usize> {
        let peer = self.fabric.ports.list[port].peer?;
        let [sent, got] = [self.usual(Signal::Tx, peer)?, self.usual(Signal::Rx, port)?];
        (sent.max(got) >= MOVES && sent.min(got) >= SAME * sent.max(got)).then_some(peer)
    }

    /// When something was first so, Unix nanoseconds.
    pub fn first(&self, so: impl Fn(&Frame) -> bool) -> Option<i64> {
        self.now.frames().iter().find(|f| so(f)).map(|f| f.time_ns)
    }

    /// How a job fares; `None` if that cannot be told.
    pub fn fare(&self, job: usize) -> Option<JobSlowdown> {
        self.fares.get_or_init(|| (0..self.fabric.jobs.len()).map(|job| self.judge(job)).collect())[job]
    }

    /// How all jobs fare of which that can be told.
    pub fn fares(&self) -> impl Iterator<Item = (usize, JobSlowdown)> + '_ {
        self.jobs().filter_map(|job| Some((job, self.fare(job)?)))
    }

    /// Ports of a job that stood still for so many ticks in a row, while a port of that name on another of its hosts went on:
    /// where a whole rail rests, that is no wonder.
    pub fn still_alone(&self, job: &Job, ticks: usize) -> Vec<usize> {
        let end = |port: &usize| &self.fabric.ports.list[*port].end;
        let (still, moving): (Vec<usize>, Vec<usize>) =
            job.ports.iter().partition(|p| self.now.stood_still(**p, ticks));
        let goes_on: HashSet<&str> = moving.iter().map(|port| end(port).port.as_str()).collect();
        still.into_iter().filter(|port| goes_on.contains(end(port).port.as_str())).collect()
    }

    fn judge(&self, job: usize) -> Option<JobSlowdown> {
        let usual = self.usual.job(self.fabric, job)?;
        let fare = |now: Vec<f64>, usual: &JobLoad| {
            let (now, ticks) = (mean(now.into_iter())?, self.now.ticks());
            Some(JobSlowdown { ratio: now / usual.mean(), chance: usual.chance(ticks), high: usual.high(ticks) })
        };
        let all = fare(self.now.load(self.fabric, job), usual)?;
        if all.ratio >= 1.0 {
            return Some(all);
        }
        // One that stands still alone is an agent's or a driver's trouble: a job whose port moves nothing waits for it.
        let job = &self.fabric.jobs[job];
        let still = self.still_alone(job, STILL);
        let stuck = |p: &usize| still.contains(p) && !self.usual.stretch.stood_still(*p, STILL);
        let others: Vec<usize> = job.ports.iter().copied().filter(|p| !stuck(p)).collect();
        if others.len() == job.ports.len() {
            return Some(all);
        }
        let usual = JobLoad::of(self.usual.stretch.load_of(&others, job.since_ns), job.since_ns);
        usual.and_then(|usual| fare(self.now.load_of(&others, job.since_ns), &usual)).or(Some(all))
    }
}

/// A job's traffic beside what was usual of it. All are relative to its mean.
#[derive(Clone, Copy, Debug)]
pub struct JobSlowdown {
    /// Now.
    pub ratio: f64,
    /// How much it differs by chance over a time as long.
    pub chance: f64,
    /// The highest that it was over a time as long.
    pub high: f64,
}

impl JobSlowdown {
    /// Whether it lost more than a part, for sure.
    pub fn lost(&self, part: f64) -> bool {
        self.ratio + self.chance < 1.0 - part
    }
}
