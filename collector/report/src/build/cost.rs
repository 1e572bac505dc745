//! How much time the network cost a job: from its ports, or from its rollups where ports were read at a few instants.

use super::congestion::{grades, held, wait_share};
use super::ports::{Over, Port, What, figure, sum};
use super::slowed::{Spell, Step, spells, together};
use super::{Scene, attributed};
use crate::model::{Cost, Figure, Grade, Incident, Method, Slowed, Unit};
use crate::read::Source;
use fabriclens_correlate::FULL_PACKET_BYTES;
use fabriclens_jobs::Job;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;

/// Stretches that are told one by one; what cost most.
const LISTED: usize = 12;
/// Seconds below which one is not worth a line.
const WORTH_S: f64 = 0.1;

const BASIS: &str = "At least: what the job moved less than usual of it, near that time, while the network is known to \
    have held it (ports paused or without credits, congestion notifications handled, packets sent again, an incident with \
    the job as victim), less twice what its rate differs by anyway. At most: what it moved less than its best then, or the \
    time in which the port that was held back longest could not send, as for a job that always waits for its slowest rank, \
    whichever is longer. A phase in which nothing held it costs nothing, however little it moves. What held it back all the \
    time cannot be told from its own rate, and how long retransmission timers wait is known to the application alone.";

/// A job's time in steps, by grade of what was measured.
type Curves = BTreeMap<Grade, Vec<Step>>;

/// Of the job of a report.
pub(super) fn cost(scene: &Scene<'_>, incidents: &[Incident]) -> Result<Cost, QueryError> {
    let (edges, mut curves) = match scene.source.method {
        Method::Samples => (scene.source.edges(), of_ports(scene)),
        Method::Checkpoints => of_rollups(&scene.source, scene.job, (scene.source.start_ms, scene.source.end_ms))?,
    };
    for incident in incidents.iter().filter(|i| i.role == "victim") {
        let (from, to) = (incident.start_ns / 1_000_000, incident.end_ns.map_or(i64::MAX, |end| end / 1_000_000));
        for steps in curves.values_mut() {
            steps.iter_mut().zip(edges.windows(2)).for_each(|(step, e)| step.victim |= e[0] < to && from < e[1]);
        }
    }
    let seconds = scene.source.seconds();
    let bounds = Bounds::of(&curves, seconds, |grade| scene.ports.iter().filter(|p| p.grade == grade).count());
    let mut slowed: Vec<Slowed> = Vec::new();
    for (grade, spells) in &bounds.spells {
        slowed.extend(spells.iter().filter(|s| s.at_most >= WORTH_S).map(|s| told(s, *grade, &edges)));
    }
    slowed.sort_by(|a, b| b.at_most.total_cmp(&a.at_most));
    slowed.truncate(LISTED);
    slowed.sort_by_key(|s| (s.start_ns, s.grade));
    Ok(Cost {
        at_most_share: share(&bounds.at_most, seconds),
        at_least: bounds.at_least,
        at_most: bounds.at_most,
        held: bounds.held,
        mean: figure(Unit::Seconds, Over::Mean, scene.ports.iter().map(|p| (p.grade, held_in_all(scene, p)))),
        timeouts: sum(Unit::Count, &scene.ports, What::Timeouts),
        slowed,
        basis: BASIS.to_owned(),
    })
}

/// What an earlier job lost at most, as a share of its time.
pub(super) fn earlier(source: &Source<'_>, job: &Job, (start_ms, end_ms): (i64, i64)) -> Result<Figure, QueryError> {
    let seconds = (end_ms - start_ms) as f64 / 1000.0;
    let (_, curves) = of_rollups(source, job, (start_ms, end_ms))?;
    Ok(share(&Bounds::of(&curves, seconds, |_| job.hosts.len()).at_most, seconds))
}

fn share(figure: &Figure, seconds: f64) -> Figure {
    let mut share = Figure { unit: Unit::Ratio, parts: figure.parts.clone() };
    share.parts.iter_mut().for_each(|p| p.value /= seconds);
    share
}

/// What the time of a job comes to.
struct Bounds {
    at_least: Figure,
    at_most: Figure,
    held: Figure,
    spells: BTreeMap<Grade, Vec<Spell>>,
}

impl Bounds {
    /// `of`: how many ports or hosts a grade has.
    fn of(curves: &Curves, seconds: f64, of: impl Fn(Grade) -> usize) -> Self {
        let spells: BTreeMap<Grade, Vec<Spell>> = curves.iter().map(|(grade, steps)| (*grade, spells(steps))).collect();
        let (mut least, mut most, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (grade, steps) in curves {
            let found = &spells[grade];
            let held: Vec<Option<f64>> = steps.iter().map(Step::held).collect();
            let within = |n: &usize| found.iter().any(|s| s.steps.contains(n));
            let outside: f64 = (0..steps.len()).filter(|n| !within(n)).filter_map(|n| held[n]).sum();
            // Whether anything held it must have been counted; else its rate says nothing.
            let signs = steps.iter().any(|s| s.signs.iter().any(Option::is_some));
            let moved = steps.iter().any(|s| s.moved.is_some());
            let lost: Option<f64> = found.iter().map(|s| s.at_least).sum();
            least.push((*grade, lost.filter(|_| signs && moved)));
            most.push((*grade, signs.then(|| outside + found.iter().map(|s| s.at_most).sum::<f64>())));
            all.push((*grade, held.iter().any(Option::is_some).then(|| held.iter().flatten().sum())));
        }
        let of_all = |values: Vec<(Grade, Option<f64>)>| {
            let mut figure = figure(Unit::Seconds, Over::Sum, values);
            figure.parts.iter_mut().for_each(|p| (p.value, p.of) = (p.value.min(seconds), of(p.grade)));
            figure
        };
        Self { at_least: of_all(least), at_most: of_all(most), held: of_all(all), spells }
    }
}

fn told(spell: &Spell, grade: Grade, edges: &[i64]) -> Slowed {
    let Spell { steps, why, moved, usual, at_least, at_most } = spell.clone();
    let [start_ns, end_ns] = [steps.start, steps.end].map(|n| edges[n] * 1_000_000);
    Slowed { start_ns, end_ns, grade, why, moved, usual, at_least, at_most }
}

/// Seconds of all its time that a port could not send.
fn held_in_all(scene: &Scene<'_>, port: &Port) -> Option<f64> {
    let wait = wait_share(scene, port).map(|share| share * scene.source.seconds());
    Some(together(port.total(What::Paused), wait)?.min(scene.source.seconds()))
}

fn of_ports(scene: &Scene<'_>) -> Curves {
    let curve = |grade: Grade| {
        let ports: Vec<&Port> = scene.ports.iter().filter(|p| p.grade == grade).collect();
        let step = |n: usize| {
            let seconds = scene.steps[n];
            let sum = |what| ports.iter().filter_map(|p| p.step(what, n)).reduce(|a, b| a + b).map(|v| v / seconds);
            let most = |what| ports.iter().filter_map(|p| held(scene, p, what, n)).reduce(f64::max);
            // Ports that are silent for a step count as the others do.
            let all = || ports.iter().flat_map(|p| [p.step(What::Sent, n), p.step(What::Received, n)]).flatten();
            let scale = 2.0 * ports.len() as f64 / all().count() as f64 / seconds;
            let again = sum(What::Retransmits);
            let moved = all().reduce(|a, b| a + b).map(|bytes| useful(bytes * scale, again));
            let signs = [most(What::Paused), most(What::Wait), sum(What::CnpReceived), again];
            Step { seconds, moved, signs, victim: false }
        };
        (grade, (0..scene.steps.len()).map(step).collect())
    };
    grades(&scene.ports).into_iter().map(curve).collect()
}

/// Bytes a second without those that were sent again, of which each packet is taken to be a full one.
fn useful(moved: f64, again: Option<f64>) -> f64 {
    (moved - again.unwrap_or(0.0) * FULL_PACKET_BYTES).max(0.0)
}

/// From a job's rollups; edges in Unix ms.
fn of_rollups(source: &Source<'_>, job: &Job, span: (i64, i64)) -> Result<(Vec<i64>, Curves), QueryError> {
    let edges = source.fine_edges(span);
    let seconds: Vec<f64> = edges.windows(2).map(|e| (e[1] - e[0]) as f64 / 1000.0).collect();
    let add = |a: f64, b: f64| a + b;
    // Joined over series of a grade, in every step.
    let read = |metric: &str, direction: &str, counter: bool, join: fn(f64, f64) -> f64| {
        let mut by: BTreeMap<Grade, Vec<Option<f64>>> = BTreeMap::new();
        for (labels, steps) in source.of_job(job, metric, &edges, counter)? {
            if !direction.is_empty() && labels.get("direction") != direction || labels.get("reason") == "ack_timeout" {
                continue;
            }
            let known = by.entry(attributed(&labels)).or_insert_with(|| vec![None; steps.len()]);
            for (known, value) in known.iter_mut().zip(steps).filter(|(_, v)| v.is_finite()) {
                *known = Some(known.map_or(value, |k| join(k, value)));
            }
        }
        Ok::<_, QueryError>(by)
    };
    let moved = read("fabric_job_io_bytes_total", "", true, add)?;
    let signs = [
        read("fabric_job_pause_share_max_ratio", "receive", false, f64::max)?,
        read("fabric_job_xmit_wait_share_max_ratio", "", false, f64::max)?,
        read("fabric_job_cnp_packets_total", "receive", true, add)?,
        read("fabric_job_retransmits_total", "", true, f64::max)?,
    ];
    let mut curves = Curves::new();
    for grade in [Grade::Exclusive, Grade::PerProcess, Grade::Shared] {
        let at = |of: &BTreeMap<Grade, Vec<Option<f64>>>, n: usize| of.get(&grade).and_then(|steps| steps[n]);
        if signs.iter().chain([&moved]).any(|of| of.contains_key(&grade)) {
            let step = |(n, seconds): (usize, &f64)| {
                let [paused, waits, cnps, again] = [0, 1, 2, 3].map(|sign| at(&signs[sign], n));
                let (cnps, again) = (cnps.map(|v| v / seconds), again.map(|v| v / seconds));
                let moved = at(&moved, n).map(|bytes| useful(bytes / seconds, again));
                Step { seconds: *seconds, moved, signs: [paused, waits, cnps, again], victim: false }
            };
            curves.insert(grade, seconds.iter().enumerate().map(step).collect());
        }
    }
    Ok((edges, curves))
}
