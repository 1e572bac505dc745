//! Congestion control that does not work: switches that do not mark, receivers that do not tell, senders that do not
//! listen. Marking begins long before pause (that is what DCQCN is tuned for), so pause without marks is no accident.

use super::{evidence, name, percent};
use crate::finding::{Evidence, Finding, Kind, Root};
use crate::history::{Frame, mean};
use crate::limits::limits;
use crate::scene::Scene;
use crate::signal::Signal;
use crate::wait::PAUSED;
use std::collections::BTreeMap;

limits! {
    /// times in a row that a queue was long enough to be marked and nothing was
    UNMARKED = "ecn_marking.unmarked", 6.0, "samples";
    /// of the queues with marks: those that are shorter than what this fabric marks for sure
    LENGTH = "ecn_marking.shorter", 0.75, "share of queues";
    /// queues with marks that must have been seen to know at which length this fabric marks
    SEEN = "ecn_marking.seen", 20.0, "samples";
    /// of its rate: what a port with a long queue sends at least, if it is free to
    MOVES = "ecn_marking.moves", 0.3, "share of rate";
    /// share of time in which it may be held
    HELD = "ecn_marking.held", 0.3, "share of time";
    /// of what was usual: below this, marks have ceased
    CEASED = "ecn_marking.ceased", 0.02, "times usual";
    /// the same of marked packets that arrive anywhere, if only one leaf does not mark: others still do
    OTHERS = "ecn_marking.others", 0.3, "times usual";
    /// of what was usual: notifications of hosts that a leaf pauses; with fewer it does not mark
    UNTOLD = "ecn_marking.untold", 0.3, "times usual";
    /// of samples with marks: the part with fewer, after which none need follow
    FAINT = "ecn_reaction.faint", 0.5, "share of samples";
    /// how often a sample with marks passes without a notification, at least: a few seconds tell no smaller chance
    CHANCE = "ecn_reaction.chance", 0.05, "chance";
    /// a chance that nobody would believe in, among many hosts and many seconds
    IMPOSSIBLE = "ecn_reaction.impossible", 1e-8, "chance";
    /// of what was usual: senders that get so many more notifications should send less
    MORE = "ecn_reaction.more", 3.0, "times usual";
    /// notifications to one port below which nobody must react
    FEW = "ecn_reaction.notifications", 2_000.0, "per second";
    /// of what was usual: a sender that sends as much did not react
    SAME = "ecn_reaction.same", 0.85, "times usual";
    /// of its rate: what it sends at least, for it to matter
    SENDS = "ecn_reaction.sends", 0.1, "share of rate";
    /// ports of which that is so at a time
    PORTS = "ecn_reaction.ports", 2.0, "ports";
    /// of what was usual: what their job moves at least
    LEAST = "ecn_reaction.job_least", 0.9, "times usual";
    /// the same at most: a job that sends more is told more often, and that is no fault
    MOST = "ecn_reaction.job_most", 1.3, "times usual";
}

/// Switches that do not mark.
pub(super) fn marking(scene: &Scene<'_>) -> Vec<Finding> {
    [switches(scene), hosts_see_no_marks(scene)].into_iter().flatten().collect()
}

/// Receivers that do not tell, senders that do not listen.
pub(super) fn reaction(scene: &Scene<'_>) -> Vec<Finding> {
    [silent_receivers(scene), deaf_senders(scene)].into_iter().flatten().collect()
}

fn found(root: Root, confidence: f64, evidence: Evidence, explanation: String) -> Finding {
    Finding::new(Kind::EcnMisconfigured, root, confidence, evidence, explanation)
}

/// The queue at which this fabric marks: the longer ones of those that had marks before trouble.
fn marking_queue(scene: &Scene<'_>) -> Option<f64> {
    let mut queues: Vec<f64> = Vec::new();
    for frame in scene.usual.stretch.frames() {
        let marked = scene.switch_ports().filter(|p| frame.get(Signal::Marks, *p).is_some_and(|m| m > 0.0));
        queues.extend(marked.filter_map(|p| frame.get(Signal::QueueMax, p)));
    }
    queues.sort_by(f64::total_cmp);
    nth(&queues, scene.limit(&LENGTH)).copied().filter(|_| queues.len() as f64 >= scene.limit(&SEEN))
}

/// The first of a list that is longer than a part of it.
fn nth<T>(list: &[T], part: f64) -> Option<&T> {
    list.get((list.len() as f64 * part) as usize)
}

/// Switches with long queues and no marks.
fn switches(scene: &Scene<'_>) -> Option<Finding> {
    let long = marking_queue(scene)?;
    // By switch: how often since its last mark a queue was long enough, and where last.
    let mut unmarked: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for frame in scene.now.frames() {
        for node in scene.district.nodes.iter().copied() {
            let ports = scene.fabric.ports.of_node(node);
            if ports.iter().any(|p| frame.get(Signal::Marks, *p).is_some_and(|marks| marks > 0.0)) {
                unmarked.insert(node, (0, 0));
                continue;
            }
            let waits = |p: &&usize| frame.get(Signal::QueueMax, **p).is_some_and(|queue| queue >= long);
            for port in ports.iter().filter(waits).filter(|p| moves(scene, frame, **p)) {
                let times = unmarked.get(&node).map_or(0, |u| u.0);
                unmarked.insert(node, (times + 1, *port));
            }
        }
    }
    let some_mark = unmarked.values().any(|(times, _)| *times == 0);
    unmarked.retain(|_, (times, _)| *times as f64 >= scene.limit(&UNMARKED));
    if some_mark && unmarked.len() > 1 {
        // Some mark: it is not the whole fabric, so it is the one that had most to mark.
        let most = unmarked.iter().max_by_key(|(_, (times, _))| *times).map(|(node, _)| *node);
        unmarked.retain(|node, _| Some(*node) == most);
    }
    let (first, (_, port)) = unmarked.first_key_value()?;
    let queue = scene.now(Signal::QueueMax, *port).unwrap_or(0.0);
    let evidence = evidence(scene, Signal::QueueMax, *port, queue, long);
    let named = |node: &usize| scene.fabric.topology.nodes[*node].name.as_str();
    let names: Vec<&str> = unmarked.keys().map(named).collect();
    let root = if unmarked.len() == 1 { Root::Switch(*first) } else { Root::Fabric };
    let text = format!(
        "queues on {} were longer than those that this fabric marks, and not one packet was marked: senders are never told \
         to slow down.",
        names.join(", ")
    );
    Some(found(root, 0.93, evidence, text).near(*port))
}

/// Whether a port sends freely: packets are marked on their way out, so a port that stands still marks nothing.
fn moves(scene: &Scene<'_>, frame: &Frame, port: usize) -> bool {
    let sends = frame
        .get(Signal::Tx, port)
        .zip(scene.rate(port))
        .is_some_and(|(sent, rate)| sent >= scene.limit(&MOVES) * rate);
    sends && frame.get(Signal::PauseRx, port).unwrap_or(0.0) <= scene.limit(&HELD)
}

/// Seen from hosts alone: switches pause them, and marked packets no longer arrive.
fn hosts_see_no_marks(scene: &Scene<'_>) -> Option<Finding> {
    if scene.switch_ports().any(|p| scene.now(Signal::Marks, p).is_some()) {
        return None;
    }
    let paused: Vec<usize> = scene
        .host_ports()
        .filter(|p| scene.now(Signal::PauseRx, *p).is_some_and(|s| s >= scene.limit(&PAUSED)))
        .collect();
    let worst = *paused.iter().max_by(|a, b| {
        let of = |p: usize| scene.now(Signal::PauseRx, p).unwrap_or(0.0);
        of(**a).total_cmp(&of(**b))
    })?;
    let share = scene.now(Signal::PauseRx, worst)?;
    let paused_by = evidence(scene, Signal::PauseRx, worst, share, scene.limit(&PAUSED));
    let fewer = |signal, value, threshold| Evidence {
        at: "hosts".to_owned(),
        ..evidence(scene, signal, worst, value, threshold)
    };
    let sums = |signal, ports: &mut dyn Iterator<Item = usize>| {
        let ports: Vec<usize> = ports.collect();
        (scene.sum(signal, ports.iter().copied()), scene.usual_sum(signal, ports.into_iter()))
    };
    let (now, usual) = sums(Signal::EcnRx, &mut scene.host_ports());
    if usual > 0.0 && now <= scene.limit(&CEASED) * usual {
        let text = format!(
            "switches pause hosts ({} {} of the time), and marked packets, which came before, no longer arrive anywhere.",
            name(scene, worst),
            percent(share)
        );
        let marked = fewer(Signal::EcnRx, now, scene.limit(&CEASED) * usual);
        return Some(found(Root::Fabric, 0.85, paused_by, text).and(marked).near(worst));
    }
    // One leaf: the hosts that it pauses are no longer told, others still are.
    let leaf = scene.fabric.peer_node(worst)?;
    if paused.iter().any(|p| scene.fabric.peer_node(*p) != Some(leaf)) || now < scene.limit(&OTHERS) * usual {
        return None;
    }
    let (told, before) = sums(Signal::CnpRx, &mut paused.iter().copied());
    let most = scene.limit(&UNTOLD) * before;
    (before > 0.0 && told <= most).then(|| {
        let leaf_name = &scene.fabric.topology.nodes[leaf].name;
        let text =
            format!("{leaf_name} pauses its hosts, and these are no longer told of congestion: it does not mark.");
        found(Root::Switch(leaf), 0.75, paused_by, text).and(fewer(Signal::CnpRx, told, most))
    })
}

/// Receivers that get marks and tell nobody, so often that it is no chance.
fn silent_receivers(scene: &Scene<'_>) -> Option<Finding> {
    // Few are, and what is usual of all is long to look through.
    let never = |port: &usize| {
        scene.now(Signal::CnpTx, *port) == Some(0.0) && scene.now(Signal::EcnRx, *port).is_some_and(|marks| marks > 0.0)
    };
    let suspects: Vec<usize> = scene.host_ports().filter(never).collect();
    if suspects.is_empty() {
        return None;
    }
    // How often a tick with that many marks usually passes without a notification, on any host.
    let marked = |frame: &Frame, port| frame.get(Signal::EcnRx, port).filter(|marks| *marks > 0.0);
    let quiet = |frame: &Frame, port| frame.get(Signal::CnpTx, port) == Some(0.0);
    let mut usual: Vec<(f64, bool)> = Vec::new();
    for frame in scene.usual.stretch.frames() {
        let hosts = scene.host_ports();
        usual.extend(hosts.filter_map(|p| Some((marked(frame, p)?, quiet(frame, p)))));
    }
    usual.sort_by(|a, b| a.0.total_cmp(&b.0));
    let faint = nth(&usual, scene.limit(&FAINT))?.0;
    let many = usual.iter().filter(|u| u.0 >= faint);
    let chance = mean(many.map(|u| if u.1 { 1.0 } else { 0.0 }))?.max(scene.limit(&CHANCE));
    let silent = |port: usize| {
        let frames = || scene.now.frames().iter().filter(move |f| marked(f, port).is_some_and(|m| m >= faint));
        let ticks = frames().count();
        (chance.powi(ticks as i32) < scene.limit(&IMPOSSIBLE)).then_some((port, ticks))
    };
    let (port, ticks) = suspects.into_iter().filter_map(silent).max_by_key(|s| s.1)?;
    let marks = scene.now(Signal::EcnRx, port)?;
    let got = evidence(scene, Signal::EcnRx, port, marks, faint);
    let passed = evidence(scene, Signal::CnpTx, port, chance.powi(ticks as i32), scene.limit(&IMPOSSIBLE));
    let text = format!(
        "{} got marked packets in {ticks} samples and sent not one notification: its senders are never told to slow down.",
        name(scene, port)
    );
    let passed = Evidence { metric: "chance_of_no_notification".to_owned(), ..passed };
    Some(found(Root::Port(port), 0.9, got, text).and(passed).to(vec![port]))
}

/// A port that sends as before although it is told to send less: how often it is told and what it sends, each beside the
/// least that counts.
struct Deaf {
    port: usize,
    told: f64,
    many: f64,
    sent: f64,
    same: f64,
}

/// Senders that are told to slow down and do not.
fn deaf_senders(scene: &Scene<'_>) -> Option<Finding> {
    let pauses =
        scene.ports().any(|p| scene.now(Signal::PauseRx, p).is_some_and(|share| share >= scene.limit(&PAUSED)));
    if !pauses {
        return None;
    }
    let deaf = |port: usize| {
        let (told, before) = (scene.now(Signal::CnpRx, port)?, scene.usual(Signal::CnpRx, port)?);
        let (sent, usual) = (scene.now(Signal::Tx, port)?, scene.usual(Signal::Tx, port)?);
        let same = (scene.limit(&SAME) * usual).max(scene.limit(&SENDS) * scene.rate(port)?);
        let many = scene.limit(&FEW).max(scene.limit(&MORE) * before);
        (told >= many && sent >= same).then_some(Deaf { port, told, many, sent, same })
    };
    let mut ports: Vec<Deaf> = scene.host_ports().filter_map(deaf).collect();
    ports.sort_by(|a, b| b.told.total_cmp(&a.told));
    let &Deaf { port: worst, told, many, sent, same } = ports.first()?;
    // A job that sends more than before is told more often; that is no fault.
    let job = scene.fabric.job_of(worst)?;
    let fare = scene.fare(job)?;
    let as_before = scene.limit(&LEAST)..scene.limit(&MOST);
    if (ports.len() as f64) < scene.limit(&PORTS) || !as_before.contains(&fare.ratio) {
        return None;
    }
    let told_of = evidence(scene, Signal::CnpRx, worst, told, many);
    let sends = evidence(scene, Signal::Tx, worst, sent, same);
    let text = format!(
        "{} and {} more ports of {} are told to slow down {told:.0} times a second and send as much as before, until they \
         are paused: they do not react to congestion notifications.",
        name(scene, worst),
        ports.len() - 1,
        scene.fabric.jobs[job].id
    );
    Some(found(Root::Port(worst), 0.88, told_of, text).and(sends))
}
