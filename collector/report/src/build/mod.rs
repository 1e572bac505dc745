//! Computes a [`Report`] from series: one file per section, and the context that they share.

mod cable;
mod collectives;
mod congestion;
mod cost;
mod earlier;
mod flows;
mod health;
mod inside;
mod links;
mod neighbours;
mod observed_pairs;
mod own_series;
mod paths;
mod peers;
mod ports;
mod quality;
mod ranks;
mod settings;
mod slowed;
mod sockets;
mod summary;
mod traffic;
mod transport;

use crate::model::{About, Figure, Grade, Incident, Line, Range, Report, Unit, VERSION};
use crate::read::Source;
pub use cable::{Link, LinkEnd};
use fabriclens_base::escape::promql_string;
use fabriclens_jobs::{Job, Occupancy, overlap_ns};
use fabriclens_model::{Labels, Read};
use fabriclens_promql::{CancelToken, Engine, QueryError};
pub use paths::{KnownPaths, PathLookup};
use ports::{Aggregation, Counter, Port, figure};
use ranks::Ranks;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
pub use summary::{Digest, digest};

/// Input of a report.
pub struct Input<'a> {
    /// The job to report on.
    pub job: &'a Job,
    /// All jobs that ran at the same time, and earlier jobs of the same user; may include the job itself.
    pub others: &'a [Job],
    /// Current time, Unix nanoseconds; the end of running jobs.
    pub now_ns: i64,
    /// Incidents that concern the job.
    pub incidents: Vec<Incident>,
    /// Leaf switches by host, from the topology at that time. For other hosts the labels of series are used.
    pub leaves: Leaves,
    /// Links that the job's traffic may take, from the topology: cables of its devices, and those from their leaf switches to
    /// other switches.
    pub links: Vec<Link>,
    /// Paths of flows, if forwarding tables or traces are known.
    pub paths: Option<&'a dyn PathLookup>,
}

/// Names of leaf switches by host.
pub type Leaves = HashMap<String, HashSet<String>>;

/// Input of all sections.
pub(crate) struct ReportContext<'a> {
    job: &'a Job,
    source: Source<'a>,
    /// Jobs on the hosts; the job of the report is the first.
    on: Occupancy<'a>,
    ports: Vec<Port>,
    /// Read when first asked for.
    ranks: OnceCell<Ranks>,
    /// Step lengths between the edges of the time grid, seconds.
    steps: Vec<f64>,
}

/// Computes the report within the limits of `engine`.
///
/// # Errors
/// [`QueryError`] if samples cannot be read, a limit of the engine is exceeded, or `cancel` is set.
pub fn build(engine: &Engine, read: &dyn Read, cancel: &CancelToken, input: Input<'_>) -> Result<Report, QueryError> {
    let Input { job, others, now_ns, incidents, leaves, links, paths } = input;
    let (start_ms, end_ms) = (job.start_ns / 1_000_000, job.end_ns.unwrap_or(now_ns).min(now_ns) / 1_000_000);
    let end_ms = end_ms.max(start_ms + 1);
    let same = |o: &&Job| (&o.cluster, &o.id, o.run) == (&job.cluster, &job.id, job.run);
    let concurrent: Vec<&Job> = others.iter().filter(|o| !same(o) && overlap_ns(job, o, now_ns) > 0).collect();
    let on = Occupancy::new(std::iter::once(job).chain(concurrent.iter().copied()));

    let hosts = job.hosts.keys().map(String::as_str);
    let mut source = Source::new((engine, read, cancel), hosts, (start_ms, end_ms));
    source.choose_method(present(&source)?);
    let ports = ports::read(&source, &on)?;
    let steps = source.edges().windows(2).map(|e| (e[1] - e[0]) as f64 / 1000.0).collect();
    let context = ReportContext { job, source, on, ports, ranks: OnceCell::new(), steps };

    let traffic = traffic::traffic(&context)?;
    let congestion = congestion::congestion(&context)?;
    let health = health::health(&context)?;
    let transport = transport::transport(&context)?;
    let peers = peers::peers(&context, traffic.straggler.as_ref(), &transport)?;
    let quality = quality::quality(&context)?;
    let paths = paths.map(|lookup| paths::find(&context, lookup, &concurrent, now_ns)).transpose()?.flatten();
    let links = links::links(&context, links, paths)?;
    let cost = cost::cost(&context, &incidents)?;
    let collectives = collectives::collectives(&context, &cost.slowed)?;
    let earlier = earlier::earlier(&context, collectives.operations.first(), others, now_ns)?;
    let mut report = Report {
        version: VERSION,
        generated_ns: now_ns,
        job: about(job),
        range: Range {
            start_ns: start_ms * 1_000_000,
            end_ns: end_ms * 1_000_000,
            step_seconds: context.source.step_ms as f64 / 1000.0,
            method: context.source.method,
        },
        summary: summary::numbers(cost, earlier),
        collectives,
        traffic,
        congestion,
        incidents,
        links,
        neighbours: neighbours::neighbours(&context, &concurrent, leaves, now_ns)?,
        health,
        inside: inside::inside(&context)?,
        transport,
        peers,
        quality,
    };
    report.collectives.conclusion = collectives::conclusion(&report);
    summary::judge(&mut report);
    Ok(report)
}

/// Number of RDMA ports of the job's hosts.
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

impl ReportContext<'_> {
    /// Step of plots of port counters, seconds.
    fn step_seconds(&self) -> f64 {
        self.steps.first().copied().unwrap_or(1.0)
    }

    /// Fraction of the time that a counter of seconds covers, aggregated over ports.
    fn share<'p>(&self, ports: impl IntoIterator<Item = &'p Port>, counter: Counter, over: Aggregation) -> Figure {
        let seconds = self.source.seconds();
        figure(
            Unit::Ratio,
            over,
            ports.into_iter().map(|p| (p.grade, p.total(counter).map(|s| (s / seconds).min(1.0)))),
        )
    }

    /// Selector of a rollup of the job.
    fn rollup(&self, metric: &str, more: &str) -> String {
        rollup(self.job, metric, more)
    }

    /// Lines of a plot of rollups, graded by their `attribution` label.
    fn rollup_lines(&self, promql: &str, name: impl Fn(&Labels) -> String) -> Result<Vec<Line>, QueryError> {
        let lines = self.source.plot(promql)?.into_iter();
        Ok(lines.map(|(l, points)| Line { name: name(&l), grade: attributed(&l), points }).collect())
    }
}

/// Selector of a rollup of a job.
fn rollup(job: &Job, metric: &str, more: &str) -> String {
    format!("{metric}{{job_id={},cluster={},{more}}}", promql_string(&job.id), promql_string(&job.cluster))
}

/// Grade by the `attribution` label of a rollup.
fn attributed(labels: &Labels) -> Grade {
    match labels.get("attribution") {
        "exclusive" => Grade::Exclusive,
        "per_process" => Grade::PerProcess,
        _ => Grade::Shared,
    }
}
