//! A slow link of a leaf that sprays packets: each packet takes any of the leaf's parallel links, so that all of them carry the
//! same at any time. Uplinks then differ only if one of them cannot carry its part: it falls behind the others, or packets
//! wait for it alone.

use crate::detectors::context::DetectorContext;
use crate::detectors::degraded_link::BACKLOG;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name, percent};
use crate::detectors::hold_signal::PAUSED;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use crate::model::topology::Role;

pub(super) const DETECTOR: Detector = Detector {
    name: "sprayed_uplink",
    warm_up_s: 10.0,
    baseline_s: 10.0,
    looks_back: false,
    per_fault_domain: true,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// how far the load of each of a leaf's parallel links may be from their mean in a sample where the leaf sprays; links that
    /// flows are hashed to differ by a third and more
    EVEN = "sprayed_uplink.even", 0.1, "share of mean";
    /// share of the baseline's loaded samples in which they must be that even: hashed flows hardly ever are
    MOST = "sprayed_uplink.most", 0.5, "share of samples";
    /// such samples that the baseline needs
    SAMPLES = "sprayed_uplink.samples", 10.0, "samples";
    /// mean load of parallel links below which a sample says nothing
    LOADED = "sprayed_uplink.loaded", 0.05, "share of rate";
    /// load of the slow link, relative to the others, in the mean and in half of the samples
    LESS = "sprayed_uplink.less", 0.8, "times the others";
    /// the same below which a link is not slow but unused
    UNUSED = "sprayed_uplink.unused", 0.05, "times the others";
    /// queue of the slow link, relative to the longest of the others, if it carries no more than they
    LONGER = "sprayed_uplink.queue", 10.0, "times the next";
    /// time in which the window must be loaded
    LASTS = "sprayed_uplink.lasts", 4.0, "seconds";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let fabric = ctx.fabric;
    let leaves = ctx.domain.nodes.iter().copied().filter(|n| fabric.topology.nodes[*n].role == Role::Leaf);
    leaves.flat_map(|leaf| directions(ctx, leaf)).filter_map(|links| judge(ctx, &links)).collect()
}

/// Whether a leaf sprays the packets that it sends upwards.
pub(super) fn sprays(ctx: &DetectorContext<'_>, leaf: usize) -> bool {
    directions(ctx, leaf).first().is_some_and(|uplinks| are_sprayed(ctx, uplinks))
}

/// The ports of a leaf towards other switches, and the ports at their other ends.
fn directions(ctx: &DetectorContext<'_>, leaf: usize) -> [Vec<usize>; 2] {
    let (ports, list) = (&ctx.fabric.ports, &ctx.fabric.ports.list);
    let up = |port: &usize| list[*port].peer.filter(|peer| !ctx.fabric.is_host(*peer));
    let uplinks = ports.of_node(leaf).iter().filter_map(|port| Some((*port, up(port)?)));
    let (up, down): (Vec<usize>, Vec<usize>) = uplinks.unzip();
    [up, down]
}

/// What each of these ports sends in a sample, if all are known and loaded.
fn loads(ctx: &DetectorContext<'_>, frame: &Frame, links: &[usize], rate: f64) -> Option<Vec<f64>> {
    let mut loads = Vec::with_capacity(links.len());
    for port in links {
        loads.push(frame.get(Signal::Tx, *port)?);
    }
    (mean(loads.iter().copied())? >= ctx.threshold(&LOADED) * rate).then_some(loads)
}

fn is_even(ctx: &DetectorContext<'_>, loads: &[f64]) -> bool {
    let usual = mean(loads.iter().copied()).unwrap_or(0.0);
    loads.iter().all(|load| (load - usual).abs() <= ctx.threshold(&EVEN) * usual)
}

/// Whether three or more ports carried the same in each sample of the baseline: two do now and then by chance.
fn are_sprayed(ctx: &DetectorContext<'_>, links: &[usize]) -> bool {
    // On InfiniBand, `credits` judges links by what waits for them.
    if links.len() < 3 || links.iter().any(|port| ctx.mean(Signal::XmitWait, *port).is_some()) {
        return false;
    }
    let Some(rate) = ctx.line_rate(links[0]) else { return false };
    ctx.baseline.derived.sprayed.get((links.to_vec(), rate.to_bits()), || were_even(ctx, links, rate))
}

/// Whether these ports carried the same in most of the baseline's loaded samples.
fn were_even(ctx: &DetectorContext<'_>, links: &[usize], rate: f64) -> bool {
    let (least, most) = (ctx.threshold(&SAMPLES), ctx.threshold(&MOST));
    let (mut even, mut loaded) = (0, 0_u32);
    let frames = ctx.baseline.window.frames();
    for (at, frame) in frames.iter().enumerate() {
        // Flows that are hashed are seldom even: soon the frames that are left cannot be enough.
        let left = frames.len() - at;
        if ((even + left) as f64) < least.max(most.min(1.0) * (f64::from(loaded) + left as f64)) {
            return false;
        }
        if let Some(loads) = loads(ctx, frame, links, rate) {
            loaded += 1;
            even += usize::from(is_even(ctx, &loads));
        }
    }
    even as f64 >= least.max(most * f64::from(loaded))
}

fn judge(ctx: &DetectorContext<'_>, links: &[usize]) -> Option<Finding> {
    if !are_sprayed(ctx, links) || links.iter().any(|port| is_near_a_dead_link(ctx, *port)) {
        return None;
    }
    let rate = ctx.line_rate(*links.first()?)?;
    let frames = ctx.window.frames().iter();
    let samples: Vec<Vec<f64>> = frames.filter_map(|frame| loads(ctx, frame, links, rate)).collect();
    if samples.len() < 2 || samples.len() as f64 * ctx.step_s.max(1.0) < ctx.threshold(&LASTS) {
        return None;
    }
    let sent: Vec<f64> = (0..links.len()).filter_map(|at| mean(samples.iter().map(|loads| loads[at]))).collect();
    let queues: Vec<f64> = links.iter().map(|port| ctx.mean(Signal::Queue, *port).unwrap_or(0.0)).collect();
    (0..links.len()).find_map(|at| {
        let others = |all: &[f64]| -> Vec<f64> {
            all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, value)| *value).collect()
        };
        let rest = others(&sent);
        let usual = mean(rest.iter().copied())?;
        // What holds a port back is behind it. If the others differ too, packets are no longer sprayed.
        let paused = ctx.mean(Signal::PauseRx, links[at]).is_some_and(|share| share >= ctx.threshold(&PAUSED));
        if paused || !is_even(ctx, &rest) {
            return None;
        }
        let less = ctx.threshold(&LESS) * usual;
        let longest = ctx.threshold(&LONGER) * others(&queues).into_iter().fold(0.0, f64::max);
        let least = longest.max(ctx.threshold(&BACKLOG) * ctx.line_rate(links[at])?);
        let parts = samples.iter().filter_map(|loads| Some(loads[at] / mean(others(loads).into_iter())?));
        let lags = parts.filter(|part| (ctx.threshold(&UNUSED)..ctx.threshold(&LESS)).contains(part)).count();
        let behind = sent[at] < less && 2 * lags >= samples.len();
        let waits = queues[at] >= least && sent[at] <= usual;
        let carries = evidence(ctx, Signal::Tx, links[at], sent[at], less);
        let queue = evidence(ctx, Signal::Queue, links[at], queues[at], least);
        (behind || waits).then(|| slow(ctx, links[at], sent[at] / usual, [carries, queue]))?
    })
}

fn slow(ctx: &DetectorContext<'_>, port: usize, part: f64, [carries, queue]: [Evidence; 2]) -> Option<Finding> {
    let root = LocationId::Link(ctx.fabric.ports.list[port].link?);
    let text = format!(
        "{} carries {} of what each parallel link does, although packets are sprayed evenly over them, and it is not \
         paused: it is slower than it reports.",
        name(ctx, port),
        percent(part)
    );
    Some(Finding::new(IncidentKind::DegradedLink, root, 0.85, carries, text).with_evidence(queue).as_inferred())
}

/// Whether a link at either end's switch was down in the window: what cannot go that way no longer takes this link either.
fn is_near_a_dead_link(ctx: &DetectorContext<'_>, port: usize) -> bool {
    let (ports, list) = (&ctx.fabric.ports, &ctx.fabric.ports.list);
    let down = |port: usize| ctx.window.values(Signal::Up, port).any(|up| up == 0.0);
    let between =
        |port: &&usize| !ctx.fabric.is_host(**port) && list[**port].peer.is_some_and(|p| !ctx.fabric.is_host(p));
    let nodes = [Some(list[port].end.node), ctx.fabric.peer_node(port)];
    let near = nodes.into_iter().flatten().flat_map(|node| ports.of_node(node).iter().filter(between));
    near.flat_map(|port| [Some(*port), list[*port].peer]).flatten().any(down)
}
