//! The detectors: pure functions of a scene, one file each and one row in [`ALL`].

mod circle;
mod congestion;
mod credits;
mod degraded;
mod ecmp;
mod ecn;
mod host_pause;
mod incast;
mod link;
mod lossy;
mod noisy;
mod optics;
mod pcie;
mod straggler;
mod tcp;
mod transport;

pub(crate) use host_pause::HELD;

use crate::finding::{Evidence, Finding};
use crate::limits::Limit;
use crate::scene::Scene;
use crate::signal::Signal;

/// A row of [`ALL`].
pub struct Detector {
    /// As `docs/verdicts.md` and the configuration name it.
    pub name: &'static str,
    /// Seconds that it needs to be sure that something began.
    pub needs_s: f64,
    /// Seconds of calm before that it compares with.
    pub usual_s: f64,
    /// It counts over all of the time that it needs, also over what was before the incident.
    pub looks_back: bool,
    /// It compares places with each other, or tells where something begins: of each part of the fabric by itself.
    pub by_district: bool,
    /// What it finds in a scene.
    pub run: fn(&Scene<'_>) -> Vec<Finding>,
}

const fn row(name: &'static str, needs_s: f64, usual_s: f64, run: fn(&Scene<'_>) -> Vec<Finding>) -> Detector {
    Detector { name, needs_s, usual_s, looks_back: false, by_district: false, run }
}

const fn looks_back(detector: Detector) -> Detector {
    Detector { looks_back: true, ..detector }
}

const fn by_district(detector: Detector) -> Detector {
    Detector { by_district: true, ..detector }
}

/// All detectors; of findings that are as sure as each other, the earlier row counts.
pub const ALL: [Detector; 19] = [
    looks_back(row("link_flap", 120.0, 0.0, link::flap)),
    row("link_down", 4.0, 0.0, link::down),
    row("host_pause", 3.0, 0.0, host_pause::run),
    by_district(row("credits_hot", 30.0, 0.0, credits::hot)),
    by_district(row("credits", 60.0, 0.0, credits::warm)),
    row("degraded_link", 20.0, 0.0, degraded::run),
    row("lossy_link", 20.0, 0.0, lossy::run),
    by_district(row("ecn_marking", 4.0, 10.0, ecn::marking)),
    by_district(row("ecn_reaction", 10.0, 10.0, ecn::reaction)),
    by_district(row("incast", 8.0, 10.0, incast::run)),
    row("pcie", 30.0, 0.0, pcie::run),
    row("optics", 60.0, 0.0, optics::run),
    row("tcp_fallback", 30.0, 20.0, tcp::run),
    row("straggler_rail", 20.0, 20.0, straggler::run),
    by_district(row("noisy_neighbour", 15.0, 40.0, noisy::run)),
    by_district(row("ecmp_collision", 20.0, 40.0, ecmp::run)),
    by_district(row("pause", 4.0, 0.0, congestion::pause)),
    by_district(row("transport", 20.0, 1.0, transport::run)),
    by_district(row("loss_with_marks", 30.0, 45.0, congestion::loss)),
];

/// Their numbers.
pub(crate) static LIMITS: [&[&Limit]; 17] = [
    link::LIMITS,
    host_pause::LIMITS,
    credits::LIMITS,
    degraded::LIMITS,
    lossy::LIMITS,
    ecn::LIMITS,
    incast::LIMITS,
    pcie::LIMITS,
    optics::LIMITS,
    tcp::LIMITS,
    straggler::LIMITS,
    noisy::LIMITS,
    ecmp::LIMITS,
    transport::LIMITS,
    congestion::LIMITS,
    crate::wait::LIMITS,
    crate::victims::LIMITS,
];

/// A number of a port as evidence.
fn evidence(scene: &Scene<'_>, signal: Signal, port: usize, value: f64, threshold: f64) -> Evidence {
    Evidence {
        metric: metric(signal).to_owned(),
        at: name(scene, port),
        value,
        threshold,
        window_ns: scene.now.window_ns(),
    }
}

/// A number of a job as evidence.
fn of_job(scene: &Scene<'_>, signal: Signal, job: usize, value: f64, threshold: f64) -> Evidence {
    let at = scene.fabric.jobs[job].id.clone();
    Evidence { metric: metric(signal).to_owned(), at, value, threshold, window_ns: scene.now.window_ns() }
}

/// Ports of a job that get so many times the marked packets that are usual.
fn marked(scene: &Scene<'_>, job: usize, times: f64) -> Vec<usize> {
    let grown = |port: &usize| {
        let usual = scene.usual(Signal::EcnRx, *port).unwrap_or(0.0);
        scene.now(Signal::EcnRx, *port).is_some_and(|now| now > 0.0 && now >= times * usual)
    };
    scene.fabric.jobs[job].ports.iter().copied().filter(grown).collect()
}

/// The metric behind a signal: the first in its question.
fn metric(signal: Signal) -> &'static str {
    let query = crate::signal::ALL[signal as usize].query;
    let begin = query.find("fabric_").unwrap_or(0);
    let end =
        query[begin..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(query.len(), |n| begin + n);
    &query[begin..end]
}

/// A port in words.
fn name(scene: &Scene<'_>, port: usize) -> String {
    let end = &scene.fabric.ports.list[port].end;
    format!("{} port {}", scene.fabric.topology.nodes[end.node].name, end.port)
}

/// A share in words.
fn percent(share: f64) -> String {
    if share < 0.095 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}
