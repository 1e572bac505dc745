//! Congestion that none of the others explains: links between switches that are full, or pause whose begin is not seen.

use super::{evidence, name};
use crate::finding::{Finding, Kind, Root};
use crate::scene::Scene;
use crate::signal::Signal;
use crate::wait::{PAUSED, terminals};

pub(super) fn run(scene: &Scene<'_>) -> Vec<Finding> {
    let fabric = scene.fabric;
    let worst = (0..fabric.ports.list.len())
        .filter_map(|p| Some((p, scene.now(Signal::PauseRx, p)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, share)| *share >= PAUSED);
    let Some((paused, share)) = worst else { return Vec::new() };
    let between = |port: usize| !fabric.is_host(port) && fabric.ports.list[port].peer.is_some_and(|p| !fabric.is_host(p));
    let first = terminals(scene).first().filter(|t| between(t.port)).copied();
    let (kind, root, explanation) = match first.and_then(|t| Some((t.port, fabric.ports.list[t.port].link?))) {
        Some((port, link)) => (
            Kind::UplinkCongestion,
            Root::Link(link),
            format!("more goes out of {} than its link carries; its switch pauses those before it.", name(scene, port)),
        ),
        None => (
            Kind::FabricCongestion,
            Root::Fabric,
            format!("{} is kept from sending; where it begins is not seen.", name(scene, paused)),
        ),
    };
    let evidence = vec![evidence(scene, Signal::PauseRx, paused, share, PAUSED)];
    vec![Finding { kind, root, confidence: 0.4, culprits: Vec::new(), evidence, explanation }]
}
