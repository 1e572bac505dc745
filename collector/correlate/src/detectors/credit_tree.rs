//! The tree of ports that wait for credits more than usual. A receiver returns a credit when a packet has left its
//! buffer, so a port waits because the switch (or host) at the other end of its cable cannot pass its packets on. The
//! tree ends at a host that drains its buffer slowly, or at a switch with a port that gets more than it sends.

use crate::detectors::context::DetectorContext;
use crate::model::frame::Frame;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Share of the wait for a switch that the wait of one of its own ports must reach to be its cause. Senders that are
/// near get more of a full port than those that are far, so the waits along a branch differ.
const EXPLAINS: f64 = 0.25;

/// Ports that wait more than usual.
pub(super) struct CreditTree {
    /// By port: share of the line rate that it could not send, beyond the usual share.
    pub waits: BTreeMap<usize, f64>,
    least: f64,
}

/// A switch for which others wait although none of its own ports waits.
pub(super) struct Bottleneck {
    /// The switch.
    pub node: usize,
    /// Ports that wait for it.
    pub waiters: Vec<usize>,
    /// The longest of their waits, beyond the usual.
    pub share: f64,
}

impl CreditTree {
    /// Ports whose wait exceeds the usual by `least`, or by a part of it where they may explain another's wait.
    pub fn of(ctx: &DetectorContext<'_>, least: f64) -> Self {
        let waits = ctx.ports().filter_map(|port| Some((port, growth(ctx, port, EXPLAINS * least)?)));
        Self { waits: waits.collect(), least }
    }

    /// The port that waits longest, if it waits long enough.
    pub fn worst(&self) -> Option<(usize, f64)> {
        let worst = self.waits.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(port, share)| (*port, *share));
        worst.filter(|(_, share)| *share >= self.least)
    }

    /// Hosts whose switch waits for their credits, the longest wait first: the host, the switch's port, its wait.
    pub fn receivers(&self, ctx: &DetectorContext<'_>) -> Vec<(usize, usize, f64)> {
        let host = |(port, share): (&usize, &f64)| {
            let host = ctx.fabric.ports.list[*port].peer.filter(|peer| ctx.fabric.is_host(*peer))?;
            (*share >= self.least).then_some((host, *port, *share))
        };
        let mut hosts: Vec<_> = self.waits.iter().filter_map(host).collect();
        hosts.sort_by(|a, b| b.2.total_cmp(&a.2));
        hosts
    }

    /// Switches at which branches end, the longest wait first. Where a switch does not report its waits, branches may go on.
    pub fn bottlenecks(&self, ctx: &DetectorContext<'_>) -> Vec<Bottleneck> {
        let list = &ctx.fabric.ports.list;
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for port in self.waits.keys() {
            if let Some(peer) = list[*port].peer.filter(|peer| !ctx.fabric.is_host(*peer)) {
                by_node.entry(list[peer].end.node).or_default().push(*port);
            }
        }
        let ends = by_node.into_iter().filter_map(|(node, waiters)| {
            let share = waiters.iter().map(|port| self.waits[port]).fold(0.0, f64::max);
            let ports = ctx.fabric.ports.of_node(node);
            let explained = ports.iter().any(|p| self.waits.get(p).is_some_and(|wait| *wait >= EXPLAINS * share));
            let measured = ports.iter().any(|port| ctx.mean(Signal::XmitWait, *port).is_some());
            // A branch may end in a port that waits too little to be sure by itself.
            (share >= EXPLAINS * self.least && !explained && measured).then_some(Bottleneck { node, waiters, share })
        });
        let mut ends: Vec<Bottleneck> = ends.collect();
        ends.sort_by(|a, b| b.share.total_cmp(&a.share));
        ends
    }
}

/// Share of the line rate that a port could not send for want of credits. `None` on Ethernet: adapters that are paused
/// have this counter too, but its value means nothing there.
pub(super) fn credit_wait(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    ctx.mean(Signal::XmitWait, port).filter(|_| ctx.mean(Signal::PauseRx, port).is_none())
}

/// How much a port's wait exceeds its highest share in any baseline window of this length, if by at least `least`.
/// Healthy ports wait too where flows share a link, each in its own rhythm.
pub(super) fn growth(ctx: &DetectorContext<'_>, port: usize, least: f64) -> Option<f64> {
    let now = credit_wait(ctx, port)?;
    let usual = ctx.baseline_mean(Signal::XmitWait, port)?;
    if now - usual < least {
        return None;
    }
    let frames = ctx.baseline.window.frames();
    let length = ctx.window.ticks().min(frames.len() / 2).max(1);
    let part = |frames: &[Arc<Frame>]| mean(frames.iter().filter_map(|frame| frame.get(Signal::XmitWait, port)));
    let highest = frames.windows(length).filter_map(part).fold(usual, f64::max);
    Some(now - highest).filter(|growth| *growth >= least)
}

/// Growth of a signal of a port against its baseline, if it became `times` as much and matters to the link.
pub(super) fn grown(ctx: &DetectorContext<'_>, signal: Signal, port: usize, times: f64) -> Option<f64> {
    /// Share of the line rate: less is noise of light traffic.
    const MATTERS: f64 = 0.05;
    let (now, before) = (ctx.mean(signal, port)?, ctx.baseline_mean(signal, port)?);
    (now >= times * before && now - before >= MATTERS * ctx.line_rate(port)?).then_some(now - before)
}
