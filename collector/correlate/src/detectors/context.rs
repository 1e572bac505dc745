//! The input of a detector: a window of frames, the baseline before it, and the fabric. Detectors only read it.

use crate::baseline::job_load::JobLoad;
use crate::baseline::job_phases::JobFrame;
use crate::baseline::reference::Baseline;
use crate::baseline::window::Window;
use crate::detectors::acquittal::acquittal;
use crate::detectors::fault_domain::FaultDomain;
use crate::detectors::hold_signal::{CREDITS, PAUSED};
use crate::detectors::thresholds::{Threshold, Thresholds};
use crate::model::fabric::{Fabric, Job};
use crate::model::frame::Frame;
use crate::model::priority::{PRIORITIES, Priorities};
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::cell::OnceCell;
use std::collections::HashSet;

/// Consecutive frames without traffic after which the counters of a usually busy port are not trusted.
const STILL: usize = 5;
/// Traffic in bytes per second from which two ends can be compared, and the share of it that both must have counted.
const MOVES: f64 = 1e6;
const SAME: f64 = 0.9;
/// Events of a port that loses packets.
const EVENTS: [Signal; 4] = [Signal::Timeouts, Signal::Retransmits, Signal::RetriesExceeded, Signal::Discards];
/// Time after its begin in which a job loads its data and its model, and for which a baseline remembers that.
const YOUNG_NS: i64 = 120_000_000_000;

/// The input of a detector. Values are `None` where nothing was measured.
pub struct DetectorContext<'a> {
    /// Topology, ports and jobs.
    pub fabric: &'a Fabric,
    /// The window to evaluate.
    pub window: &'a Window,
    /// All known frames up to the end of the window, to see what began first.
    pub history: &'a Window,
    /// Frames and job throughput from before the incident.
    pub baseline: &'a Baseline,
    /// Seconds between frames.
    pub step_s: f64,
    /// The fault domain to evaluate.
    pub domain: &'a FaultDomain,
    /// Thresholds with the user's overrides.
    pub thresholds: &'a Thresholds,
    slowdowns: &'a SlowdownCache,
}

/// Slowdown of every job, computed on first use.
pub type SlowdownCache = OnceCell<Vec<Option<JobSlowdown>>>;

impl<'a> DetectorContext<'a> {
    /// Creates a context. `slowdowns` must not be shared between windows, baselines or fabrics.
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

    /// Ports of the fault domain.
    pub fn ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.ports.iter().copied()
    }

    /// Host ports of the fault domain.
    pub fn host_ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.hosts.iter().copied()
    }

    /// Switch ports of the fault domain.
    pub fn switch_ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.switches.iter().copied()
    }

    /// Whether any switch of the fault domain reports a signal. Exporters report traffic, but neither queues nor waits.
    pub fn switches_report(&self, signal: Signal) -> bool {
        self.switch_ports().any(|port| self.mean(signal, port).is_some())
    }

    /// A window of the same length that ends with the newest frame with samples of every switch that is read; `None` if this
    /// window does.
    pub fn until_all_switches(&self) -> Option<Window> {
        let (frames, ticks) = (self.window.frames(), self.window.ticks());
        let newest = |port| frames.iter().rposition(|frame| frame.get(Signal::Tx, port).is_some());
        let sampled = self.switch_ports().filter_map(newest).min()? + 1;
        (sampled < ticks).then(|| self.history.earlier(ticks, ticks - sampled))
    }

    /// Whether the switch of a host port reports a signal, or any switch if the cable of that port is unknown. What hosts
    /// alone tell is only needed where it does not.
    pub fn leaf_reports(&self, host: usize, signal: Signal) -> bool {
        let peer = self.fabric.ports.list[host].peer;
        peer.map_or_else(|| self.switches_report(signal), |port| self.mean(signal, port).is_some())
    }

    /// Jobs of the fault domain.
    pub fn jobs(&self) -> impl Iterator<Item = usize> + '_ {
        self.domain.jobs.iter().copied()
    }

    /// The same with another window. `slowdowns` must belong to that window.
    pub fn with_window<'b>(&'b self, window: &'b Window, slowdowns: &'b SlowdownCache) -> DetectorContext<'b> {
        DetectorContext { window, slowdowns, ..*self }
    }

    /// Length of the window in seconds.
    pub fn seconds(&self) -> f64 {
        self.window.ticks() as f64 * self.step_s
    }

    /// Value of a threshold.
    pub fn threshold(&self, threshold: &Threshold) -> f64 {
        self.thresholds.get(threshold)
    }

    /// Mean of a signal in the window.
    pub fn mean(&self, signal: Signal, port: usize) -> Option<f64> {
        self.window.mean(signal, port)
    }

    /// Events of a rate in the window. Frames without samples add none: each rate is also in the frames that it covers.
    pub fn count(&self, signal: Signal, port: usize) -> Option<f64> {
        let all = self.window.sum(signal, port)?;
        // Hardly any port has any.
        Some(if all == 0.0 { 0.0 } else { self.window.values(signal, port).sum::<f64>() * self.step_s })
    }

    /// Mean for one priority, or the port total if the driver does not count by priority.
    pub fn mean_in_priority(&self, signal: Signal, port: usize, priority: Option<usize>) -> Option<f64> {
        let all = self.mean(signal, port)?;
        let Some(priority) = priority.filter(|_| all > 0.0) else { return Some(all) };
        let mut parts = self.priority_means(signal, port).peekable();
        let known = parts.peek().is_some();
        let own = parts.find(|(of, _)| *of == priority).map(|(_, mean)| mean);
        Some(if known { own.unwrap_or(0.0) } else { all })
    }

    /// Priorities whose mean is at least `least`, or the largest ones if none is.
    pub fn priorities(&self, signal: Signal, port: usize, least: f64) -> Priorities {
        let most = self.priority_means(signal, port).map(|(_, mean)| mean).fold(0.0, f64::max);
        self.priority_means(signal, port).filter(|(_, mean)| *mean >= least.min(most)).map(|(of, _)| of).collect()
    }

    /// The priority with the largest mean; `None` if the driver does not count by priority.
    pub fn dominant_priority(&self, signal: Signal, port: usize) -> Option<usize> {
        self.priority_means(signal, port).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(of, _)| of)
    }

    /// Means by priority.
    fn priority_means(&self, signal: Signal, port: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..PRIORITIES).filter_map(move |of| Some((of, self.window.priority_mean(signal, of, port)?)))
    }

    /// Sum of a signal's means over ports; ports without samples add nothing.
    pub fn sum(&self, signal: Signal, ports: impl Iterator<Item = usize>) -> f64 {
        ports.filter_map(|p| self.mean(signal, p)).sum()
    }

    /// Mean of a signal in the baseline.
    pub fn baseline_mean(&self, signal: Signal, port: usize) -> Option<f64> {
        self.baseline.window.mean(signal, port)
    }

    /// Sum of a signal's baseline means over ports.
    pub fn baseline_sum(&self, signal: Signal, ports: impl Iterator<Item = usize>) -> f64 {
        ports.filter_map(|p| self.baseline_mean(signal, p)).sum()
    }

    /// Line rate in bytes per second: from the baseline, the topology, or the window, in this order.
    pub fn line_rate(&self, port: usize) -> Option<f64> {
        let baseline = self.baseline_mean(Signal::Rate, port).filter(|r| *r > 0.0);
        baseline
            .or_else(|| self.fabric.nominal_rate(port))
            .or_else(|| self.mean(Signal::Rate, port))
            .filter(|r| *r > 0.0)
    }

    /// The port at the other end of the cable, if the traffic in the baseline confirms the topology: one end received
    /// what the other sent.
    pub fn confirmed_peer(&self, port: usize) -> Option<usize> {
        let peer = self.fabric.ports.list[port].peer?;
        let [sent, got] = [self.baseline_mean(Signal::Tx, peer)?, self.baseline_mean(Signal::Rx, port)?];
        (sent.max(got) >= MOVES && sent.min(got) >= SAME * sent.max(got)).then_some(peer)
    }

    /// First frame of the window for which a condition holds, Unix nanoseconds.
    pub fn first_time(&self, so: impl Fn(&Frame) -> bool) -> Option<i64> {
        self.window.frames().iter().find(|f| so(f)).map(|f| f.time_ns)
    }

    /// Throughput of a job against its baseline; `None` if unknown, or if the job's own ranks hold it back: what it loses then says
    /// nothing of the network.
    pub fn slowdown(&self, job: usize) -> Option<JobSlowdown> {
        let own =
            |job| acquittal(self.fabric, self.thresholds, self.history, self.window.time_range_ns()[0], job).is_some();
        let one = |job| if own(job) { None } else { self.compare_job(job) };
        self.slowdowns.get_or_init(|| (0..self.fabric.jobs.len()).map(one).collect())[job]
    }

    /// Throughput of all jobs against their baselines, where known.
    pub fn slowdowns(&self) -> impl Iterator<Item = (usize, JobSlowdown)> + '_ {
        self.jobs().filter_map(|job| Some((job, self.slowdown(job)?)))
    }

    /// Ports of a job that stalled for so many consecutive frames while a port of the same name on another host went
    /// on. If a whole rail rests, its ports are not stalled.
    pub fn stalled_alone(&self, job: &Job, ticks: usize) -> Vec<usize> {
        let end = |port: &usize| &self.fabric.ports.list[*port].end;
        let (still, moving): (Vec<usize>, Vec<usize>) = job.ports.iter().partition(|p| self.window.stalled(**p, ticks));
        let goes_on: HashSet<&str> = moving.iter().map(|port| end(port).port.as_str()).collect();
        still.into_iter().filter(|port| goes_on.contains(end(port).port.as_str())).collect()
    }

    /// Ports of a job that may be held back, down or lose packets in some frame of the window, by its sums.
    fn suspects(&self, job: usize) -> Vec<usize> {
        let (paused, waits) = (self.threshold(&PAUSED), self.threshold(&CREDITS));
        let at_least = |signal, port, least: f64| self.window.sum(signal, port).is_some_and(|sum| sum >= least);
        let suspect = |port: &usize| {
            at_least(Signal::PauseRx, *port, paused)
                || at_least(Signal::PauseTx, *port, paused)
                || at_least(Signal::XmitWait, *port, waits)
                || self.mean(Signal::Up, *port).is_some_and(|up| up != 1.0)
                || EVENTS.iter().any(|signal| self.window.sum(*signal, *port).is_some_and(|n| n > 0.0))
        };
        self.fabric.jobs[job].ports.iter().copied().filter(suspect).collect()
    }

    /// Whether any of these ports is held back, down or loses packets in a frame.
    fn is_troubled(&self, frame: &Frame, ports: &[usize]) -> bool {
        let (paused, waits) = (self.threshold(&PAUSED), self.threshold(&CREDITS));
        let at_least = |signal, port, least: f64| frame.get(signal, port).is_some_and(|value| value >= least);
        ports.iter().any(|port| {
            at_least(Signal::PauseRx, *port, paused)
                || at_least(Signal::PauseTx, *port, paused)
                || at_least(Signal::XmitWait, *port, waits)
                || frame.get(Signal::Up, *port) == Some(0.0)
                || EVENTS.iter().any(|signal| frame.get(*signal, *port).is_some_and(|n| n > 0.0))
        })
    }

    /// Whether a job began less than two minutes before the window.
    fn is_young(&self, job: usize) -> bool {
        self.window.time_range_ns()[0].saturating_sub(self.fabric.jobs[job].since_ns) < YOUNG_NS
    }

    fn compare_job(&self, job: usize) -> Option<JobSlowdown> {
        let baseline = self.baseline.job(self.fabric, job)?;
        let slowdown = |now: Vec<f64>, baseline: &JobLoad| {
            let ticks = self.window.ticks();
            let now: Vec<f64> = now.into_iter().map(|load| load / baseline.mean()).collect();
            let spread = baseline.spread(ticks);
            Some(JobSlowdown {
                ratio: mean(now.iter().copied())?,
                noise: spread.noise,
                peak: spread.peak,
                highest: if self.is_young(job) { f64::INFINITY } else { spread.highest },
                sending: baseline.phases().sending_ratio(&now, baseline.spread(now.len()).noise),
                rests: baseline.phases().rests(),
            })
        };
        let all = slowdown(self.window.load(self.fabric, job), baseline)?;
        if all.ratio >= 1.0 {
            return Some(all);
        }
        // A job that computes for a while loses nothing: the speed of its stretches of communication counts.
        let mean = baseline.mean();
        let frames = self.window.job_frames(self.fabric, job);
        let suspects = OnceCell::new();
        let troubled = |frame| self.is_troubled(frame, suspects.get_or_init(|| self.suspects(job)));
        let frames = frames.map(|(frame, load)| JobFrame { load: load / mean, troubled: troubled(frame) });
        if let Some(in_cycles) = baseline.phases().compare(frames, all.ratio) {
            return in_cycles.map(|(ratio, noise)| JobSlowdown { ratio, noise, ..all });
        }
        // A single stalled port is a fault of its agent or driver: a job with a blocked port waits for it on all
        // others.
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

/// A job's throughput against its baseline. All values are relative to the baseline mean.
#[derive(Clone, Copy, Debug)]
pub struct JobSlowdown {
    /// Throughput in the window.
    pub ratio: f64,
    /// Standard deviation of the baseline over windows of this length.
    pub noise: f64,
    /// Highest baseline throughput over windows of this length.
    pub peak: f64,
    /// Highest throughput over windows of this length since the job began; infinite in its first two minutes, when what it
    /// does is not yet what it always does.
    pub highest: f64,
    /// Throughput in the frames in which it sends, and its standard error (`JobPhases::sending_ratio`).
    pub sending: Option<(f64, f64)>,
    /// Whether it rests between its exchanges, so that standing still for a while says nothing.
    pub rests: bool,
}

impl JobSlowdown {
    /// Whether it lost more than a share, beyond its noise.
    pub fn lost_more_than(&self, part: f64) -> bool {
        self.ratio + self.noise < 1.0 - part
    }

    /// Whether it lost more than a share, and also of its throughput while it sends: a job that only rests longer (it
    /// computes, evaluates, waits for input) loses nothing to the network. A job that hardly sends any more tells
    /// nothing about the reason.
    pub fn slowed_more_than(&self, part: f64) -> bool {
        self.lost_more_than(part) && self.sending.is_some_and(|(ratio, doubt)| ratio + doubt < 1.0 - part)
    }
}
