//! A link that carries less than it should: it says so itself (its rate fell), or it shows: data waits all the time and
//! still no more goes out than a part of the rate.

use super::{evidence, name, percent};
use crate::finding::{Finding, Kind, Root};
use crate::history::{Frame, mean};
use crate::scene::Scene;
use crate::signal::Signal;

/// Of its rate before, or of the topology's: below this a link is degraded.
const LESS: f64 = 0.9;
/// Bytes that wait at both ends of a tick in which the port had something to send all the time.
const BACKLOG: f64 = 65_536.0;
/// Such ticks that are needed, of a link that was seen to carry more.
const TICKS: usize = 4;
/// Of what it sends at most now: what it once did.
const FELL: f64 = 1.25;
/// Of its rate: what a port sends at most in such ticks, for the link to be degraded.
const SERVED: f64 = 0.8;

pub(super) fn run(scene: &Scene<'_>) -> Vec<Finding> {
    let links = scene.fabric.topology.links.iter().enumerate();
    let ends = |link: &crate::topology::Link| link.ends.clone().map(|end| scene.fabric.ports.at(&end));
    links
        .filter_map(|(at, link)| {
            let ports: Vec<usize> = ends(link).into_iter().flatten().collect();
            ports.iter().find_map(|p| says(scene, at, *p)).or_else(|| ports.iter().find_map(|p| shows(scene, at, *p)))
        })
        .collect()
}

/// Its rate fell.
fn says(scene: &Scene<'_>, link: usize, port: usize) -> Option<Finding> {
    let rate = scene.now.values(Signal::Rate, port).last()?;
    let should = scene.rate(port)?.max(scene.fabric.nominal(port).unwrap_or(0.0));
    if rate <= 0.0 || rate >= LESS * should {
        return None;
    }
    let began = scene.first(|f| f.get(Signal::Rate, port).is_some_and(|rate| rate < LESS * should));
    let evidence = evidence(scene, Signal::Rate, port, rate, LESS * should);
    let text = format!("the link at {} runs at {} of its rate.", name(scene, port), percent(rate / should));
    Some(Finding::new(Kind::DegradedLink, Root::Link(link), 0.97, evidence, text).since(began))
}

/// It does not carry what waits.
fn shows(scene: &Scene<'_>, link: usize, port: usize) -> Option<Finding> {
    let rate = scene.rate(port)?;
    if scene.now(Signal::PauseRx, port).unwrap_or(0.0) > 0.01 {
        return None;
    }
    let waits = |frame: &Frame| frame.get(Signal::Queue, port).is_some_and(|queue| queue >= BACKLOG);
    let pairs = scene.now.frames().windows(2).filter(|pair| waits(&pair[0]) && waits(&pair[1]));
    let served: Vec<f64> = pairs.filter_map(|pair| Some(pair[1].get(Signal::Tx, port)? / rate)).collect();
    let fast = served.iter().copied().fold(0.0, f64::max);
    let top = scene.now.top(Signal::Tx, port)? / rate;
    // It once carried more: fewer such ticks are enough.
    let fell = scene.usual.stretch.top(Signal::Tx, port).is_some_and(|usual| usual >= FELL * top * rate);
    let enough = if fell { TICKS } else { 3 * TICKS };
    if served.len() < enough || fast > SERVED || top > SERVED + 0.05 {
        return None;
    }
    let share = mean(served.iter().copied())?;
    let evidence = evidence(scene, Signal::Tx, port, share * rate, SERVED * rate);
    let text = format!(
        "the link at {} carries {} of its rate while data waits for it, and nobody pauses it: it is slower than it says.",
        name(scene, port),
        percent(share)
    );
    Some(Finding::new(Kind::DegradedLink, Root::Link(link), 0.9, evidence, text))
}
