//! `bench herd`: a collector outage of minutes, after which thousands of agents reconnect at once.
//!
//! The agents are real uplinks with real spools, all in one process on this machine.

use super::fleet::Sender;
use super::judged;
use super::store::empty;
use super::store::server::{Kind, Server};
use crate::process::Size;
use crate::steps::{cargo, must, target};
use anyhow::{Context, Result};
use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds per row.
const EVERY: u64 = 5;
/// Seconds before the outage and after the last spooled sample was delivered.
const CALM: u64 = 20;
/// Seconds of the past that are simulated per second; `fabriclens-load herd` uses 60.
const PACE: u64 = 59;
/// Timeout of the delivery, in addition to the duration of the outage.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Options of `bench herd`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of agents, each with 8 ports of 62 series
    #[arg(long, default_value_t = 2000)]
    hosts: u64,
    /// Duration of the outage in seconds
    #[arg(long, default_value_t = 300)]
    away: u64,
    /// Seconds of an outage in the past, which are simulated 60 times as fast
    #[arg(long, default_value_t = 0)]
    past: u64,
    /// Measures this collector, with `fabriclens-load` from the same directory, instead of building both
    #[arg(long)]
    collector: Option<PathBuf>,
}

/// Counters of all agents together, see `xtask/load/src/herd.rs`.
#[derive(serde::Deserialize, Clone, Copy, Default)]
struct Counters {
    up: u64,
    taken: u64,
    acked: u64,
    rejected: u64,
    dropped: u64,
    spooled: u64,
    unaccounted: u64,
    retries: u64,
    behind_s: f64,
}

/// State of the run.
struct Run {
    begin: Instant,
    lines: Lines<BufReader<ChildStdout>>,
    collector: Option<Server>,
    largest: u64,
}

/// Builds, runs and compares with the goals.
///
/// # Errors
/// When a program does not build or start.
pub fn run(args: &Args) -> Result<()> {
    let ours = match &args.collector {
        Some(ours) => ours.clone(),
        None => {
            println!("building the collector and the agents (release profile; the first time takes minutes)");
            must(cargo(&["build", "--release", "--locked", "-p", "fabriclens", "-p", "fabriclens-load"]))?;
            target()?.join("release/fabriclens")
        }
    };
    let dir = target()?.join("bench-herd");
    empty(&dir)?;
    std::fs::create_dir_all(dir.join("spools")).context("create the spools")?;
    let addresses = Server::addresses()?;
    let config = Server::config_for(&dir, args.hosts)?;
    let start = || Server::start_at(Kind::Fabriclens, &ours, &dir, Some(&config), addresses.clone());

    let mut load = Command::new(ours.with_file_name("fabriclens-load"));
    load.args(["herd", "--to", &addresses[1], "--hosts", &args.hosts.to_string(), "--every", &EVERY.to_string()]);
    load.args(["--past", &args.past.to_string()])
        .arg("--dir")
        .arg(dir.join("spools"))
        .stdout(Stdio::piped())
        .stdin(Stdio::null());
    let collector = (args.past == 0).then(start).transpose()?;
    let mut sender = Sender(load.spawn().context("start the agents")?);
    let lines = BufReader::new(sender.0.stdout.take().context("no output of the agents")?).lines();
    let mut run = Run { begin: Instant::now(), lines, collector, largest: 0 };

    println!(
        "{:>6}{:>7}{:>13}{:>13}{:>9}{:>9}{:>9}{:>10}{:>9}",
        "s", "up", "taken", "in spools", "behind", "retries", "dropped", "collector", "RSS"
    );
    if args.past == 0 {
        run.rows(|run, _| run.begin.elapsed() >= Duration::from_secs(CALM))?;
        run.collector = None;
        println!("collector killed");
    }
    let gone = Instant::now();
    let away = if args.past == 0 { args.away } else { args.past / PACE + CALM };
    run.rows(|_, _| gone.elapsed() >= Duration::from_secs(away))?;
    run.collector = Some(start()?);
    println!("collector started");
    let back = Instant::now();
    let mut latest = 0.0_f64;
    let timeout = gone.elapsed() + TIMEOUT;
    run.rows(|run, counters| {
        if counters.up == args.hosts && back.elapsed().as_secs() > 2 * EVERY {
            latest = latest.max(counters.behind_s);
        }
        counters.spooled == 0 || back.elapsed() > timeout || run.size().is_none()
    })?;
    let delivered = back.elapsed();
    let end = Instant::now();
    let counters = run.rows(|_, _| end.elapsed() >= Duration::from_secs(CALM))?;

    let lost = counters.dropped + counters.rejected + counters.unaccounted + counters.spooled;
    println!("\n{:<44}{lost:>10}  goal 0: {}", "points that were not delivered", judged(lost == 0));
    println!("{:<44}{:>10} of {}", "points acknowledged", counters.acked, counters.taken);
    println!("{:<44}{:>8.0} s", "all spools empty after", delivered.as_secs_f64());
    println!("{:<44}{latest:>8.1} s  goal 10 s: {}", "live samples waited meanwhile", judged(latest <= 10.0));
    println!("{:<44}{:>8.0} MB", "highest RSS of the collector", run.largest as f64 / 1e6);
    drop(sender);
    drop(run);
    empty(&dir)
}

impl Run {
    /// Prints a row for each report of the agents until `until` is true.
    fn rows(&mut self, mut until: impl FnMut(&Self, &Counters) -> bool) -> Result<Counters> {
        let mut cpu = (Instant::now(), self.cpu());
        loop {
            let counters: Counters = serde_json::from_str(&self.lines.next().context("the agents have ended")??)
                .context("read the counters of the agents")?;
            let rss = self.size().map_or(0, |size| size.rss);
            self.largest = self.largest.max(rss);
            let now = (Instant::now(), self.cpu());
            let cores = now.1.saturating_sub(cpu.1) as f64 / 1e7 / (now.0 - cpu.0).as_secs_f64();
            println!(
                "{:>6.0}{:>7}{:>13}{:>13}{:>7.1} s{:>9}{:>9}{cores:>8.0} %{:>6.0} MB",
                self.begin.elapsed().as_secs_f64(),
                counters.up,
                counters.taken,
                counters.spooled,
                counters.behind_s,
                counters.retries,
                counters.dropped + counters.rejected,
                rss as f64 / 1e6,
            );
            cpu = now;
            if until(self, &counters) {
                return Ok(counters);
            }
        }
    }

    /// None while the collector does not run.
    fn size(&self) -> Option<Size> {
        self.collector.as_ref()?.process().size().ok()
    }

    fn cpu(&self) -> u64 {
        self.collector.as_ref().and_then(|c| c.process().cpu_total_ns().ok()).unwrap_or(0)
    }
}
