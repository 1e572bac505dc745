//! A NIC that holds its switch back. A host forwards nothing, so a host that pauses is a root: either it does not drain
//! what it gets (`slow_receiver`), or it pauses without need (`pfc_storm`).
//!
//! The two look alike in time paused. What tells them: a receiver that is slow has a full buffer when it pauses, and takes
//! the pause back as soon as there is room, so one frame stands for a short time. A storm repeats the longest pause.

use super::{evidence, name, percent};
use crate::finding::{Finding, Kind, Root};
use crate::history::mean;
use crate::scene::Scene;
use crate::signal::Signal;

/// Share of time from which a NIC's pause is more than a hiccup.
const HELD: f64 = 0.01;
/// Share of time at which nothing gets through.
const DEAD: f64 = 0.95;
/// Of the longest pause: what a frame comes to that is never taken back.
const LONG: f64 = 0.8;
/// Quanta of the longest pause that one frame asks for, and bits in one.
const LONGEST_BITS: f64 = 65_535.0 * 512.0;
/// Bytes in a NIC's buffer above which it has something to drain.
const FILLED: f64 = 16_384.0;
/// Share of its link that a NIC receives at most while it stands still.
const STILL: f64 = 0.02;

pub(super) fn run(scene: &Scene<'_>) -> Vec<Finding> {
    scene.fabric.host_ports().filter_map(|port| judge(scene, port)).collect()
}

fn judge(scene: &Scene<'_>, port: usize) -> Option<Finding> {
    let held = scene.now(Signal::PauseTx, port)?;
    if held < HELD || scene.now.values(Signal::PauseTx, port).filter(|share| *share >= HELD).count() < 2 {
        return None;
    }
    let (storm, sure) = is_storm(scene, port, held);
    let (kind, what) = if storm {
        (Kind::PfcStorm, "without need: what it got did not fill its buffer")
    } else {
        (Kind::SlowReceiver, "because it does not drain what it gets")
    };
    let began = scene.first(|f| f.get(Signal::PauseTx, port).is_some_and(|share| share >= HELD));
    let evidence = evidence(scene, Signal::PauseTx, port, held, HELD);
    let text = format!("{} pauses its switch {} of the time, {what}.", name(scene, port), percent(held));
    Some(Finding::new(kind, Root::Port(port), sure, evidence, text).since(began))
}

/// Whether a NIC pauses without need, and how sure that is.
fn is_storm(scene: &Scene<'_>, port: usize, held: f64) -> (bool, f64) {
    let rate = scene.rate(port).unwrap_or(f64::NAN);
    let frames = scene.now(Signal::PauseFrames, port).unwrap_or(f64::NAN);
    // Of the longest pause: what one frame came to.
    let each = held / frames / (LONGEST_BITS / (rate * 8.0));
    // While it pauses; before that it may have worked.
    let paused =
        || scene.now.frames().iter().filter(|f| f.get(Signal::PauseTx, port).is_some_and(|share| share >= HELD));
    let while_paused = |signal| mean(paused().filter_map(|f| f.get(signal, port))).unwrap_or(f64::NAN);
    let dead = while_paused(Signal::PauseTx) >= DEAD && while_paused(Signal::Rx) < STILL * rate;
    let filled = scene.now.top(Signal::QueueMax, port).map(|bytes| bytes >= FILLED);
    let storm = filled != Some(true) && (each >= LONG || dead);
    (storm, if filled == Some(!storm) { 0.96 } else { 0.94 })
}
