//! `bench herd`: a collector that is gone for minutes, and thousands of agents that find it again in one moment.
//!
//! The agents are real uplinks with real spools, all in one process beside the collector on this machine.

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

/// Seconds between two rows.
const EVERY: u64 = 5;
/// Seconds before the outage, and after the last sample of it was delivered.
const CALM: u64 = 20;
/// How many of the past pass in one: as in `fabriclens-load herd`, which has a little less to catch up.
const PACE: u64 = 59;
/// What agents may take to deliver everything: as long again as the outage was, and this.
const PATIENCE: Duration = Duration::from_secs(600);

/// Options of `bench herd`.
#[derive(clap::Args)]
pub struct Args {
    /// Agents, each with 8 ports of 62 series
    #[arg(long, default_value_t = 2000)]
    hosts: u64,
    /// How many seconds the collector is away
    #[arg(long, default_value_t = 300)]
    away: u64,
    /// It was away for so many seconds before, of which the agents have samples: they pass 60 times as fast
    #[arg(long, default_value_t = 0)]
    past: u64,
    /// Measures this collector, and takes `fabriclens-load` from beside it, instead of building both
    #[arg(long)]
    collector: Option<PathBuf>,
}

/// What all agents count together, see `xtask/load/src/herd.rs`.
#[derive(serde::Deserialize, Clone, Copy, Default)]
struct Told {
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

/// The run so far.
struct Run {
    begin: Instant,
    lines: Lines<BufReader<ChildStdout>>,
    collector: Option<Server>,
    largest: u64,
}

/// Builds, runs, judges.
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
    let start = || Server::start_at(Kind::Fabriclens, &ours, &dir, None, addresses.clone());

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
        println!("the collector is killed");
    }
    let gone = Instant::now();
    let away = if args.past == 0 { args.away } else { args.past / PACE + CALM };
    run.rows(|_, _| gone.elapsed() >= Duration::from_secs(away))?;
    run.collector = Some(start()?);
    println!("the collector is back");
    let back = Instant::now();
    let mut latest = 0.0_f64;
    let patience = gone.elapsed() + PATIENCE;
    run.rows(|run, told| {
        if told.up == args.hosts && back.elapsed().as_secs() > 2 * EVERY {
            latest = latest.max(told.behind_s);
        }
        told.spooled == 0 || back.elapsed() > patience || run.size().is_none()
    })?;
    let delivered = back.elapsed();
    let end = Instant::now();
    let told = run.rows(|_, _| end.elapsed() >= Duration::from_secs(CALM))?;

    let lost = told.dropped + told.rejected + told.unaccounted + told.spooled;
    println!("\n{:<44}{lost:>10}  goal 0: {}", "points that were not delivered", judged(lost == 0));
    println!("{:<44}{:>10} of {}", "points acknowledged", told.acked, told.taken);
    println!("{:<44}{:>8.0} s", "all spools empty after", delivered.as_secs_f64());
    println!("{:<44}{latest:>8.1} s  goal 10 s: {}", "live samples waited meanwhile", judged(latest <= 10.0));
    println!("{:<44}{:>8.0} MB", "highest RSS of the collector", run.largest as f64 / 1e6);
    drop(sender);
    drop(run);
    empty(&dir)
}

impl Run {
    /// A row for each line that the agents tell, until one at which `until` is true.
    fn rows(&mut self, mut until: impl FnMut(&Self, &Told) -> bool) -> Result<Told> {
        let mut cpu = (Instant::now(), self.cpu());
        loop {
            let told: Told = serde_json::from_str(&self.lines.next().context("the agents have ended")??)
                .context("read what the agents tell")?;
            let rss = self.size().map_or(0, |size| size.rss);
            self.largest = self.largest.max(rss);
            let now = (Instant::now(), self.cpu());
            let cores = now.1.saturating_sub(cpu.1) as f64 / 1e7 / (now.0 - cpu.0).as_secs_f64();
            println!(
                "{:>6.0}{:>7}{:>13}{:>13}{:>7.1} s{:>9}{:>9}{cores:>8.0} %{:>6.0} MB",
                self.begin.elapsed().as_secs_f64(),
                told.up,
                told.taken,
                told.spooled,
                told.behind_s,
                told.retries,
                told.dropped + told.rejected,
                rss as f64 / 1e6,
            );
            cpu = now;
            if until(self, &told) {
                return Ok(told);
            }
        }
    }

    /// `None` while there is no collector.
    fn size(&self) -> Option<Size> {
        self.collector.as_ref()?.process().size().ok()
    }

    fn cpu(&self) -> u64 {
        self.collector.as_ref().and_then(|c| c.process().cpu_total_ns().ok()).unwrap_or(0)
    }
}
