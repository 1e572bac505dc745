//! Losses by pair of ports: a sender that gets a negative acknowledgment while one of its queue-pair peers receives packets out
//! of sequence lost a packet to that peer. Each pair votes for the links of its path.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_tree::credit_wait;
use crate::detectors::hold_signal::{CREDITS, PAUSED};
use crate::model::routes::path::{Flow, Path};
use crate::model::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Packets that one port lost on the way to another.
pub(super) struct PairLoss {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// Samples with a loss. Where several receivers fit a loss, each gets its part.
    pub samples: f64,
    /// Paths that its packets may take.
    pub paths: Vec<Arc<Path>>,
}

impl PairLoss {
    /// Share of its paths over the link behind an egress port.
    pub fn share(&self, egress: usize) -> f64 {
        share(&self.paths, egress)
    }
}

/// Share of paths over the link behind an egress port; 0 of no paths.
pub(super) fn share(paths: &[Arc<Path>], egress: usize) -> f64 {
    let over = paths.iter().filter(|path| path.hops.contains(&egress)).count();
    over as f64 / paths.len().max(1) as f64
}

/// Receivers of a port's queue pairs in the window, and the paths to each at its end.
pub(super) fn peers(ctx: &DetectorContext<'_>, from: usize) -> BTreeMap<usize, Vec<Arc<Path>>> {
    let span_ns = ctx.window.time_range_ns();
    let mut flows: BTreeMap<usize, BTreeSet<Flow>> = BTreeMap::new();
    for pair in ctx.fabric.routes.queue_pairs(from, span_ns).filter(|pair| pair.close_ns.is_none()) {
        flows.entry(pair.flow.to).or_default().insert(pair.flow);
    }
    let paths = |flow: Flow| ctx.fabric.paths_of(flow, span_ns[1]);
    flows.into_iter().map(|(to, flows)| (to, flows.into_iter().flat_map(paths).collect())).collect()
}

/// Losses of all pairs in the window, those with most first. Leaves out two kinds of loss that say nothing of the path: at a
/// receiver that pauses, because its switch may discard packets for it; and of senders that wait for credits, because
/// InfiniBand switches discard packets that waited too long.
pub(super) fn losses(ctx: &DetectorContext<'_>) -> Vec<PairLoss> {
    let frames = ctx.window.frames();
    let has = |signal, port: usize, at: usize| frames[at].get(signal, port).is_some_and(|n| n > 0.0);
    let pauses = |port| ctx.mean(Signal::PauseTx, port).is_some_and(|share| share >= ctx.threshold(&PAUSED));
    let mut all = Vec::new();
    let waits = |port| credit_wait(ctx, port).is_some_and(|share| share >= ctx.threshold(&CREDITS));
    let loses = |port: &usize| ctx.mean(Signal::SequenceNaks, *port).is_some_and(|n| n > 0.0) && !waits(*port);
    for from in ctx.host_ports().filter(loses) {
        let peers = peers(ctx, from);
        let misses = |to: &&usize| ctx.mean(Signal::OutOfSequence, **to).is_some_and(|n| n > 0.0);
        let missing: Vec<usize> = peers.keys().filter(misses).copied().collect();
        let mut samples: BTreeMap<usize, f64> = BTreeMap::new();
        for at in (0..frames.len()).filter(|at| has(Signal::SequenceNaks, from, *at)) {
            // The two ends are not sampled at the same instant.
            let near = at.saturating_sub(1)..(at + 2).min(frames.len());
            let fits = |to: &&usize| near.clone().any(|at| has(Signal::OutOfSequence, **to, at));
            let fitting: Vec<usize> = missing.iter().filter(fits).copied().collect();
            fitting.iter().for_each(|to| *samples.entry(*to).or_default() += 1.0 / fitting.len() as f64);
        }
        let loss = |(to, samples): (usize, f64)| PairLoss { from, to, samples, paths: peers[&to].clone() };
        all.extend(samples.into_iter().filter(|(to, _)| !pauses(*to)).map(loss).filter(|loss| !loss.paths.is_empty()));
    }
    all.sort_by(|a, b| b.samples.total_cmp(&a.samples));
    all
}
