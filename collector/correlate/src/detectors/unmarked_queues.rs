//! Switches with long queues that mark no packet. How long queues are when this fabric marks, and how often a sample with such
//! a queue passes without a mark, is known from the baseline.

use crate::baseline::window::Window;
use crate::detectors::context::DetectorContext;
use crate::detectors::evidence::{evidence, nth};
use crate::detectors::paused_time::last_minute;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::topology::Role;
use std::collections::BTreeMap;

thresholds! {
    /// lowest chance that a sample with a long queue passes without a mark; a few seconds of baseline cannot prove a smaller one
    CHANCE = "ecn_marking.chance", 0.05, "chance";
    /// the same chance above which the length of a queue does not say whether it is marked
    UNCERTAIN = "ecn_marking.uncertain", 0.1, "chance";
    /// chance below which it is no coincidence that nothing was marked, among many switches and many seconds
    IMPOSSIBLE = "ecn_marking.impossible", 1e-7, "chance";
    /// quantile of marked queues above which this fabric marks for certain
    LENGTH = "ecn_marking.shorter", 0.75, "share of queues";
    /// marked queues that are needed to know at which length this fabric marks
    SEEN = "ecn_marking.seen", 20.0, "samples";
    /// bytes that a port with a long queue must send in a sample, so that what waited has left it
    DRAINS = "ecn_marking.drains", 2.0, "times its queue";
    /// share of time that such a port may be paused
    HELD = "ecn_marking.held", 0.3, "share of time";
}

/// The queue length at which this fabric marks: a high quantile of the marked queues in the baseline.
fn marking_queue(ctx: &DetectorContext<'_>) -> Option<f64> {
    let usual = &*ctx.baseline.window;
    let marks = |port: &usize| usual.sum(Signal::Marks, *port).is_some_and(|marks| marks > 0.0);
    let mut queues: Vec<f64> = Vec::new();
    for port in ctx.switch_ports().filter(marks).filter(|port| usual.sum(Signal::QueueMax, *port).is_some()) {
        let marked = usual.frames().iter().filter(|f| f.get(Signal::Marks, port).is_some_and(|marks| marks > 0.0));
        queues.extend(marked.filter_map(|frame| frame.get(Signal::QueueMax, port)));
    }
    queues.sort_by(f64::total_cmp);
    nth(&queues, ctx.threshold(&LENGTH)).copied().filter(|_| queues.len() as f64 >= ctx.threshold(&SEEN))
}

/// Samples of a switch with a long queue since its last mark.
#[derive(Default)]
struct Unmarked {
    times: usize,
    /// The latest such port.
    port: usize,
    /// First and last of them, Unix nanoseconds.
    since_ns: i64,
    last_ns: i64,
    /// The last mark, Unix nanoseconds.
    marked_ns: Option<i64>,
}

/// Switches with long queues and no marks, for too long to be a coincidence.
pub(super) fn find(ctx: &DetectorContext<'_>) -> Option<Finding> {
    let long = ctx.baseline.derived.marked_queue.get(ctx.domain.switches.clone(), || marking_queue(ctx))?;
    // Most of the time there is none, and a minute takes long to read.
    if !ctx.window.frames().iter().any(|frame| passes(ctx, frame, long)) {
        return None;
    }
    let switches = Switch::all(ctx, ctx.history, long);
    let mut unmarked: BTreeMap<usize, Unmarked> = BTreeMap::new();
    let frames: Vec<&Frame> = last_minute(ctx).collect();
    for frame in frames.into_iter().rev() {
        for switch in &switches {
            let Sample { marks, long } = Sample::of(ctx, frame, switch, long);
            if marks {
                let seen = Unmarked { marked_ns: Some(frame.time_ns), ..Unmarked::default() };
                unmarked.insert(switch.node, seen);
            } else if let Some(port) = long.last() {
                let seen = unmarked.entry(switch.node).or_default();
                let since_ns = if seen.times == 0 { frame.time_ns } else { seen.since_ns };
                let times = seen.times + long.len();
                *seen = Unmarked { times, port: *port, since_ns, last_ns: frame.time_ns, ..*seen };
            }
        }
    }
    let [from_ns, _] = ctx.window.time_range_ns();
    let mut silent: Vec<(usize, &Unmarked)> = unmarked.iter().map(|(node, seen)| (*node, seen)).collect();
    let [least, impossible] = [&CHANCE, &IMPOSSIBLE].map(|row| ctx.threshold(row));
    silent.retain(|(_, seen)| seen.last_ns >= from_ns && least.powi(seen.times as i32) < impossible);
    if silent.is_empty() {
        return None;
    }
    let usual = Usual::of(ctx, long);
    silent.retain(|(node, seen)| usual.chance(ctx, *node, seen.times) < impossible);
    let since_ns = silent.iter().map(|(_, seen)| seen.since_ns).min()?;
    if unmarked.values().any(|seen| seen.marked_ns.is_some_and(|marked_ns| marked_ns >= since_ns)) {
        // Some switches mark, so it is not the whole fabric but the switch with most to mark.
        let most = silent.iter().map(|(_, seen)| seen.times).max();
        silent.retain(|(_, seen)| Some(seen.times) == most);
        silent.truncate(1);
    }
    let (first, seen) = *silent.first()?;
    let queue = ctx.mean(Signal::QueueMax, seen.port).unwrap_or(0.0);
    let evidence = evidence(ctx, Signal::QueueMax, seen.port, queue, long);
    let passed = Evidence {
        metric: "chance_of_no_mark".to_owned(),
        value: usual.chance(ctx, first, seen.times),
        threshold: impossible,
        ..evidence.clone()
    };
    let named = |(node, _): &(usize, &Unmarked)| ctx.fabric.topology.nodes[*node].name.as_str();
    let names: Vec<&str> = silent.iter().map(named).collect();
    let root = if silent.len() == 1 { LocationId::Switch(first) } else { LocationId::Fabric };
    let text = format!(
        "queues on {} were longer than those that this fabric marks, but no packet was marked: senders are not \
         notified to slow down.",
        names.join(", ")
    );
    let found = found(root, 0.93, evidence, text).with_evidence(passed).observed_at(seen.port);
    Some(found.began_at(Some(since_ns)))
}

/// A finding that a location does not mark.
pub(super) fn found(root: LocationId, confidence: f64, evidence: Evidence, explanation: String) -> Finding {
    Finding::new(IncidentKind::EcnMisconfigured, root, confidence, evidence, explanation)
}

/// A switch that marks, or has long queues, in some of the frames of a window.
struct Switch {
    node: usize,
    /// Ports that mark in any frame.
    marking: Vec<usize>,
    /// Ports that may have a long queue in some frame.
    waiting: Vec<usize>,
}

impl Switch {
    /// Switches of the fault domain: a host's queue is its NIC's receive buffer, in which nothing is marked. Sums say of most ports
    /// that there is nothing to look for in the frames.
    fn all(ctx: &DetectorContext<'_>, window: &Window, long: f64) -> Vec<Self> {
        let some = |node: &usize| {
            let ports = |signal, least: f64, above: bool| -> Vec<usize> {
                let has = |sum: f64| if above { sum > least } else { sum >= least };
                let ports = ctx.fabric.ports.of_node(*node).iter().copied();
                ports.filter(|port| window.sum(signal, *port).is_some_and(has)).collect()
            };
            let (marking, waiting) = (ports(Signal::Marks, 0.0, true), ports(Signal::QueueMax, long, false));
            (!marking.is_empty() || !waiting.is_empty()).then_some(Self { node: *node, marking, waiting })
        };
        ctx.domain
            .nodes
            .iter()
            .filter(|node| ctx.fabric.topology.nodes[**node].role != Role::Host)
            .filter_map(some)
            .collect()
    }

    /// Whether it marks in a frame.
    fn marks(&self, frame: &Frame) -> bool {
        self.marking.iter().any(|port| frame.get(Signal::Marks, *port).is_some_and(|marks| marks > 0.0))
    }

    /// Ports with long queues in a frame that send freely.
    fn long(&self, ctx: &DetectorContext<'_>, frame: &Frame, long: f64) -> impl Iterator<Item = usize> {
        let waits = move |p: &usize| frame.get(Signal::QueueMax, *p).is_some_and(|queue| queue >= long);
        self.waiting.iter().copied().filter(waits).filter(move |p| drains(ctx, frame, *p))
    }
}

/// Whether a long queue of any switch of the fault domain passes a frame without a mark.
fn passes(ctx: &DetectorContext<'_>, frame: &Frame, long: f64) -> bool {
    let marks = |port: &usize| frame.get(Signal::Marks, *port).is_some_and(|marks| marks > 0.0);
    let waits = |port: &usize| !ctx.fabric.is_host(*port) && drains(ctx, frame, *port);
    frame.ports_from(Signal::QueueMax, long).filter(waits).any(|port| {
        let node = ctx.fabric.ports.list[port].end.node;
        ctx.domain.nodes.binary_search(&node).is_ok() && !ctx.fabric.ports.of_node(node).iter().any(marks)
    })
}

/// A switch in one frame.
struct Sample {
    /// Whether it marked at any port.
    marks: bool,
    /// Ports with long queues that send freely.
    long: Vec<usize>,
}

impl Sample {
    fn of(ctx: &DetectorContext<'_>, frame: &Frame, switch: &Switch, long: f64) -> Self {
        Self { marks: switch.marks(frame), long: switch.long(ctx, frame, long).collect() }
    }
}

/// How often ports with such queues pass a sample in which their switch marks nothing.
#[derive(Clone, Copy, Default)]
struct Passed {
    all: usize,
    unmarked: usize,
}

impl Passed {
    /// Chance that a queue passes unmarked, by Laplace's rule of succession. `expected` is the chance where nothing was seen.
    fn chance(self, expected: f64) -> f64 {
        (self.unmarked as f64 + 2.0 * expected) / (self.all as f64 + 2.0)
    }

    fn add(&mut self, sample: &Sample) {
        self.all += sample.long.len();
        self.unmarked += if sample.marks { 0 } else { sample.long.len() };
    }
}

/// The same in the baseline, of all switches and of each.
struct Usual {
    fabric: Passed,
    switches: BTreeMap<usize, Passed>,
}

impl Usual {
    fn of(ctx: &DetectorContext<'_>, long: f64) -> Self {
        let mut usual = Self { fabric: Passed::default(), switches: BTreeMap::new() };
        for switch in Switch::all(ctx, &ctx.baseline.window, long) {
            for frame in ctx.baseline.window.frames() {
                let sample = Sample::of(ctx, frame, &switch, long);
                usual.fabric.add(&sample);
                usual.switches.entry(switch.node).or_default().add(&sample);
            }
        }
        usual
    }

    /// The chance of so many samples in a row; 1 if such queues usually pass unmarked, at this switch or in the fabric.
    fn chance(&self, ctx: &DetectorContext<'_>, node: usize, times: usize) -> f64 {
        let (own, all) = (self.switches.get(&node).copied().unwrap_or_default(), self.fabric.chance(0.5));
        let each = own.chance(all).max(all).max(ctx.threshold(&CHANCE));
        if each > ctx.threshold(&UNCERTAIN) { 1.0 } else { each.powi(times as i32) }
    }
}

/// Whether what waited at a port left it. Packets are marked on egress, so a port that stands still marks nothing.
fn drains(ctx: &DetectorContext<'_>, frame: &Frame, port: usize) -> bool {
    let queue = frame.get(Signal::QueueMax, port).unwrap_or(0.0);
    let sent = frame.get(Signal::Tx, port).unwrap_or(0.0) * ctx.step_s;
    sent >= ctx.threshold(&DRAINS) * queue && frame.get(Signal::PauseRx, port).unwrap_or(0.0) <= ctx.threshold(&HELD)
}
