//! Who waits for whom. A switch pauses those before it because one of its ports out is full; that port is full because it
//! is paused itself, or because more comes than its link carries. Walked to its end, this names where congestion begins.

use crate::fabric::Fabric;
use crate::scene::Scene;
use crate::signal::Signal;

/// Share of time paused from which a port takes part.
pub const PAUSED: f64 = 0.01;
/// Share of the time in which a port does not send that pause must explain, for it to wait for its peer.
const EXPLAINED: f64 = 0.5;
/// Of the longest queue of a switch: ports with less are not why it pauses.
const PART: f64 = 0.25;

/// A port at which congestion ends: nobody holds it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terminal {
    /// Sends as fast as it can, or is a host's that pauses its switch.
    pub port: usize,
    /// Bytes that wait there, on average; 0 if not measured.
    pub queue: f64,
}

/// Share of its link that a port sends.
pub fn load(scene: &Scene<'_>, port: usize) -> Option<f64> {
    Some(scene.now(Signal::Tx, port)? / scene.rate(port)?)
}

/// Where the pause that is seen anywhere comes from, the longest queue first.
pub fn terminals(scene: &Scene<'_>) -> Vec<Terminal> {
    let fabric = scene.fabric;
    let mut seen = vec![false; fabric.topology.nodes.len()];
    let mut next: Vec<usize> = pausing(scene).collect();
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

/// Switches that pause somebody.
fn pausing<'a>(scene: &'a Scene<'a>) -> impl Iterator<Item = usize> + 'a {
    let fabric: &Fabric = scene.fabric;
    let held = |port: &usize| {
        let own = scene.now(Signal::PauseTx, *port);
        let told = fabric.ports.list[*port].peer.and_then(|peer| scene.now(Signal::PauseRx, peer));
        own.or(told).is_some_and(|share| share >= PAUSED)
    };
    fabric.switch_ports().filter(held).map(|port| fabric.ports.list[port].end.node)
}

/// Ports of a switch that are full: those with the long queues, or where no queue is told those that are busy or paused.
fn full(scene: &Scene<'_>, node: usize) -> Vec<usize> {
    let ports = scene.fabric.ports.of_node(node);
    let queue = |port: &usize| scene.now(Signal::Queue, *port);
    let longest = ports.iter().filter_map(queue).fold(f64::NAN, f64::max);
    let busy = |port: usize| {
        let paused = scene.now(Signal::PauseRx, port).is_some_and(|share| share >= PAUSED);
        paused || load(scene, port).is_some_and(|share| share >= 0.9)
    };
    let is_full = |port: &usize| match queue(port) {
        Some(waits) if longest > 0.0 => waits >= PART * longest,
        _ => busy(*port),
    };
    ports.iter().copied().filter(is_full).collect()
}

/// The port that holds this one back, if pause is why it does not send more.
fn behind(scene: &Scene<'_>, port: usize) -> Option<usize> {
    let paused = scene.now(Signal::PauseRx, port)?;
    let idle = 1.0 - load(scene, port).unwrap_or(0.0).min(1.0);
    (paused >= PAUSED && paused >= EXPLAINED * idle).then_some(scene.fabric.ports.list[port].peer)?
}
