//! A host that receives at a constant rate far below what it did, while the host that sends to it waits: it drains its
//! receive buffer no faster. In a ring only the predecessor of the slow receiver waits, and its peers' rates vary, because
//! they send whatever has arrived. Where switches are read, the tree of waits shows more.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_bottleneck::HELD;
use crate::detectors::credit_receiver::{Group, MEMBERS, others_at_leaf};
use crate::detectors::credit_tree::CreditTree;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "receive_ceiling",
    warm_up_s: 20.0,
    baseline_s: 20.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// highest rate of a host that may be slow, seen from hosts alone
    FELL = "receive_ceiling.fell", 0.7, "times usual";
    /// share of its busy samples at that rate
    FLAT = "receive_ceiling.flat", 0.45, "share of samples";
}

/// Samples above the ceiling that may be chance, and how near to it a sample counts as on it.
const TOP: usize = 2;
const NEAR: f64 = 0.93;
/// Share of its former highest rate below which a port is idle rather than slow.
const LEAST: f64 = 0.05;
/// Highest share of a sender's bytes, sample by sample, that its only receiver may differ by: packets on the way, and
/// other senders.
const DIFFERS: f64 = 0.25;
/// How much nearer to it the bytes of its receiver must be than those of any other.
const NEARER: f64 = 0.8;
/// Frames and samples that show a constant rate.
const FRAMES: usize = 20;
const SAMPLES: usize = 12;
/// By how much its share of samples at the ceiling must exceed that of another member.
const STANDS_OUT: f64 = 0.2;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if ctx.switches_report(Signal::XmitWait) || ctx.window.ticks() < FRAMES {
        return Vec::new();
    }
    let tree = CreditTree::of(ctx, ctx.threshold(&HELD));
    Group::all(ctx, &tree).iter().find_map(|group| judge(ctx, &tree, group)).into_iter().collect()
}

/// A member that drains its buffer at a constant rate far below what it received before.
fn judge(ctx: &DetectorContext<'_>, tree: &CreditTree, group: &Group) -> Option<Finding> {
    let Group { waiter, wait, .. } = *group;
    // In a ring, two that wait share a link.
    let alone = group.ports.iter().filter(|port| group.waits(tree, **port)).count() == 1;
    let (port, how) =
        if alone { (receiver(ctx, group)?, "which it sends to") } else { (near(ctx, tree, group)?, "of its job") };
    let ceiling = low(ctx, port).filter(|_| !group.waits(tree, port))?;
    let text = format!(
        "{} waits for credits, and {}, {how}, receives at a constant rate, {} of its former highest: its host drains the \
         receive buffer slowly.",
        name(ctx, waiter),
        name(ctx, port),
        percent(ceiling.part())
    );
    let got = evidence(ctx, Signal::Rx, port, ceiling.top, ctx.threshold(&FELL) * ceiling.before);
    let waits = evidence(ctx, Signal::XmitWait, waiter, wait, 0.0);
    let here = |other: usize| ctx.fabric.peer_node(other) == ctx.fabric.peer_node(port);
    let waiters = || tree.waits.keys().copied().filter(|other| group.waits(tree, *other));
    // A slow link of its leaf, which is slow in both directions, looks alike: hosts at both of its ends wait.
    let link = ctx.fabric.peer_node(port).is_none() || waiters().any(here) && !waiters().all(here);
    let sure = if link { 0.45 } else { 0.55 };
    let found = Finding::new(IncidentKind::SlowReceiver, LocationId::Port(port), sure, got, text);
    Some(found.with_evidence(waits).as_inferred())
}

/// The one with a constant rate among the members that do not wait, if these are at one leaf and the others are not: a full
/// port serves senders of its own leaf more than senders behind uplinks.
fn near(ctx: &DetectorContext<'_>, tree: &CreditTree, group: &Group) -> Option<usize> {
    let (waiting, others): (Vec<usize>, Vec<usize>) = group.ports.iter().copied().partition(|p| group.waits(tree, *p));
    let leaf = others.first().and_then(|port| ctx.fabric.peer_node(*port))?;
    let here = |port: &usize| ctx.fabric.peer_node(*port) == Some(leaf);
    if waiting.len() < MEMBERS || !others.iter().all(here) || waiting.iter().any(here) {
        return None;
    }
    let flat = |port: usize| Some((port, low(ctx, port)?.flat));
    let mut flat: Vec<(usize, f64)> = others.into_iter().filter_map(flat).collect();
    flat.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (port, share) = *flat.first()?;
    let next = flat.get(1).map_or(0.0, |next| next.1);
    (share >= next + STANDS_OUT && !others_at_leaf(ctx, tree, group, port)).then_some(port)
}

/// The member that receives what the longest waiting one sends: by its queue pairs, or else by its bytes.
fn receiver(ctx: &DetectorContext<'_>, group: &Group) -> Option<usize> {
    let others = || group.ports.iter().copied().filter(|port| *port != group.waiter);
    if let Some(peers) = ctx.fabric.peers_of(&[group.waiter]) {
        let mut connected = others().filter(|port| peers.contains(port));
        return connected.next().filter(|_| connected.next().is_none());
    }
    let differs = |port: usize| {
        let each = |frame: &Arc<Frame>| {
            let sent = frame.get(Signal::Tx, group.waiter)?;
            Some((sent, (sent - frame.get(Signal::Rx, port)?).abs()))
        };
        let both = ctx.window.frames().iter().filter_map(each).reduce(|a, b| (a.0 + b.0, a.1 + b.1));
        both.filter(|(sent, _)| *sent > 0.0).map(|(sent, differs)| (port, differs / sent))
    };
    let mut nearest: Vec<(usize, f64)> = others().filter_map(differs).collect();
    nearest.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (port, least) = *nearest.first()?;
    let next = nearest.get(1).map_or(f64::INFINITY, |next| next.1);
    // Where all send to all, what one sends looks like what each receives.
    (least <= DIFFERS && least <= NEARER * next).then_some(port)
}

/// Constant rate far below the former one at which a port receives, shown by enough samples.
fn low(ctx: &DetectorContext<'_>, port: usize) -> Option<Ceiling> {
    let ceiling = Ceiling::of(ctx, Signal::Rx, port)?;
    // A port that is read every few seconds has the same values in several frames: they are one sample.
    let frames = ctx.window.frames();
    let mut samples: Vec<_> = frames.iter().map(|f| [Signal::Tx, Signal::Rx].map(|s| f.get(s, port))).collect();
    samples.dedup();
    (samples.len() >= SAMPLES && ceiling.is_low(ctx)).then_some(ceiling)
}

/// The rate that a port does not exceed in the window, but for a few samples.
#[derive(Clone, Copy)]
pub(super) struct Ceiling {
    /// Bytes per second.
    pub top: f64,
    /// Highest rate of the baseline.
    pub before: f64,
    /// Share of its busy samples that are near it.
    flat: f64,
}

impl Ceiling {
    /// `None` if the port has too few samples, now or before.
    pub fn of(ctx: &DetectorContext<'_>, signal: Signal, port: usize) -> Option<Self> {
        let mut values: Vec<f64> = ctx.window.values(signal, port).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        let top = *values.get(TOP)?;
        let busy: Vec<f64> = values.into_iter().filter(|rate| *rate >= 0.5 * top).collect();
        let flat = busy.iter().filter(|rate| **rate >= NEAR * top).count() as f64 / busy.len() as f64;
        Some(Self { top, before: ctx.baseline.window.max(signal, port)?, flat })
    }

    /// The same, if the port never moved more than `most` before.
    pub fn below(self, most: f64) -> Self {
        Self { before: self.before.min(most), ..self }
    }

    /// Share of the former highest rate.
    pub fn part(self) -> f64 {
        self.top / self.before
    }

    /// Whether the rate is constant and far below the former one, and the port is not merely idle.
    pub fn is_low(self, ctx: &DetectorContext<'_>) -> bool {
        (LEAST..=ctx.threshold(&FELL)).contains(&self.part()) && self.flat >= ctx.threshold(&FLAT)
    }
}
