//! Links between switches that delay packets, by probes alone: nearly all probes over the link take longer than any queue of it
//! can hold them, and too many of the same hosts' probes over other links do not for that to be chance.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{name, nth};
use crate::detectors::hosts_alone::judges;
use crate::detectors::loss_votes::path_over;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::routes::probes::{DELAYED_NS, DETAILED, LinkProbes, Probe, ProbeWindow};
use crate::model::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "probe_delay",
    warm_up_s: 50.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// delay of nearly all probes over a link, beyond the shortest round trip, that no queue of a fast link explains
    QUEUED = "probe_delay.queued", 4e6, "nanoseconds";
    /// what a queue can hold, where hosts send enough to fill the link
    BUFFER = "probe_delay.buffer", 64e6, "bytes";
    /// probes over a link that must be delayed: a queue is short now and then, another way is not
    DELAYED = "probe_delay.delayed", 0.9, "share of answered probes";
    /// chance that so many probes over a link are late, by how often other probes of the same hosts are, among many links
    /// and many seconds
    CHANCE = "probe_delay.chance", 1e-8, "chance";
    /// answered probes over the link that this needs
    PROBES = "probe_delay.probes", 12.0, "probes";
    /// ports at the ends of the probes over the link: with fewer, a slow host looks like a slow link
    ENDS = "probe_delay.ends", 4.0, "ports";
}

/// Ports at the ends of the probes that count: two pairs at least.
const JUDGED_ENDS: usize = 3;
/// Probes by other links without which those of a port do not count.
const OTHERS: usize = 3;

/// Probe windows that are judged: 15 s. Where few probes cross a link, or its hosts are often late, chance is excluded in all that
/// have details.
const JUDGED_WINDOWS: [usize; 2] = [3, DETAILED];

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if !judges(ctx, Signal::Tx, &[Signal::PauseTx, Signal::PauseRx]) {
        return Vec::new();
    }
    JUDGED_WINDOWS.into_iter().map(|count| judge(ctx, count)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Late links in the newest `count` windows of probes.
fn judge(ctx: &DetectorContext<'_>, count: usize) -> Vec<Finding> {
    let probes = &ctx.fabric.routes.probes;
    let windows = probes.newest_within(ctx.window.time_range_ns(), count);
    // Windows without a delayed probe have no details.
    if windows.len() < count || windows.iter().any(|window| window.details.is_empty()) {
        return Vec::new();
    }
    let mut links: BTreeMap<usize, LinkProbes> = BTreeMap::new();
    for (link, of_link) in windows.iter().flat_map(|window| &window.links) {
        links.entry(*link).or_default().merge(of_link);
    }
    links.retain(|link, of| {
        let is_late = f64::from(of.delayed) >= ctx.threshold(&DELAYED) * f64::from(of.answered.max(1));
        is_late && ctx.fabric.is_between_switches(*link) && probes.was_prompt(*link)
    });
    let mut left: Vec<Late> = links.into_keys().filter_map(|link| Late::of(ctx, link, &windows)).collect();
    let mut found: Vec<Finding> = Vec::new();
    while let Some(worst) = left.iter().max_by(|a, b| a.delay_ns.total_cmp(&b.delay_ns)).map(|late| late.egress) {
        // Links that meet at a switch may be on the same paths; others are faults of their own.
        let (near, rest): (Vec<Late>, Vec<Late>) = left.into_iter().partition(|late| meet(ctx, worst, late.egress));
        found.push(finding(ctx, near, windows[0].begin_ns));
        left = rest;
    }
    found
}

/// A link that delays probes.
struct Late {
    egress: usize,
    /// Delay that nearly all probes over it have, beyond that of the same hosts' probes over other links.
    delay_ns: f64,
    /// A probe over it.
    example: Probe,
}

impl Late {
    /// The delay of a link, if nearly all probes over it are later than its longest queue can make them, or else by
    /// [`DELAYED_NS`] at least; `None` if chance or its hosts may be the reason.
    fn of(ctx: &DetectorContext<'_>, egress: usize, windows: &[&Arc<ProbeWindow>]) -> Option<Self> {
        let peer = ctx.fabric.ports.list[egress].peer;
        let is_over = |probe: &Probe| probe.links.iter().any(|link| *link == egress || Some(*link) == peer);
        let probes = || windows.iter().flat_map(|window| &window.details);
        let over: Vec<&Probe> = probes().filter(|probe| probe.links.contains(&egress)).collect();
        let ends: BTreeSet<usize> = over.iter().flat_map(|probe| probe.ends).collect();
        let mut others: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for probe in probes().filter(|probe| !is_over(probe)) {
            let of_hosts = probe.ends.iter().filter(|end| ends.contains(end));
            of_hosts.for_each(|end| others.entry(*end).or_default().extend(probe.rtt_ns));
        }
        others.retain(|_, delays| delays.len() >= OTHERS);
        let known: Vec<&Probe> =
            over.into_iter().filter(|probe| probe.ends.iter().all(|end| others.contains_key(end))).collect();
        let judged: BTreeSet<usize> = known.iter().flat_map(|probe| probe.ends).collect();
        let is_enough = known.len() as f64 >= ctx.threshold(&PROBES)
            && ends.len() as f64 >= ctx.threshold(&ENDS)
            && judged.len() >= JUDGED_ENDS;
        let is_late = |late_ns| is_no_chance(ctx, &known, &others, late_ns);
        if !is_enough || ![bound(ctx, egress), DELAYED_NS].into_iter().any(is_late) {
            return None;
        }
        // The delay that nearly all of them have.
        let least = |delays: &mut dyn Iterator<Item = f64>| {
            let mut delays: Vec<f64> = delays.collect();
            delays.sort_by(f64::total_cmp);
            nth(&delays, 1.0 - ctx.threshold(&DELAYED)).copied()
        };
        let elsewhere = least(&mut judged.iter().flat_map(|end| &others[end]).copied())?;
        let delay_ns = least(&mut known.iter().filter_map(|probe| probe.rtt_ns))? - elsewhere;
        Some(Self { egress, delay_ns, example: (*known.first()?).clone() })
    }
}

/// Whether nearly all probes over a link take `late_ns` or longer, and that is no coincidence: `others` has the delays of the same
/// hosts' probes over other links, by port. A stall of a host delays all of its probes of a moment, so those of one second between
/// two ports count once.
fn is_no_chance(ctx: &DetectorContext<'_>, over: &[&Probe], others: &BTreeMap<usize, Vec<f64>>, late_ns: f64) -> bool {
    let is_prompt = |delay_ns: f64| delay_ns < late_ns;
    let (late, prompt): (Vec<&&Probe>, Vec<&&Probe>) =
        over.iter().partition(|probe| !probe.rtt_ns.is_some_and(is_prompt));
    if (late.len() as f64) < ctx.threshold(&DELAYED) * over.len() as f64 {
        return false;
    }
    // One late probe more than were seen, so that few prompt ones prove little.
    let chance_of_late = |end: &usize| {
        let prompt = others[end].iter().filter(|delay_ns| is_prompt(**delay_ns)).count();
        1.0 - prompt as f64 / (others[end].len() + 1) as f64
    };
    let chances: BTreeMap<usize, f64> = others.keys().map(|end| (*end, chance_of_late(end))).collect();
    let moments: BTreeSet<([usize; 2], i64)> =
        late.iter().map(|probe| (probe.ends, probe.sent_ns.div_euclid(1_000_000_000))).collect();
    let all_late: f64 = moments.iter().map(|(ends, _)| chances[&ends[0]].max(chances[&ends[1]]).ln()).sum();
    // Any of them may be the prompt ones.
    let ways: f64 = (1..=prompt.len()).map(|nth| ((late.len() + nth) as f64 / nth as f64).ln()).sum();
    all_late + ways <= ctx.threshold(&CHANCE).ln()
}

/// Whether two egress ports are of the same cable, or of cables that meet at a switch.
fn meet(ctx: &DetectorContext<'_>, one: usize, other: usize) -> bool {
    let nodes = |port: usize| [Some(ctx.fabric.ports.list[port].end.node), ctx.fabric.peer_node(port)];
    nodes(one).into_iter().flatten().any(|node| nodes(other).contains(&Some(node)))
}

/// Longest time for which a queue of a link can hold a packet, nanoseconds.
fn bound(ctx: &DetectorContext<'_>, link: usize) -> f64 {
    let floor = ctx.threshold(&QUEUED);
    let sent: f64 = ctx.sum(Signal::Tx, ctx.host_ports());
    // What all hosts send together bounds what a link carries: a link that is never full has no queue that stands.
    let rate = ctx.fabric.nominal_rate(link).filter(|rate| sent >= *rate);
    rate.map_or(floor, |rate| floor.max(ctx.threshold(&BUFFER) / rate * 1e9))
}

fn finding(ctx: &DetectorContext<'_>, mut near: Vec<Late>, began_ns: i64) -> Finding {
    near.sort_by(|a, b| b.delay_ns.total_cmp(&a.delay_ns));
    let Late { egress: worst, delay_ns, .. } = near[0];
    let cable = |port: usize| ctx.fabric.ports.list[port].link;
    let mut others: Vec<usize> = Vec::new();
    for port in near[1..].iter().map(|late| late.egress) {
        if cable(port) != cable(worst) && !others.iter().any(|known| cable(*known) == cable(port)) {
            others.push(port);
        }
    }
    let (whom, bound_ns) = (name(ctx, worst), bound(ctx, worst));
    let (ms, most_ms) = (delay_ns / 1e6, bound_ns / 1e6);
    let exceeds = delay_ns >= bound_ns;
    let why = if exceeds {
        format!("longer than any queue of it can hold them ({most_ms:.1} ms)")
    } else {
        format!("which a full queue may explain (up to {most_ms:.1} ms)")
    };
    let then: String = others.iter().map(|port| format!(", then the link at {}", name(ctx, *port))).collect();
    let which = if others.is_empty() {
        " Other probes of the same hosts are not so late.".to_owned()
    } else {
        format!(" Several links are on the same paths; likeliest is the link at {whom}{then}.")
    };
    let text = format!("nearly all probes over the link at {whom} take {ms:.1} ms longer, {why}.{which}");
    let evidence = Evidence {
        metric: "probe_delay_ns".to_owned(),
        at: whom,
        value: delay_ns,
        threshold: bound_ns,
        window_ns: ctx.window.time_range_ns(),
    };
    let sure = match (exceeds, others.is_empty()) {
        (true, true) => 0.75,
        (true, false) => 0.6,
        _ => 0.45,
    };
    let root = ctx.fabric.link_or_port(worst);
    let action = "Check what changed on this link: the way of a leased or optical line, the forward error correction and the \
                  rate of both ends, forwarding by the switch's processor. Take the link out of ECMP until it is found.";
    let found = Finding::new(IncidentKind::DegradedLink, root, sure, evidence, text).with_action(action);
    let example = &near[0].example;
    let mut found = found.began_at(Some(began_ns)).observed_at(example.ends[0]);
    if let Some(path) = path_over(ctx.fabric, example, &[worst]) {
        found = found.along(&path);
    }
    if others.is_empty() && exceeds { found } else { found.as_inferred() }
}
