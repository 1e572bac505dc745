//! Finds the senders of an overloaded receiver. A receiver of marked packets notifies its senders, whose counters show
//! that. Queue pairs name its peers. If those are unknown, or none of them gets more notifications than usual (queue
//! pairs of the kernel, for storage, are not exported), the senders are all notified ports if only one receiver sends
//! more notifications than usual, or else those of the receiver's own jobs.

use crate::detectors::context::DetectorContext;
use crate::model::signal::Signal;
use std::collections::BTreeSet;

/// Senders that are named, the largest first.
const MAX_SENDERS: usize = 256;
/// Share of all additional notifications from which a receiver is the only one.
const ALONE: f64 = 0.8;
/// Share of the largest sender's notifications below which a port is likely notified by another receiver.
const PART: f64 = 0.05;

/// Ports that send to these receivers, the largest first. Empty if neither counters nor jobs name any.
pub fn senders(ctx: &DetectorContext<'_>, receivers: &[usize]) -> Vec<usize> {
    if receivers.is_empty() {
        return Vec::new();
    }
    let fabric = ctx.fabric;
    let more = |signal, port| {
        let now = ctx.mean(signal, port)?;
        Some((now - ctx.baseline_mean(signal, port).unwrap_or(0.0)).max(0.0))
    };
    let notifications =
        |ports: &mut dyn Iterator<Item = usize>| ports.filter_map(|p| more(Signal::CnpTx, p)).sum::<f64>();
    let (own, all) = (notifications(&mut receivers.iter().copied()), notifications(&mut ctx.host_ports()));
    let alone = own > 0.0 && own >= ALONE * all;
    let jobs = fabric.jobs.iter().filter(|job| receivers.iter().any(|port| job.ports.contains(port)));
    let members: BTreeSet<usize> = jobs.flat_map(|job| job.ports.iter().copied()).collect();
    // With several receivers, each may send to another of them.
    let sends = |port: &usize| receivers != [*port];
    let loudest_first = |mut ports: Vec<(usize, f64)>| {
        ports.sort_by(|a, b| b.1.total_cmp(&a.1));
        let least = PART * ports.first().map_or(0.0, |first| first.1);
        let loud = ports.into_iter().filter(|(_, more)| *more > 0.0 && *more >= least);
        loud.map(|(port, _)| port).take(MAX_SENDERS).collect::<Vec<_>>()
    };
    let connected = fabric.peers_of(receivers).unwrap_or_default();
    let connected = || connected.iter().copied().filter(sends);
    let notified = |port| Some((port, more(Signal::CnpRx, port)?));
    let most = ctx.host_ports().filter_map(notified).map(|(_, more)| more).fold(0.0, f64::max);
    let near = ctx.host_ports().filter(|port| alone || members.contains(port)).filter(sends);
    // No port is notified, or none counts notifications.
    let sent = |port| Some((port, ctx.mean(Signal::Tx, port)?));
    let guesses: [Vec<_>; 4] = [
        connected().filter_map(notified).filter(|(_, more)| *more >= PART * most).collect(),
        near.filter_map(notified).collect(),
        connected().filter_map(sent).collect(),
        members.iter().copied().filter(sends).filter_map(sent).collect(),
    ];
    guesses.into_iter().map(loudest_first).find(|ports| !ports.is_empty()).unwrap_or_default()
}
