//! The latest frames, and the frames that the baseline is made of.

use crate::baseline::frame_list::FrameList;
use crate::baseline::job_highs::JobHighs;
use crate::baseline::reference::Baseline;
use crate::baseline::removed_ports::RemovedPorts;
use crate::baseline::window::Window;
use crate::model::fabric::Fabric;
use crate::model::frame::{BLOCK, Frame};
use crate::model::signal::Signal;
use crate::signals::table::{ALL, LOOK_BACK};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Frames that are kept.
const HISTORY_FRAMES: usize = 128;
/// Frames of a baseline.
const BASELINE_FRAMES: usize = 60;

/// The latest frames and the baseline frames.
#[derive(Default)]
pub struct History {
    frames: FrameList,
    /// Last known line rate of each port, bytes per second; 0 if it was never reported. It is reported seldom.
    rates: Vec<f64>,
    /// Incremented with each change of `rates`.
    rates_revision: u64,
    /// The shortest distance between two frames, ns.
    step_ns: Option<i64>,
    baseline_frames: FrameList,
    /// Incremented with each new baseline frame.
    baseline_revision: u64,
    /// Cached baselines by number of fresh frames, with the revisions of frames and jobs that they are made of.
    baseline: ((u64, u64), HashMap<usize, Arc<Baseline>>),
    /// Cached local baseline, with its last instant and the revision of jobs.
    local: Option<((i64, u64), Arc<Baseline>)>,
    highs: JobHighs,
}

impl History {
    /// Appends a frame and drops the oldest. The frame of `lag` frames ago joins the baseline, unless it is older than
    /// `calm_ns`.
    pub fn push(&mut self, frame: Frame, lag: usize, baseline_from_ns: i64) {
        let (time_ns, rates) = (frame.time_ns, ALL.iter().filter(|row| row.is_rate()).map(|row| row.signal));
        let told: Vec<(Signal, usize, f64)> = rates.flat_map(|signal| frame.values_of(signal)).collect();
        // The newest may be complete. If samples are further apart than frames, it is once no rate fills it any more.
        [0, LOOK_BACK as usize - 1].into_iter().for_each(|back| self.frames.share(back));
        self.frames.push(Arc::new(frame), HISTORY_FRAMES);
        let steps = self.frames.iter().zip(self.frames.iter().skip(1)).map(|(a, b)| b.time_ns - a.time_ns);
        self.step_ns = steps.min();
        told.into_iter().for_each(|(signal, port, value)| self.fill(time_ns, signal, port, value));
        let past = self.frames.iter().nth_back(lag).filter(|f| f.time_ns >= baseline_from_ns && !f.is_empty());
        let next = past.filter(|f| self.baseline_frames.back().is_none_or(|last| last.time_ns < f.time_ns)).cloned();
        if let Some(frame) = next {
            self.add_baseline_frame(frame);
        }
    }

    /// Corrects rates in the latest frames that exceed what the links can carry, and returns their ports. If the
    /// counters stood still before, the growth is spread over that time; otherwise the rates are removed.
    pub fn correct_glitches(&mut self, ticks: usize) -> Vec<usize> {
        let mut ports = Vec::new();
        for at in self.frames.len().saturating_sub(ticks)..self.frames.len() {
            if self.frames.check(at, self.rates_revision) {
                continue;
            }
            for (_, port, rate) in self.frames[at].values_of(Signal::Rate) {
                if self.rates.len() <= port {
                    self.rates.resize(port + 1, 0.0);
                }
                if self.rates[port] != rate {
                    self.rates[port] = rate;
                    self.rates_revision += 1;
                }
            }
            self.frames.check(at, self.rates_revision);
            for (port, times) in self.frames[at].implausible_rates(&self.rates) {
                let still = |k: &usize| {
                    let moved = |signal| self.frames[at - k].get(signal, port);
                    [Signal::Tx, Signal::Rx].iter().all(|signal| moved(*signal).is_some_and(|rate| rate <= 0.0))
                };
                let before = (1..=at).take_while(still).count();
                self.spread_rate(if times <= (before + 1) as f64 { at - before } else { at }, at, port);
                ports.push(port);
            }
        }
        ports
    }

    /// Spreads the rates of a port in frame `at` over all frames from `since` on; removes them if `since` is `at`.
    fn spread_rate(&mut self, since: usize, at: usize, port: usize) {
        for row in ALL.iter().filter(|row| row.is_rate()) {
            let Some(rate) = self.frames[at].get(row.signal, port) else { continue };
            let parts: Vec<(usize, f64)> = self.frames[at].priority_values(row.signal, port).collect();
            let each = |rate: f64| if since < at { rate / (at - since + 1) as f64 } else { f64::NAN };
            for time_ns in (since..=at).map(|k| self.frames[k].time_ns).collect::<Vec<_>>() {
                if let Some(frame) = self.at(time_ns) {
                    frame.set(row.signal, port, each(rate));
                    parts.iter().for_each(|(of, part)| frame.set_priority(row.signal, *of, port, each(*part)));
                }
            }
        }
    }

    /// Clears the samples of removed ports, so that a reused port index starts empty.
    pub fn remove_ports(&mut self, removed: &mut RemovedPorts) {
        [&mut self.frames, &mut self.baseline_frames].into_iter().for_each(|list| list.replace(|f| removed.frame(f)));
        for port in &removed.ports {
            if let Some(rate) = self.rates.get_mut(*port) {
                *rate = 0.0;
            }
        }
        self.rates_revision += 1;
        (self.baseline, self.local) = Default::default();
    }

    /// Adds a frame that is known to be free of incidents.
    pub fn add_baseline_frame(&mut self, frame: Arc<Frame>) {
        self.baseline_frames.push(frame, BASELINE_FRAMES);
        self.baseline_revision += 1;
    }

    /// Index of the frame of an instant, most often the newest.
    fn index(&self, time_ns: i64) -> Option<usize> {
        let newest = self.frames.len().checked_sub(1).filter(|at| self.frames[*at].time_ns == time_ns);
        newest.or_else(|| self.frames.binary_search_by_key(&time_ns, |f| f.time_ns).ok())
    }

    /// The frame of an instant, for samples that arrive after it was pushed.
    pub fn at(&mut self, time_ns: i64) -> Option<&mut Frame> {
        let at = self.index(time_ns)?;
        let frame = self.frames.change(at)?;
        frame.clear_cache();
        Some(frame)
    }

    /// Copies a rate to the frames just before that have none, because it covers the time since the previous sample.
    pub fn fill(&mut self, time_ns: i64, signal: Signal, port: usize, rate: f64) {
        let Some(at) = self.index(time_ns) else { return };
        let missing = |k: &usize| self.frames[at - k].get(signal, port).is_none();
        let gap = (1..=at.min(LOOK_BACK as usize)).take_while(missing).count();
        // Without a previous sample the start of the rate is unknown.
        if gap == at || gap >= LOOK_BACK as usize {
            return;
        }
        let parts: Vec<(usize, f64)> = self.frames[at].priority_values(signal, port).collect();
        for k in 1..=gap {
            if let Some(frame) = self.frames.change_signal(at - k, signal) {
                frame.clear_cache_of(signal);
                frame.set(signal, port, rate);
                parts.iter().for_each(|(of, part)| frame.set_priority(signal, *of, port, *part));
            }
        }
    }

    /// The newest value of a signal at each of so many ports since an instant (Unix ns); `NaN` where there is none.
    pub fn newest(&self, signal: Signal, ports: usize, from_ns: i64) -> Vec<f32> {
        let mut newest = vec![f32::NAN; ports];
        for frame in self.frames.iter().rev().take_while(|frame| frame.time_ns >= from_ns) {
            for (at, block) in frame.columns[signal as usize].blocks() {
                let known = newest.iter_mut().skip(at * BLOCK);
                known
                    .zip(&*block.values)
                    .filter(|(known, _)| known.is_nan())
                    .for_each(|(known, value)| *known = *value);
            }
        }
        newest
    }

    /// The last known line rate of a port, bytes per second.
    pub fn line_rate(&self, port: usize) -> Option<f64> {
        self.rates.get(port).copied().filter(|rate| *rate > 0.0)
    }

    /// Instant of the newest frame, Unix nanoseconds.
    pub fn now_ns(&self) -> i64 {
        self.frames.back().map_or(0, |f| f.time_ns)
    }

    /// Indices of the last `ticks` frames that are not older than an instant.
    pub fn span_since(&self, ticks: usize, time_ns: i64) -> Range<usize> {
        let begin = self.frames.partition_point(|f| f.time_ns < time_ns);
        begin.max(self.frames.len().saturating_sub(ticks))..self.frames.len()
    }

    /// Indices of the frames from one instant up to another.
    pub fn span_between(&self, from_ns: i64, to_ns: i64) -> Range<usize> {
        let at = |time_ns: i64| self.frames.partition_point(|f| f.time_ns < time_ns);
        at(from_ns).min(at(to_ns))..at(to_ns)
    }

    /// Whether any of these frames before an instant (Unix ns) got samples after it had been evaluated.
    pub fn has_late_frames(&self, span: Range<usize>, before_ns: i64) -> bool {
        self.frames.range(span).any(|frame| frame.late && frame.time_ns < before_ns)
    }

    /// The frames of a span.
    pub fn window(&self, span: Range<usize>) -> Window {
        self.frames.window(span)
    }

    /// The last `ticks` frames that are not older than an instant.
    pub fn last_since(&self, ticks: usize, time_ns: i64) -> Window {
        self.window(self.span_since(ticks, time_ns))
    }

    /// The frames from one instant up to another.
    pub fn between(&self, from_ns: i64, to_ns: i64) -> Window {
        self.window(self.span_between(from_ns, to_ns))
    }

    /// Seconds between frames: the shortest recent distance, because some frames may be missing.
    pub fn step_s(&self) -> f64 {
        self.step_ns.map_or(1.0, |ns| ns as f64 / 1e9)
    }

    /// The global baseline. Frames before `fresh_ns` are compared with, but do not count as known traffic.
    pub fn baseline(&mut self, fabric: &Fabric, fresh_ns: i64) -> Arc<Baseline> {
        let of = (self.baseline_revision, fabric.revision());
        if self.baseline.0 != of {
            self.baseline = (of, HashMap::new());
        }
        let fresh = self.baseline_frames.iter().filter(|frame| frame.time_ns >= fresh_ns).count();
        let any = self.baseline.1.values().next().cloned();
        let (calm, highs) = (&self.baseline_frames, &mut self.highs);
        let learn = || Baseline::learning(calm.window(0..calm.len()), fabric, fresh_ns, highs);
        let new = || Arc::new(any.map_or_else(learn, |baseline| baseline.known(fresh)));
        self.baseline.1.entry(fresh).or_insert_with(new).clone()
    }

    /// The baseline of a fault domain without incidents since an instant (Unix ns): the latest frames but the last
    /// `lag`. Falls back to the global baseline, with `fresh_ns`, if that has more frames or incidents occurred.
    pub fn local_baseline(&mut self, fabric: &Fabric, lag: usize, since_ns: i64, fresh_ns: i64) -> Arc<Baseline> {
        let filled = (0..self.frames.len().saturating_sub(lag)).rev().filter(|at| !self.frames[*at].is_empty());
        let recent: Vec<usize> = filled.take(BASELINE_FRAMES).collect();
        let time_ns = |at: &usize| self.frames[*at].time_ns;
        let (first, last) = (recent.last().map(time_ns), recent.first().map(time_ns));
        let stopped = self.baseline_frames.back().is_some_and(|calm| Some(calm.time_ns) < last);
        let Some(last) =
            last.filter(|_| stopped && recent.len() >= self.baseline_frames.len() && first >= Some(since_ns))
        else {
            return self.baseline(fabric, fresh_ns);
        };
        let of = (last, fabric.revision());
        if let Some((_, baseline)) = self.local.as_ref().filter(|(known, _)| *known == of) {
            return baseline.clone();
        }
        let (oldest, end) = (recent[recent.len() - 1], recent[0] + 1);
        let window = if end - oldest == recent.len() {
            self.frames.window(oldest..end)
        } else {
            Window::new(recent.iter().rev().map(|at| self.frames[*at].clone()).collect())
        };
        let baseline = Baseline::learning(window, fabric, i64::MIN, &mut self.highs);
        self.local.insert((of, Arc::new(baseline))).1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::frame::Column;
    use crate::model::ports::Ports;
    use crate::model::topology::Topology;

    #[test]
    fn baseline_of_some_ports_keeps_only_their_samples() {
        let mut history = History::default();
        for second in 0..40 {
            let mut frame = Frame::new(second * 1_000_000_000);
            (0..300).for_each(|port| frame.set(Signal::Tx, port, (port * 2) as f64 + second as f64));
            history.push(frame, 1, i64::MIN);
        }
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let all = history.baseline(&fabric, 0);
        assert!(Arc::ptr_eq(&all, &history.baseline(&fabric, 0)), "it is worked out once");
        history.push(Frame::new(40_000_000_000), 1, i64::MIN);
        assert!(!Arc::ptr_eq(&all, &history.baseline(&fabric, 0)), "one more frame is usual");
        let few = all.only_ports(&[7, 130]);
        assert_eq!((few.fresh, few.window.ticks()), (all.fresh, all.window.ticks()));
        for port in [0, 6, 7, 8, 129, 130, 299, 300] {
            let kept = [7, 130].contains(&port);
            let of =
                |baseline: &Baseline| (baseline.window.mean(Signal::Tx, port), baseline.window.max(Signal::Tx, port));
            assert_eq!(of(&few), if kept { of(&all) } else { (None, None) }, "{port}");
        }
        let stretches = few.window.frames().iter().flat_map(|f| &f.columns).flat_map(Column::blocks).count();
        assert_eq!(stretches, 2 * few.window.ticks(), "what is not kept takes no room");
    }

    #[test]
    fn values_of_slow_samples_share_memory_once_they_are_complete() {
        let mut history = History::default();
        for second in 0..60_i64 {
            // Each port has a sample in ten seconds, in a second of its own.
            let mut frame = Frame::new(second * 1_000_000_000);
            if second % 10 < 4 {
                frame.set(Signal::Retransmits, second as usize % 10, 0.0);
            }
            history.push(frame, LOOK_BACK as usize, i64::MIN);
        }
        let values = |at: usize| {
            let (_, block) = history.frames[at].columns[Signal::Retransmits as usize].blocks().next().unwrap();
            block.values.clone()
        };
        assert!((20..38).all(|at| Arc::ptr_eq(&values(at), &values(at + 1))));
    }

    #[test]
    fn means_do_not_depend_on_cached_suffixes() {
        let mut history = History::default();
        for second in 0..30_i64 {
            let mut frame = Frame::new(second * 1_000_000_000);
            for port in (0..300).filter(|port| !(port + second as usize).is_multiple_of(7)) {
                frame.set(Signal::Tx, port, (port as i64 * second) as f64);
                frame.set(Signal::PauseRx, port, 0.5);
                if port % 2 == 0 && second > 20 {
                    frame.set_priority(Signal::PauseRx, 3, port, 0.5);
                }
            }
            history.push(frame, 1, i64::MIN);
        }
        let shortest = Arc::new(history.window(25..30));
        let shorter = Arc::new(history.window(18..30).with_suffix(Some(shortest)));
        let (plain, known) = (history.window(3..30), history.window(3..30).with_suffix(Some(shorter)));
        for port in 0..400 {
            let of = |window: &Window| {
                let mean = |signal| window.mean(signal, port).map(|mean| (mean * 1e6).round());
                (
                    mean(Signal::Tx),
                    mean(Signal::PauseRx),
                    window.priority_mean(Signal::PauseRx, 3, port).map(|m| (m * 1e6).round()),
                )
            };
            assert_eq!(of(&plain), of(&known), "{port}");
        }
        assert_eq!(plain.priority_mean(Signal::PauseRx, 3, 2).map(|m| m > 0.1 && m < 0.2), Some(true), "of all frames");
    }

    #[test]
    fn implausible_rates_are_corrected() {
        let moved = |rates: [f64; 5]| {
            let mut history = History::default();
            for (second, rate) in rates.into_iter().enumerate() {
                let mut frame = Frame::new(second as i64 * 1_000_000_000);
                for port in 0..2 {
                    let leaps = if port == 0 { rate } else { 11.0 };
                    [Signal::Tx, Signal::Rx, Signal::CnpRx].iter().for_each(|signal| frame.set(*signal, port, leaps));
                    frame.set(Signal::Queue, port, 7.0);
                    if second == 0 {
                        frame.set(Signal::Rate, port, 10.0);
                    }
                }
                history.push(frame, 20, i64::MIN);
                history.correct_glitches(2);
            }
            assert!(history.frames.iter().all(|f| f.get(Signal::Queue, 0) == Some(7.0)), "it is no rate");
            assert!(history.frames.iter().all(|f| f.get(Signal::Tx, 1) == Some(11.0)), "nor that port");
            [Signal::Tx, Signal::CnpRx].map(|s| history.frames.iter().map(|f| f.get(s, 0)).collect::<Vec<_>>())
        };
        let one = vec![Some(11.0), Some(11.0), Some(12.0), Some(12.0), Some(11.0)];
        assert_eq!(moved([11.0, 11.0, 30.0, 12.0, 11.0]), [one.clone(), one], "not measured: as in the frame after it");
        let late = vec![Some(11.0), Some(10.0), Some(10.0), Some(10.0), Some(11.0)];
        assert_eq!(moved([11.0, 0.0, 0.0, 30.0, 11.0]), [late.clone(), late], "it moved that while they stood still");
        let more = vec![Some(11.0), Some(0.0), Some(0.0), Some(11.0), Some(11.0)];
        assert_eq!(moved([11.0, 0.0, 0.0, 99.0, 11.0]), [more.clone(), more], "nor can it have moved that");
    }

    #[test]
    fn rate_fills_the_frames_it_covers() {
        let mut history = History::default();
        let mut push = |second: i64, rate: Option<f64>| {
            let mut frame = Frame::new(second * 1_000_000_000);
            rate.into_iter().for_each(|rate| frame.set(Signal::Tx, 0, rate));
            frame.set(Signal::Queue, 0, 7.0);
            history.push(frame, 20, i64::MIN);
        };
        // The first sample has no rate, nor has a sample after a long gap.
        let told = [None, Some(4.0), None, None, Some(1.0)].into_iter();
        let told = told.chain([None; LOOK_BACK as usize]).chain([Some(9.0)]);
        told.enumerate().for_each(|(second, rate)| push(second as i64, rate));
        let rates: Vec<Option<f64>> = history.frames.iter().map(|f| f.get(Signal::Tx, 0)).collect();
        assert_eq!(rates[..5], [None, Some(4.0), Some(1.0), Some(1.0), Some(1.0)]);
        assert_eq!(rates[5..], [&[None; LOOK_BACK as usize][..], &[Some(9.0)]].concat());
    }
}
