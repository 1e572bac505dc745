//! Pairs of ports of a job that move data far slower than they did, and than the job's other ports.

use crate::baseline::window::Window;
use crate::detectors::context::DetectorContext;
use crate::detectors::evidence::nth;
use crate::detectors::path_votes::peers;
use crate::detectors::thresholds::thresholds;
use crate::model::frame::Frame;
use crate::model::routes::path::{Path, PathSource};
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::collections::BTreeMap;
use std::sync::Arc;

thresholds! {
    /// rate of both ends of a pair while they move data, from which it is slow
    FELL = "slow_path.fell", 0.75, "times usual";
    /// the same, relative to the median of the job's ports: an application that sends less does so at all of them
    BEHIND = "slow_path.behind", 0.85, "times the median";
    /// notifications of a pair from which its packets meet a queue that they did not meet before
    MORE_NOTIFIED = "slow_path.notified", 2.0, "times usual";
}

/// Load from which a port moves data of its job.
const LEAST: f64 = 0.05;
/// Samples with data that a mean rate needs, now and in the baseline.
const BUSY: [usize; 2] = [4, 10];

/// A port that sends to another, both far below their former rates.
pub(super) struct SlowPair {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// Rate while data moves, relative to the baseline, at the end where it fell less.
    pub part: f64,
    /// Growth of notifications from the receiver to the sender, per second.
    pub notifications: f64,
    /// Paths that its packets may take.
    pub paths: Vec<Arc<Path>>,
}

impl SlowPair {
    /// Whether all of its paths are known, as opposed to one of several.
    pub fn is_exact(&self) -> bool {
        self.paths.iter().all(|path| path.source != PathSource::OneOf)
    }
}

/// Slow pairs of a job: both ends move data far slower than they did while they do, and much slower than its other ports.
pub(super) fn slow_pairs(ctx: &DetectorContext<'_>, job: usize) -> Vec<SlowPair> {
    let ports = &ctx.fabric.jobs[job].ports;
    let parts = |signal| ports.iter().filter_map(|p| Some((*p, speed(ctx, signal, *p)?))).collect::<BTreeMap<_, _>>();
    let (sends, receives) = (parts(Signal::Tx), parts(Signal::Rx));
    let mut all: Vec<f64> = sends.values().chain(receives.values()).copied().collect();
    all.sort_by(f64::total_cmp);
    let Some(usual) = nth(&all, 0.5) else { return Vec::new() };
    let most = ctx.threshold(&FELL).min(ctx.threshold(&BEHIND) * usual);
    let slow = |signal, port: &usize, part: f64| part <= most && !was_as_slow(ctx, signal, *port);
    let mut pairs = Vec::new();
    for (from, sent) in sends.iter().filter(|(port, part)| slow(Signal::Tx, port, **part)) {
        let peers = peers(ctx, *from);
        let all: Vec<usize> = peers.keys().copied().collect();
        for (to, paths) in peers {
            let got = receives.get(&to).copied().filter(|part| slow(Signal::Rx, &to, *part));
            let Some(got) = got else { continue };
            let between = paths.iter().any(|path| path.hops.iter().any(|hop| ctx.fabric.is_between_switches(*hop)));
            if between {
                let notifications = notified(ctx, *from, to, &all);
                pairs.push(SlowPair { from: *from, to, part: sent.max(got), notifications, paths });
            }
        }
    }
    pairs
}

/// Mean rate of a port in the samples in which it moves data, relative to the baseline: when a job sends is up to the job, how
/// fast is up to the network. `None` of a port with too few such samples.
fn speed(ctx: &DetectorContext<'_>, signal: Signal, port: usize) -> Option<f64> {
    let least = LEAST * ctx.line_rate(port)?;
    let rate = |window: &Window| busy(window.values(signal, port), least);
    let [few, many] = BUSY;
    let enough = |least: usize| move |(rate, samples): (f64, usize)| (samples >= least).then_some(rate);
    Some(rate(ctx.window).and_then(enough(few))? / rate(&ctx.baseline.window).and_then(enough(many))?)
}

/// Whether a port was as slow in any part of the baseline that is as long as the window: phases of a job differ.
fn was_as_slow(ctx: &DetectorContext<'_>, signal: Signal, port: usize) -> bool {
    let Some(least) = ctx.line_rate(port).map(|rate| LEAST * rate) else { return true };
    let rate = |frames: &[Arc<Frame>]| busy(frames.iter().filter_map(|frame| frame.get(signal, port)), least);
    let Some((now, _)) = rate(ctx.window.frames()) else { return true };
    let frames = ctx.baseline.window.frames();
    let length = ctx.window.ticks().min(frames.len() / 2).max(1);
    frames.windows(length).filter_map(rate).any(|(rate, samples)| samples >= BUSY[0] && rate <= now)
}

/// Mean of the rates from which a port moves data, and their number; `None` if there are none.
fn busy(rates: impl Iterator<Item = f64>, least: f64) -> Option<(f64, usize)> {
    let rates: Vec<f64> = rates.filter(|rate| *rate >= least).collect();
    Some((mean(rates.iter().copied())?, rates.len()))
}

/// Growth of the notifications that a sender gets from one of its peers: those that it gets, divided over the peers that send
/// notifications in the same sample.
fn notified(ctx: &DetectorContext<'_>, from: usize, to: usize, peers: &[usize]) -> f64 {
    let of = |frames: &[Arc<Frame>]| {
        let of_frame = |frame: &Arc<Frame>| {
            let got = frame.get(Signal::CnpRx, from).filter(|n| *n > 0.0)?;
            let sent = |port: usize| frame.get(Signal::CnpTx, port).unwrap_or(0.0);
            let all: f64 = peers.iter().map(|port| sent(*port)).sum();
            (all > 0.0).then(|| got * sent(to) / all)
        };
        frames.iter().filter_map(of_frame).sum::<f64>() / frames.len().max(1) as f64
    };
    let (now, before) = (of(ctx.window.frames()), of(ctx.baseline.window.frames()));
    if now >= ctx.threshold(&MORE_NOTIFIED) * before { now - before } else { 0.0 }
}
