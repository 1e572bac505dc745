//! RDMA that waits in vain for acknowledgements, sends again and again, or gives up: packets are lost, and no counter of a
//! link or a switch says where. Seen on one host it is that host or its NIC; seen on several it is the network.
//!
//! Where pause or credits keep buffers from overflowing, and neither was needed nor anything discarded, what is lost was
//! corrupted: a lossy link, even if nobody reads the counters at its ends.

use crate::detectors::backpressure::{held, is_held};
use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
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
    /// acknowledgements of a port that did not come in time
    TIMEOUTS = "transport.timeouts", 3.0, "events in 20 s";
    /// of what was usual
    MORE = "transport.more", 3.0, "times usual";
    /// packets of a port that were sent again
    AGAIN = "transport.retransmits", 0.02, "share of bytes sent";
    /// packets that the other end of a port's queue pairs missed, where what is sent again is not counted
    NAKS = "transport.naks", 10.0, "events in 20 s";
    /// packets sent again, out of sequence or unacknowledged: a port with so many tells where packets are lost
    TELLS = "transport.tells", 3.0, "events in 20 s";
    /// queue pairs that gave up
    GAVE_UP = "transport.retries_exceeded", 1.0, "queue pairs in 20 s";
}

/// What a port shows: which signal, its value, its limit.
type Symptom = (usize, Signal, f64, f64);

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let mut signs: Vec<Symptom> = ctx.host_ports().filter_map(|port| sign(ctx, port)).collect();
    signs.sort_by(|a, b| (b.2 / b.3).total_cmp(&(a.2 / a.3)));
    let Some(&(worst, signal, value, limit)) = signs.first() else { return Vec::new() };
    let (root, sure, whose) = place(ctx, worst);
    let again = matches!(signal, Signal::Retransmits | Signal::SequenceNaks);
    let corrupted = again && nothing_was_full(ctx);
    let (kind, sure, why) = if corrupted {
        let why = " Nobody was paused and nothing was discarded, so a link on the way corrupts packets.";
        (IncidentKind::LossyLink, sure + 0.15, why)
    } else {
        (IncidentKind::TransportErrors, sure, "")
    };
    let what = match signal {
        Signal::Timeouts => format!("waited {value:.0} times in vain for an acknowledgement"),
        Signal::SequenceNaks => format!("was told {value:.0} times that packets are missing"),
        Signal::RetriesExceeded => format!("has {value:.0} queue pairs that gave up"),
        _ => format!("sends {} of its bytes again", percent(value)),
    };
    let text = format!("{} {what}; {whose}.{why}", name(ctx, worst));
    vec![Finding::new(kind, root, sure, evidence(ctx, signal, worst, value, limit), text).observed_at(worst)]
}

/// Where packets are lost: what the flows that lose some have in common. All who send again count, not the worst alone.
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
            "no other host has that: it is this host, its NIC or its link".to_owned(),
        );
    }
    if let (1, Some(port)) = (to.len(), to.first()) {
        let whose = format!("{many} hosts that send to {} have that: it is that host or its link", name(ctx, *port));
        return (LocationId::Port(*port), 0.38, whose);
    }
    if let (1, Some(host)) = (many, hosts.first()) {
        let whose = format!("other ports of {} have that too, and no other host: it is this host", named(*host));
        return (LocationId::Host(*host), 0.39, whose);
    }
    if let Some(leaf) = leaf(&from) {
        let whose = format!("{many} hosts of {} have that, and no others", named(leaf));
        return (LocationId::Switch(leaf), 0.38, whose);
    }
    if let Some(leaf) = leaf(&to) {
        let whose = format!("{many} hosts have that, and all that is lost was for hosts of {}", named(leaf));
        return (LocationId::Switch(leaf), 0.37, whose);
    }
    (LocationId::Fabric, 0.36, format!("{many} hosts in several places have that: it is the network"))
}

/// Events of a stretch and what they are measured by: at least so many, and more than is usual.
fn count(ctx: &DetectorContext<'_>, signal: Signal, port: usize, least: f64) -> Option<Symptom> {
    // Hardly any port has any: what is usual is looked up of those alone.
    // Samples are not a second apart to the millisecond: an event is one, not 0.99.
    let seen = ctx.mean(signal, port).map(|n| (n * ctx.seconds()).round()).filter(|n| *n >= least)?;
    let baseline = ctx.baseline_mean(signal, port).unwrap_or(0.0) * ctx.seconds();
    let limit = least.max(ctx.threshold(&MORE) * baseline);
    (seen >= limit).then_some((port, signal, seen, limit))
}

/// Whether no buffer was full: somebody would have been paused or kept without credits, or packets discarded.
fn nothing_was_full(ctx: &DetectorContext<'_>) -> bool {
    let ports = || ctx.ports();
    let told = ctx.host_ports().all(|p| held(ctx, p).is_some() || ctx.mean(Signal::Tx, p).is_none());
    told && !ports().any(|p| is_held(ctx, p)) && ctx.sum(Signal::Discards, ports()) <= 0.0
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
