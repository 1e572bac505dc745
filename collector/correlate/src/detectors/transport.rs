//! RDMA that times out, retransmits or gives up: packets are lost, but no counter of a link or a switch shows where. On
//! one host the cause is that host or its NIC; on several hosts it is the network.
//!
//! If pause or credits prevent overflow, and neither was needed nor anything discarded, the packets were corrupted: a
//! lossy link, even if the counters at its ends are not read.

use crate::detectors::backpressure::{held, is_held};
use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::lossy_path;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::frame::FULL_PACKET_BYTES;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use std::collections::BTreeSet;

pub(super) const DETECTOR: Detector = Detector {
    name: "transport",
    warm_up_s: 20.0,
    baseline_s: 1.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// acknowledgment timeouts of a port
    TIMEOUTS = "transport.timeouts", 3.0, "events in 20 s";
    /// growth against the baseline
    MORE = "transport.more", 3.0, "times usual";
    /// retransmitted packets of a port
    AGAIN = "transport.retransmits", 0.02, "share of bytes sent";
    /// negative acknowledgments of a port, where retransmissions are not counted
    NAKS = "transport.naks", 10.0, "events in 20 s";
    /// packets retransmitted, out of sequence or unacknowledged, from which a port shows where packets are lost
    TELLS = "transport.tells", 3.0, "events in 20 s";
    /// queue pairs that exhausted their retries
    GAVE_UP = "transport.retries_exceeded", 1.0, "queue pairs in 20 s";
}

/// Port, signal, value and threshold of a symptom.
type Symptom = (usize, Signal, f64, f64);

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if let Some(found) = lossy_path::find(ctx) {
        return vec![found];
    }
    let mut signs: Vec<Symptom> = ctx.host_ports().filter_map(|port| sign(ctx, port)).collect();
    signs.sort_by(|a, b| (b.2 / b.3).total_cmp(&(a.2 / a.3)));
    let Some(&(worst, signal, value, limit)) = signs.first() else { return Vec::new() };
    let (root, sure, whose) = place(ctx, worst);
    let overflow = overflow(ctx);
    let again = matches!(signal, Signal::Retransmits | Signal::SequenceNaks);
    let corrupted = again && nothing_was_full(ctx);
    if corrupted && links_count_it(ctx) {
        return Vec::new();
    }
    let (kind, sure, why) = if corrupted {
        let why = " No port was paused and nothing was discarded, so a link on the path corrupts packets.".to_owned();
        (IncidentKind::LossyLink, sure + 0.15, why)
    } else {
        let at = |(port, _): &(usize, f64)| {
            format!(
                " {} dropped packets because its headroom was full: its peer sends although it is paused, or the headroom is too small.",
                name(ctx, *port)
            )
        };
        (IncidentKind::TransportErrors, sure, overflow.as_ref().map(at).unwrap_or_default())
    };
    let what = match signal {
        Signal::Timeouts => format!("had {value:.0} acknowledgment timeouts"),
        Signal::SequenceNaks => format!("got {value:.0} negative acknowledgments for missing packets"),
        Signal::RetriesExceeded => format!("has {value:.0} queue pairs that exhausted their retries"),
        _ => format!("retransmits {} of its bytes", percent(value)),
    };
    let text = format!("{} {what}; {whose}.{why}", name(ctx, worst));
    let found = Finding::new(kind, root, sure, evidence(ctx, signal, worst, value, limit), text).observed_at(worst);
    let dropped = overflow.map(|(port, drops)| evidence(ctx, Signal::HeadroomDrops, port, drops, 0.0));
    vec![dropped.into_iter().fold(found, Finding::with_evidence)]
}

/// The port that dropped most because its headroom was full while it paused its peer, and packets per second. Groups of lossy
/// priorities drop too, but do not pause.
fn overflow(ctx: &DetectorContext<'_>) -> Option<(usize, f64)> {
    let pauses = |port| ctx.mean(Signal::PauseTx, port).is_some_and(|share| share > 0.0);
    let drops = |port| Some((port, ctx.mean(Signal::HeadroomDrops, port).filter(|drops| *drops > 0.0)?));
    ctx.ports().filter(|port| pauses(*port)).filter_map(drops).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Where packets are lost: what the affected flows have in common. All ports that retransmit count, not the worst
/// alone.
fn place(ctx: &DetectorContext<'_>, worst: usize) -> (LocationId, f64, String) {
    let tells = |signal, port| count(ctx, signal, port, ctx.threshold(&TELLS)).is_some();
    let telling = |signals: &[Signal]| -> BTreeSet<usize> {
        ctx.host_ports().filter(|port| signals.iter().any(|signal| tells(*signal, *port))).collect()
    };
    let mut from = telling(&[Signal::Timeouts, Signal::Retransmits, Signal::SequenceNaks, Signal::RetriesExceeded]);
    from.insert(worst);
    let to = telling(&[Signal::OutOfSequence]);
    let leaf = |ports: &BTreeSet<usize>| {
        let leaves: BTreeSet<Option<usize>> = ports.iter().map(|p| ctx.fabric.peer_node(*p)).collect();
        leaves.first().copied().flatten().filter(|_| leaves.len() == 1)
    };
    let named = |node: usize| &ctx.fabric.topology.nodes[node].name;
    let hosts: BTreeSet<usize> = from.iter().map(|port| ctx.fabric.ports.list[*port].end.node).collect();
    let many = hosts.len();
    if from.len() == 1 {
        return (
            LocationId::Port(worst),
            0.4,
            "no other host does: the cause is this host, its NIC or its link".to_owned(),
        );
    }
    if let (1, Some(port)) = (to.len(), to.first()) {
        let whose =
            format!("{many} hosts that send to {} are affected: the cause is that host or its link", name(ctx, *port));
        return (LocationId::Port(*port), 0.38, whose);
    }
    if let (1, Some(host)) = (many, hosts.first()) {
        let whose =
            format!("other ports of {} are affected too, but no other host: the cause is this host", named(*host));
        return (LocationId::Host(*host), 0.39, whose);
    }
    if let Some(leaf) = leaf(&from) {
        let whose = format!("{many} hosts of {} are affected, and no others", named(leaf));
        return (LocationId::Switch(leaf), 0.38, whose);
    }
    if let Some(leaf) = leaf(&to) {
        let whose = format!("{many} hosts are affected, and all lost packets were for hosts of {}", named(leaf));
        return (LocationId::Switch(leaf), 0.37, whose);
    }
    (LocationId::Fabric, 0.36, format!("{many} hosts in several places are affected: the cause is the network"))
}

/// Number of events in the window, if it exceeds both `least` and the baseline.
fn count(ctx: &DetectorContext<'_>, signal: Signal, port: usize, least: f64) -> Option<Symptom> {
    // Checks events first, because hardly any port has any. Samples are not exactly a second apart, so the count is
    // rounded: one event is 1, not 0.99.
    let seen = ctx.mean(signal, port).map(|n| (n * ctx.seconds()).round()).filter(|n| *n >= least)?;
    let baseline = ctx.baseline_mean(signal, port).unwrap_or(0.0) * ctx.seconds();
    let limit = least.max(ctx.threshold(&MORE) * baseline);
    (seen >= limit).then_some((port, signal, seen, limit))
}

/// Whether no buffer was full: otherwise some port would have been paused or without credits, or packets discarded. What is for
/// a NIC that pauses, its switch may discard.
fn nothing_was_full(ctx: &DetectorContext<'_>) -> bool {
    let ports = || ctx.ports();
    let told = ctx.host_ports().all(|p| held(ctx, p).is_some() || ctx.mean(Signal::Tx, p).is_none());
    let pauses = |p| ctx.mean(Signal::PauseTx, p).is_some_and(|share| share >= ctx.threshold(&PAUSED));
    told && !ports().any(|p| is_held(ctx, p) || pauses(p))
        && [Signal::Discards, Signal::HeadroomDrops].iter().all(|signal| ctx.sum(*signal, ports()) <= 0.0)
}

/// Whether links count at least half as many corrupted frames as packets were found missing: then these links lost them
/// (`lossy_link`), and who sends them again says nothing more.
fn links_count_it(ctx: &DetectorContext<'_>) -> bool {
    let seen = |signal| ctx.ports().filter_map(|port| ctx.count(signal, port)).sum::<f64>();
    let missing = [Signal::SequenceNaks, Signal::Retransmits].map(seen).into_iter().find(|missing| *missing > 0.0);
    missing.is_some_and(|missing| seen(Signal::WireErrors) >= missing / 2.0)
}

fn sign(ctx: &DetectorContext<'_>, port: usize) -> Option<Symptom> {
    let again = || {
        let part = |again: f64, sent: f64| if sent > 0.0 { again * FULL_PACKET_BYTES / sent } else { 0.0 };
        let is = part(ctx.mean(Signal::Retransmits, port)?, ctx.mean(Signal::Tx, port)?);
        if is < ctx.threshold(&AGAIN) {
            return None;
        }
        let baseline = ctx
            .baseline_mean(Signal::Retransmits, port)
            .zip(ctx.baseline_mean(Signal::Tx, port))
            .map_or(0.0, |(a, s)| part(a, s));
        let limit = ctx.threshold(&AGAIN).max(ctx.threshold(&MORE) * baseline);
        (is >= limit).then_some((port, Signal::Retransmits, is, limit))
    };
    count(ctx, Signal::RetriesExceeded, port, ctx.threshold(&GAVE_UP))
        .or_else(|| count(ctx, Signal::Timeouts, port, ctx.threshold(&TIMEOUTS)))
        .or_else(again)
        .or_else(|| {
            let counted = ctx.mean(Signal::Retransmits, port).is_some();
            count(ctx, Signal::SequenceNaks, port, ctx.threshold(&NAKS)).filter(|_| !counted)
        })
}
