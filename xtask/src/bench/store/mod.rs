//! `bench store`: our collector, VictoriaMetrics and Prometheus on the same bytes in the same run.
//!
//! Each server in turn starts with an empty directory and gets the same requests as fast as it accepts them. Then all three
//! run at the same time on their data and answer dashboard queries in turns.

pub mod server;
mod table;

use crate::process::Size;
use crate::setup;
use crate::steps::{cargo, must, target};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use server::{Kind, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Options of `bench store`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds of data
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u64).range(120..))]
    ticks: u64,
    /// Workloads to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Workload>,
    /// Repetitions of each query
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Directory of recordings, each a directory with a `ports.csv.gz`, for the workload `replay`
    #[arg(long, env = "FABRICLENS_RECORDINGS", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/scenarios"))]
    recordings: PathBuf,
    /// Measures this collector instead of building one with the release profile
    #[arg(long)]
    collector: Option<PathBuf>,
}

/// The samples that are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Workload {
    /// 32 hosts x 8 ports x 60 counters, and the dashboard queries
    Steady,
    /// The same, with a tenth of the series replaced each minute
    Churn,
    /// Recorded or simulated ports
    Replay,
}

impl Workload {
    const ALL: [Self; 3] = [Self::Steady, Self::Churn, Self::Replay];

    fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Churn => "churn",
            Self::Replay => "replay",
        }
    }
}

/// Costs of one server.
pub struct Figures {
    sent: Sent,
    ingest_cpu: Duration,
    /// CPU of replaying the log, and of writing and merging all samples.
    flush_cpu: Duration,
    size: Size,
    disk: u64,
    /// Bytes right after ingest, with logs.
    disk_early: u64,
    start_s: f64,
}

/// Report of the sender.
#[derive(serde::Deserialize)]
pub struct Sent {
    ticks: u64,
    samples: u64,
    requests: u64,
    bytes: u64,
    retries: u64,
    checksum: u32,
    seconds: f64,
}

/// Programs, directories and options.
struct Bench<'a> {
    args: &'a Args,
    ours: PathBuf,
    load: PathBuf,
    dir: PathBuf,
}

/// Builds, measures and prints.
///
/// # Errors
/// When a program does not build or start, or the servers got different samples.
pub fn run(args: &Args) -> Result<()> {
    for need in [&setup::VICTORIA_METRICS, &setup::PROMETHEUS] {
        ensure!(setup::ensure(need)?, "{}", need.without);
    }
    println!("building the collector and the sender (release profile; the first time takes minutes)");
    must(cargo(&["build", "--release", "--locked", "-p", "fabriclens-load"]))?;
    if args.collector.is_none() {
        must(cargo(&["build", "--release", "--locked", "-p", "fabriclens"]))?;
    }
    let target = target()?;
    let bench = Bench {
        args,
        ours: args.collector.clone().unwrap_or_else(|| target.join("release/fabriclens")),
        load: target.join("release/fabriclens-load"),
        dir: target.join("bench-store"),
    };
    for workload in Workload::ALL.into_iter().filter(|w| args.only.is_empty() || args.only.contains(w)) {
        if workload == Workload::Replay && !args.recordings.is_dir() {
            println!(
                "SKIPPED: the workload replay, because {} does not exist; set FABRICLENS_RECORDINGS",
                args.recordings.display()
            );
            continue;
        }
        bench.workload(workload)?;
    }
    Ok(())
}

impl Bench<'_> {
    fn workload(&self, workload: Workload) -> Result<()> {
        empty(&self.dir)?;
        let end = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() * 1000;
        println!("\n=== {}", workload.name());
        let (mut servers, mut figures) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let (server, figure) = self.ingest(kind, Some(workload), end)?;
            figures.push(figure);
            // One server at a time, so that they do not disturb each other.
            drop(server);
        }
        table::print(&figures)?;
        if workload == Workload::Steady {
            let (server, otlp) = self.ingest(Kind::Fabriclens, None, end)?;
            drop(server);
            table::otlp(&figures, &otlp)?;
        }
        if workload == Workload::Steady {
            println!("\ndashboard queries, cold");
            let mut cold = Vec::new();
            for kind in Kind::ALL {
                let server = Server::start(kind, &self.ours, &self.dir.join(kind.name()))?;
                let (server, _) = server.crash_and_restart(end as i64)?;
                server.settle()?;
                cold.push(self.ask(std::slice::from_ref(&server), end, 1)?);
                servers.push(server);
            }
            println!("dashboard queries, {} times in turns", self.args.rounds);
            let warm = self.ask(&servers, end, self.args.rounds)?;
            table::questions(&cold, &warm)?;
        }
        drop(servers);
        empty(&self.dir)
    }

    /// Sends a workload to one server by remote write, crashes and restarts it, and flushes it. Without a workload: the steady
    /// one by OTLP, as agents send it.
    fn ingest(&self, kind: Kind, workload: Option<Workload>, end: u64) -> Result<(Server, Figures)> {
        let name = if workload.is_some() { kind.name() } else { "fabriclens, OTLP" };
        let server = Server::start(kind, &self.ours, &self.dir.join(name))?;
        server.settle()?;
        eprint!("{name:<18}");
        let before = server.process().cpu_total_ns()?;
        let mut load = Command::new(&self.load);
        match workload {
            Some(workload) => {
                load.args(["write", "--url", &server.write_url(), "--workload", workload.name()]);
                load.arg("--recordings").arg(&self.args.recordings);
            }
            None => _ = load.args(["otlp", "--to", server.otlp()]),
        }
        load.args(["--ticks", &self.args.ticks.to_string(), "--end", &end.to_string()]);
        let sent: Sent = json(load)?;
        server.settle_durably()?;
        let ingest_cpu = Duration::from_nanos(server.process().cpu_total_ns()? - before);
        let size = server.process().size()?;
        let disk_early = server.disk()?;
        eprint!(", restart");
        let (server, start_s) = server.crash_and_restart(end as i64)?;
        eprint!(", flush and merge");
        // Our collector writes blocks from its log at the restart, which counts as flush.
        let before = if kind == Kind::Fabriclens { 0 } else { server.process().cpu_total_ns()? };
        let disk = server.flush()?;
        let flush_cpu = Duration::from_nanos(server.process().cpu_total_ns()? - before);
        eprintln!();
        Ok((server, Figures { sent, ingest_cpu, flush_cpu, size, disk, disk_early, start_s }))
    }

    fn ask(&self, servers: &[Server], end: u64, rounds: u32) -> Result<Value> {
        let mut load = Command::new(&self.load);
        load.args(["ask", "--end", &end.to_string(), "--ticks", &self.args.ticks.to_string()]);
        load.args(["--rounds", &rounds.to_string()]);
        for server in servers {
            load.args(["--server", &format!("{}={}", server.kind.name(), server.url())]);
        }
        json(load)
    }
}

/// Runs the sender and parses its report.
fn json<T: serde::de::DeserializeOwned>(mut load: Command) -> Result<T> {
    let done = load.stderr(Stdio::inherit()).output().with_context(|| format!("start {load:?}"))?;
    ensure!(done.status.success(), "{load:?} ended with {}", done.status);
    serde_json::from_slice(&done.stdout).context("read the report of the sender")
}

/// Removes a directory of an earlier run, or of this one.
///
/// # Errors
/// When it cannot be removed.
pub fn empty(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("empty {}", dir.display()))
        }
        _ => Ok(()),
    }
}
