//! From series to a [`Report`]: one file a section, and here what they share.

mod congestion;
mod cost;
mod health;
mod neighbours;
mod peers;
mod ports;
mod quality;
mod slowed;
mod sockets;
mod summary;
mod traffic;
mod transport;

use crate::model::{About, Figure, Grade, Incident, Line, Range, Report, Unit, VERSION};
use crate::read::Source;
use fabriclens_base::escape::promql_string;
use fabriclens_jobs::{Job, Occupancy, overlap_ns};
use fabriclens_model::{Labels, Read};
use fabriclens_promql::{CancelToken, Engine, QueryError};
use ports::{Over, Port, What, figure};
use std::collections::{HashMap, HashSet};

/// What a report is asked of.
pub struct Input<'a> {
    /// Whose.
    pub job: &'a Job,
    /// Every job that ran at the same time, and earlier ones of the same user; this one may be among them.
    pub others: &'a [Job],
    /// Unix nanoseconds; the end of what still runs.
    pub now_ns: i64,
    /// Incidents at that time that concern the job.
    pub incidents: Vec<Incident>,
    /// Switches of hosts in the topology of that time; of hosts that are not in it, labels of series tell.
    pub leaves: Leaves,
}

/// Names of switches by host.
pub type Leaves = HashMap<String, HashSet<String>>;

/// What all sections look at.
pub(crate) struct Scene<'a> {
    job: &'a Job,
    source: Source<'a>,
    /// The job first.
    on: Occupancy<'a>,
    ports: Vec<Port>,
    /// Lengths of the steps between edges, seconds.
    steps: Vec<f64>,
}

/// Works out the report; `engine` bounds what it may take.
///
/// # Errors
/// [`QueryError`]: samples cannot be read, or a limit of the engine.
pub fn build(engine: &Engine, read: &dyn Read, cancel: &CancelToken, input: Input<'_>) -> Result<Report, QueryError> {
    let Input { job, others, now_ns, incidents, leaves } = input;
    let (start_ms, end_ms) = (job.start_ns / 1_000_000, job.end_ns.unwrap_or(now_ns).min(now_ns) / 1_000_000);
    let end_ms = end_ms.max(start_ms + 1);
    let same = |o: &&Job| (&o.cluster, &o.id, o.run) == (&job.cluster, &job.id, job.run);
    let beside: Vec<&Job> = others.iter().filter(|o| !same(o) && overlap_ns(job, o, now_ns) > 0).collect();
    let on = Occupancy::new(std::iter::once(job).chain(beside.iter().copied()));

    let hosts = job.hosts.keys().map(String::as_str);
    let mut source = Source::new((engine, read, cancel), hosts, (start_ms, end_ms));
    source.settle(present(&source)?);
    let ports = ports::read(&source, &on)?;
    let steps = source.edges().windows(2).map(|e| (e[1] - e[0]) as f64 / 1000.0).collect();
    let scene = Scene { job, source, on, ports, steps };

    let traffic = traffic::traffic(&scene)?;
    let congestion = congestion::congestion(&scene)?;
    let health = health::health(&scene)?;
    let transport = transport::transport(&scene)?;
    let peers = peers::peers(&scene, traffic.straggler.as_ref(), &transport)?;
    let quality = quality::quality(&scene)?;
    let mut report = Report {
        version: VERSION,
        generated_ns: now_ns,
        job: about(job),
        range: Range {
            start_ns: start_ms * 1_000_000,
            end_ns: end_ms * 1_000_000,
            step_seconds: scene.source.step_ms as f64 / 1000.0,
            method: scene.source.method,
        },
        summary: summary::numbers(&scene, &incidents, others, now_ns)?,
        traffic,
        congestion,
        incidents,
        neighbours: neighbours::neighbours(&scene, &beside, leaves, now_ns)?,
        health,
        transport,
        peers,
        quality,
    };
    summary::judge(&mut report);
    Ok(report)
}

/// How many ports of these hosts there are.
fn present(source: &Source<'_>) -> Result<usize, QueryError> {
    let mut ports: HashSet<Labels> = HashSet::new();
    let middle = source.start_ms.midpoint(source.end_ms);
    for at in [source.end_ms, middle] {
        let selector = source.selector("fabric_port_io_bytes_total", "port!=\"\",direction=\"transmit\"");
        ports.extend(source.at(&selector, at)?.into_iter().map(|s| s.labels));
    }
    Ok(ports.len())
}

fn about(job: &Job) -> About {
    About {
        cluster: job.cluster.clone(),
        id: job.id.clone(),
        run: job.run,
        user: job.user.clone(),
        name: job.name.clone(),
        labels: job.labels.clone(),
        start_ns: job.start_ns,
        end_ns: job.end_ns,
        hosts: job.hosts.len(),
        disagreements: job.disagreements.clone(),
    }
}

impl Scene<'_> {
    /// Of plots of ports, seconds.
    fn step_seconds(&self) -> f64 {
        self.steps.first().copied().unwrap_or(1.0)
    }

    /// Share of the time, over ports.
    fn share<'p>(&self, ports: impl IntoIterator<Item = &'p Port>, what: What, over: Over) -> Figure {
        let seconds = self.source.seconds();
        figure(Unit::Ratio, over, ports.into_iter().map(|p| (p.grade, p.total(what).map(|s| (s / seconds).min(1.0)))))
    }

    /// A selector of one of the job's own rollups.
    fn rollup(&self, metric: &str, more: &str) -> String {
        rollup(self.job, metric, more)
    }

    /// Lines of a plot of rollups, by their `attribution`.
    fn rollup_lines(&self, promql: &str, name: impl Fn(&Labels) -> String) -> Result<Vec<Line>, QueryError> {
        let lines = self.source.plot(promql)?.into_iter();
        Ok(lines.map(|(l, points)| Line { name: name(&l), grade: attributed(&l), points }).collect())
    }
}

/// A selector of a rollup of a job.
fn rollup(job: &Job, metric: &str, more: &str) -> String {
    format!("{metric}{{job_id={},cluster={},{more}}}", promql_string(&job.id), promql_string(&job.cluster))
}

/// The grade that a rollup has by its label.
fn attributed(labels: &Labels) -> Grade {
    match labels.get("attribution") {
        "exclusive" => Grade::Exclusive,
        "per_process" => Grade::PerProcess,
        _ => Grade::Shared,
    }
}
