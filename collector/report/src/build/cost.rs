//! Bounds of the time that the network cost a job, from its ports, or from its rollups if ports were read at
//! checkpoints only.

use super::congestion::{grades, held, wait_share};
use super::ports::{Aggregation, Counter, Port, figure, sum};
use super::slowed::{SlowPeriod, Step, slow_periods, together};
use super::{ReportContext, attributed};
use crate::model::{Cost, Figure, Grade, Incident, Method, Slowed, Unit};
use crate::read::Source;
use fabriclens_correlate::FULL_PACKET_BYTES;
use fabriclens_jobs::Job;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;

/// Maximum number of listed periods; the most expensive ones are kept.
const LISTED: usize = 12;
/// Minimum cost of a listed period, seconds.
const WORTH_S: f64 = 0.1;

const BASIS: &str = "Lower bound: throughput below the job's own baseline near that time, while there is evidence that the \
    network slowed it down (ports paused or without credits, congestion notifications handled, packets retransmitted, an \
    incident with the job as victim), minus twice the usual variation of its rate. Upper bound: throughput below the best \
    rate of the baseline, or the time in which the worst port could not send, whichever is longer; the latter applies to \
    jobs that always wait for their slowest rank. Phases without such evidence cost nothing, however low the throughput. \
    Congestion that lasts for the whole job does not show in its rate, and only the application knows how long its \
    retransmission timers wait.";

/// Steps of a job by grade of the measurements.
type Curves = BTreeMap<Grade, Vec<Step>>;

/// Cost of the job of the report.
pub(super) fn cost(context: &ReportContext<'_>, incidents: &[Incident]) -> Result<Cost, QueryError> {
    let (edges, mut curves) = match context.source.method {
        Method::Samples => (context.source.edges(), of_ports(context)),
        Method::Checkpoints => {
            of_rollups(&context.source, context.job, (context.source.start_ms, context.source.end_ms))?
        }
    };
    for incident in incidents.iter().filter(|i| i.role == "victim") {
        let (from, to) = (incident.start_ns / 1_000_000, incident.end_ns.map_or(i64::MAX, |end| end / 1_000_000));
        for steps in curves.values_mut() {
            steps.iter_mut().zip(edges.windows(2)).for_each(|(step, e)| step.victim |= e[0] < to && from < e[1]);
        }
    }
    let seconds = context.source.seconds();
    let bounds = Bounds::of(&curves, seconds, |grade| context.ports.iter().filter(|p| p.grade == grade).count());
    let mut slowed: Vec<Slowed> = Vec::new();
    for (grade, slow_periods) in &bounds.slow_periods {
        slowed.extend(slow_periods.iter().filter(|s| s.at_most >= WORTH_S).map(|s| listed(s, *grade, &edges)));
    }
    slowed.sort_by(|a, b| b.at_most.total_cmp(&a.at_most));
    slowed.truncate(LISTED);
    slowed.sort_by_key(|s| (s.start_ns, s.grade));
    Ok(Cost {
        at_most_share: share(&bounds.at_most, seconds),
        at_least: bounds.at_least,
        at_most: bounds.at_most,
        held: bounds.held,
        mean: figure(
            Unit::Seconds,
            Aggregation::Mean,
            context.ports.iter().map(|p| (p.grade, held_in_all(context, p))),
        ),
        timeouts: sum(Unit::Count, &context.ports, Counter::Timeouts),
        slowed,
        basis: BASIS.to_owned(),
    })
}

/// Upper bound of the cost of an earlier job, as a fraction of its time.
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

/// Cost bounds of a job by grade, with the periods they are made of.
struct Bounds {
    at_least: Figure,
    at_most: Figure,
    held: Figure,
    slow_periods: BTreeMap<Grade, Vec<SlowPeriod>>,
}

impl Bounds {
    /// `of` returns the number of ports or hosts of a grade.
    fn of(curves: &Curves, seconds: f64, of: impl Fn(Grade) -> usize) -> Self {
        let slow_periods: BTreeMap<Grade, Vec<SlowPeriod>> =
            curves.iter().map(|(grade, steps)| (*grade, slow_periods(steps))).collect();
        let (mut least, mut most, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (grade, steps) in curves {
            let found = &slow_periods[grade];
            let held: Vec<Option<f64>> = steps.iter().map(Step::held).collect();
            let within = |n: &usize| found.iter().any(|s| s.steps.contains(n));
            let outside: f64 = (0..steps.len()).filter(|n| !within(n)).filter_map(|n| held[n]).sum();
            // Without a counter of congestion a low rate is no evidence.
            let signs = steps.iter().any(|s| s.signs.iter().any(Option::is_some));
            let moved = steps.iter().any(|s| s.moved.is_some());
            let lost: Option<f64> = found.iter().map(|s| s.at_least).sum();
            least.push((*grade, lost.filter(|_| signs && moved)));
            most.push((*grade, signs.then(|| outside + found.iter().map(|s| s.at_most).sum::<f64>())));
            all.push((*grade, held.iter().any(Option::is_some).then(|| held.iter().flatten().sum())));
        }
        let of_all = |values: Vec<(Grade, Option<f64>)>| {
            let mut figure = figure(Unit::Seconds, Aggregation::Sum, values);
            figure.parts.iter_mut().for_each(|p| (p.value, p.of) = (p.value.min(seconds), of(p.grade)));
            figure
        };
        Self { at_least: of_all(least), at_most: of_all(most), held: of_all(all), slow_periods }
    }
}

fn listed(slow_period: &SlowPeriod, grade: Grade, edges: &[i64]) -> Slowed {
    let SlowPeriod { steps, why, moved, usual, at_least, at_most } = slow_period.clone();
    let [start_ns, end_ns] = [steps.start, steps.end].map(|n| edges[n] * 1_000_000);
    Slowed { start_ns, end_ns, grade, why, moved, usual, at_least, at_most }
}

/// Total time in which a port could not send, seconds.
fn held_in_all(context: &ReportContext<'_>, port: &Port) -> Option<f64> {
    let wait = wait_share(context, port).map(|share| share * context.source.seconds());
    Some(together(port.total(Counter::Paused), wait)?.min(context.source.seconds()))
}

fn of_ports(context: &ReportContext<'_>) -> Curves {
    let curve = |grade: Grade| {
        let ports: Vec<&Port> = context.ports.iter().filter(|p| p.grade == grade).collect();
        let step = |n: usize| {
            let seconds = context.steps[n];
            let sum =
                |counter| ports.iter().filter_map(|p| p.step(counter, n)).reduce(|a, b| a + b).map(|v| v / seconds);
            let most = |counter| ports.iter().filter_map(|p| held(context, p, counter, n)).reduce(f64::max);
            // A port without a sample in a step counts with the mean of the others.
            let all = || ports.iter().flat_map(|p| [p.step(Counter::Sent, n), p.step(Counter::Received, n)]).flatten();
            let scale = 2.0 * ports.len() as f64 / all().count() as f64 / seconds;
            let again = sum(Counter::Retransmits);
            let moved = all().reduce(|a, b| a + b).map(|bytes| useful(bytes * scale, again));
            let signs = [most(Counter::Paused), most(Counter::Wait), sum(Counter::CnpReceived), again];
            Step { seconds, moved, signs, victim: false }
        };
        (grade, (0..context.steps.len()).map(step).collect())
    };
    grades(&context.ports).into_iter().map(curve).collect()
}

/// Bytes per second without retransmissions; each retransmitted packet is assumed to be full-sized.
fn useful(moved: f64, again: Option<f64>) -> f64 {
    (moved - again.unwrap_or(0.0) * FULL_PACKET_BYTES).max(0.0)
}

/// Edges (Unix ms) and steps from a job's rollups.
fn of_rollups(source: &Source<'_>, job: &Job, span: (i64, i64)) -> Result<(Vec<i64>, Curves), QueryError> {
    let edges = source.fine_edges(span);
    let seconds: Vec<f64> = edges.windows(2).map(|e| (e[1] - e[0]) as f64 / 1000.0).collect();
    let add = |a: f64, b: f64| a + b;
    // Joins all series of a grade step by step.
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
