//! Who waits for whom. A switch holds back those before it because one of its ports out is full; that port is full because
//! it is held back itself, or because more comes than its link carries. Walked to its end, this names where congestion
//! begins. Ethernet holds back by pause; InfiniBand by giving no credits, which the sender counts as waiting.

use crate::fabric::Fabric;
use crate::history::Frame;
use crate::limits::limits;
use crate::scene::Scene;
use crate::signal::Signal;
use std::cell::OnceCell;
use std::sync::Arc;

limits! {
    /// paused at least so long, a port takes part in who waits for whom
    PAUSED = "wait.paused", 0.01, "share of time";
    /// the same on InfiniBand: unable to send (ports that lose arbitration count a little too)
    CREDITS = "wait.credits", 0.05, "share of line rate";
    /// of the time in which a port does not send, this must be explained by its peer, for it to wait for that
    EXPLAINED = "wait.explained", 0.5, "share of idle time";
    /// of the longest queue of a switch: ports with less are not why it holds others back
    PART = "wait.queue_part", 0.25, "share of bytes";
    /// what a port sends of its link's rate, while others wait for its switch: from here on it is full
    FULL = "wait.full", 0.7, "share of rate";
}

/// A port at which congestion ends: nobody holds it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terminal {
    /// Sends as fast as it can, or is a host's that holds its switch back.
    pub port: usize,
    /// Bytes that wait there, on average; 0 if not measured.
    pub queue: f64,
}

/// Share of its link that a port sends.
fn load(scene: &Scene<'_>, port: usize) -> Option<f64> {
    Some(scene.now(Signal::Tx, port)? / scene.rate(port)?)
}

/// How much those before a switch wait for it, by frame.
pub fn waited_for(scene: &Scene<'_>, node: usize) -> Vec<f64> {
    let list = &scene.fabric.ports.list;
    let before = scene.fabric.ports.of_node(node).iter().filter_map(|p| list[*p].peer);
    let before: Vec<usize> = before.filter(|p| is_held(scene, *p)).collect();
    let wait = |frame: &Arc<Frame>| {
        let held = |p: &usize| frame.get(Signal::PauseRx, *p).or_else(|| frame.get(Signal::XmitWait, *p));
        before.iter().filter_map(held).sum()
    };
    scene.now.frames().iter().map(wait).collect()
}

/// Share of its link that a port sends while others wait, by how much ([`waited_for`] its switch): what is full for moments
/// is not so on average.
pub fn load_while(scene: &Scene<'_>, waits: &[f64], port: usize) -> Option<f64> {
    let rate = scene.rate(port)?;
    let (mut sent, mut waited) = (0.0, 0.0);
    for (frame, wait) in scene.now.frames().iter().zip(waits).filter(|(_, wait)| **wait > 0.0) {
        let Some(load) = frame.get(Signal::Tx, port) else { continue };
        (sent, waited) = (sent + wait * load / rate, waited + wait);
    }
    (waited > 0.0).then(|| sent / waited)
}

/// Share of time in which a port was kept from sending: paused, or where pause is not measured without credits.
pub fn held(scene: &Scene<'_>, port: usize) -> Option<f64> {
    scene.now(Signal::PauseRx, port).or_else(|| scene.now(Signal::XmitWait, port))
}

/// Whether that is more than a hiccup.
pub fn is_held(scene: &Scene<'_>, port: usize) -> bool {
    let least = |signal, least| scene.now(signal, port).map(|share| share >= scene.limit(least));
    least(Signal::PauseRx, &PAUSED).or_else(|| least(Signal::XmitWait, &CREDITS)).unwrap_or(false)
}

/// Where the holding back that is seen anywhere comes from, the longest queue first.
pub fn terminals(scene: &Scene<'_>) -> Vec<Terminal> {
    let fabric = scene.fabric;
    let mut seen = vec![false; fabric.topology.nodes.len()];
    let mut next: Vec<usize> = holding(scene).collect();
    let mut found: Vec<Terminal> = Vec::new();
    while let Some(node) = next.pop() {
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        for port in full(scene, node) {
            let queue = scene.now(Signal::Queue, port).unwrap_or(0.0);
            match behind(scene, port) {
                Some(peer) if fabric.is_host(peer) => found.push(Terminal { port: peer, queue }),
                Some(peer) => next.push(fabric.ports.list[peer].end.node),
                None => found.push(Terminal { port, queue }),
            }
        }
    }
    found.sort_by(|a, b| b.queue.total_cmp(&a.queue));
    found.dedup_by_key(|t| t.port);
    found
}

/// Switches that hold somebody back.
fn holding<'a>(scene: &'a Scene<'a>) -> impl Iterator<Item = usize> + 'a {
    let fabric: &Fabric = scene.fabric;
    let holds = |port: &usize| match scene.now(Signal::PauseTx, *port) {
        Some(share) => share >= scene.limit(&PAUSED),
        None => fabric.ports.list[*port].peer.is_some_and(|peer| is_held(scene, peer)),
    };
    fabric.switch_ports().filter(holds).map(|port| fabric.ports.list[port].end.node)
}

/// Ports of a switch that are full: those with the long queues, or where no queue is told those that are busy or held.
fn full(scene: &Scene<'_>, node: usize) -> Vec<usize> {
    let ports = scene.fabric.ports.of_node(node);
    let queue = |port: &usize| scene.now(Signal::Queue, *port);
    let longest = ports.iter().filter_map(queue).fold(f64::NAN, f64::max);
    let waits = OnceCell::new();
    let busy = |port: usize| {
        let waits = || waits.get_or_init(|| waited_for(scene, node));
        is_held(scene, port) || load_while(scene, waits(), port).is_some_and(|share| share >= scene.limit(&FULL))
    };
    let is_full = |port: &usize| match queue(port) {
        Some(waits) if longest > 0.0 => waits >= scene.limit(&PART) * longest,
        _ => busy(*port),
    };
    ports.iter().copied().filter(is_full).collect()
}

/// The port that holds this one back, if that is why it does not send more.
fn behind(scene: &Scene<'_>, port: usize) -> Option<usize> {
    let share = held(scene, port)?;
    let idle = 1.0 - load(scene, port).unwrap_or(0.0).min(1.0);
    (is_held(scene, port) && share >= scene.limit(&EXPLAINED) * idle).then_some(scene.fabric.ports.list[port].peer)?
}
