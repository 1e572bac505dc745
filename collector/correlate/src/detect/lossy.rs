//! A link that corrupts frames. The receiving end counts them; the link is named, not the end, because a counter cannot
//! tell the cable from the transceivers at its ends.

use super::{evidence, name};
use crate::finding::{Finding, Kind, Root};
use crate::scene::Scene;
use crate::signal::Signal;

/// Errors that are no accident.
const ERRORS: f64 = 2.0;

pub(super) fn run(scene: &Scene<'_>) -> Vec<Finding> {
    let find = |port: usize| {
        let errors = scene.now(Signal::WireErrors, port)? * scene.seconds();
        let before = scene.usual(Signal::WireErrors, port).unwrap_or(0.0) * scene.seconds();
        let link = scene.fabric.ports.list[port].link?;
        if errors < ERRORS || errors < 3.0 * before {
            return None;
        }
        let began = scene.first(|f| f.get(Signal::WireErrors, port).is_some_and(|rate| rate > 0.0));
        let evidence = evidence(scene, Signal::WireErrors, port, errors, ERRORS);
        let text = format!("{} received {errors:.0} frames that the link had corrupted.", name(scene, port));
        Some(Finding::new(Kind::LossyLink, Root::Link(link), 0.92, evidence, text).since(began))
    };
    (0..scene.fabric.ports.list.len()).filter_map(find).collect()
}
