//! `cargo xtask chaos`: injects faults into a fleet of real agents with a real collector and checks the invariants.
//!
//! The invariants (`check.rs`): no gap in the series, every sample accounted for, no incident on a healthy fabric, memory and
//! CPU within bounds, quick recovery. Everything runs in its own mount, network and process namespaces.

mod agent_calls;
mod attackers;
mod check;
mod clients;
mod faults;
mod hostile_switch;
mod monitor;
mod otlp;
mod peers;
mod proxy;
mod receiver;
mod service;
pub(crate) mod testbed;

use crate::random::Random;
use crate::steps::{call, may_unshare, target, unshare};
use crate::summary::skipped;
use anyhow::{Context, Result, bail};
use check::Row;
use faults::Fault;
use monitor::Monitor;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use testbed::TestBed;

/// Options of `chaos`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of hosts, each with 8 ports and an agent
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=256))]
    hosts: u64,
    /// Injects random faults for this many minutes instead of each fault once
    #[arg(long)]
    minutes: Option<u64>,
    /// Approximate duration of a fault
    #[arg(long, default_value_t = 6, value_name = "SECONDS")]
    hold: u64,
    /// Longest time until a sample of another sender is acknowledged while a client attacks (99th percentile)
    #[arg(long, default_value_t = 250, value_name = "MILLISECONDS")]
    delay: u64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Injects only this fault; may be given several times
    #[arg(long, value_name = "NAME")]
    fault: Vec<String>,
    /// Fleets that are hurt at the same time, each by a part of the faults
    #[arg(long, default_value_t = 1, conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..=8))]
    lanes: u64,
    /// Lists the faults and their expected behavior
    #[arg(long)]
    list: bool,
    /// Takes the programs from this directory instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Directory of data and logs (emptied at the start)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// This process runs inside the namespaces, with the programs of this directory
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

impl Args {
    /// Each fault of `cargo xtask test` once, on few hosts, with these programs; takes minutes.
    pub fn short(programs: PathBuf) -> Self {
        // A fleet waits most of the time. The delay tells seconds of waiting from none: another fleet and compilers share the processors.
        let (hosts, hold, delay, seed, lanes) = (3, 4, 2500, 1, 2);
        let fault = faults::all().filter(|fault| fault.often).map(|fault| fault.name.to_owned()).collect();
        Self {
            hosts,
            minutes: None,
            hold,
            delay,
            seed,
            fault,
            lanes,
            list: false,
            programs: Some(programs),
            dir: None,
            inside: None,
        }
    }

    /// The faults to inject.
    fn faults(&self) -> Vec<&'static Fault> {
        let is_chosen = |fault: &&Fault| self.fault.is_empty() || self.fault.iter().any(|name| name == fault.name);
        faults::all().filter(is_chosen).collect()
    }

    /// A run of these faults inside new namespaces, with data in `dir`.
    fn command(&self, faults: &[&Fault], dir: &Path, programs: &Path) -> Result<Command> {
        let mut command = unshare();
        command.arg(std::env::current_exe()?).args(["chaos", "--hosts", &self.hosts.to_string()]);
        command.args(["--hold", &self.hold.to_string(), "--seed", &self.seed.to_string()]);
        command.args(["--delay", &self.delay.to_string()]);
        for fault in faults {
            command.args(["--fault", fault.name]);
        }
        if let Some(minutes) = self.minutes {
            command.args(["--minutes", &minutes.to_string()]);
        }
        command.arg("--dir").arg(dir).arg("--inside").arg(programs);
        Ok(command)
    }
}

/// Builds the programs and runs the faults in new namespaces.
///
/// # Errors
/// When an invariant is broken or the fleet does not recover.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        faults::all().for_each(|fault| println!("{:<20} {}", fault.name, fault.expected));
        return Ok(());
    }
    let unknown = args.fault.iter().find(|name| faults::all().all(|fault| fault.name != **name));
    if let Some(name) = unknown {
        let names: Vec<&str> = faults::all().map(|fault| fault.name).collect();
        bail!("there is no fault `{name}`; the faults are {}", names.join(", "));
    }
    let dir = args.dir.clone().map_or_else(|| target().map(|target| target.join("chaos")), Ok)?;
    if let Some(programs) = &args.inside {
        return inside(args, programs, &dir);
    }
    if !may_unshare() {
        skipped("this user may make no namespaces, so nothing was hurt. Run it as root.");
        return Ok(());
    }
    for need in [&crate::setup::NETWORK, &crate::setup::BINDFS, &crate::setup::FAKETIME] {
        crate::setup::ensure(need)?;
    }
    let programs = match &args.programs {
        Some(programs) => programs.canonicalize().with_context(|| format!("find {}", programs.display()))?,
        None => crate::programs::of_demo()?,
    };
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("empty {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let (faults, lanes) = (args.faults(), usize::try_from(args.lanes)?);
    // Each takes every n-th fault, because neighbors of the table take similar time.
    let lane = |n: usize| -> Result<Child> {
        let part: Vec<&Fault> = faults.iter().skip(n).step_by(lanes).copied().collect();
        let dir = if lanes == 1 { dir.clone() } else { dir.join(format!("lane-{}", n + 1)) };
        let mut command = args.command(&part, &dir, &programs)?;
        command.spawn().with_context(|| format!("start {command:?}"))
    };
    let running = (0..lanes.min(faults.len())).map(lane).collect::<Result<Vec<Child>>>()?;
    let ended = running.into_iter().map(|mut lane| lane.wait()).collect::<std::io::Result<Vec<_>>>()?;
    match ended.iter().find(|status| !status.success()) {
        Some(status) => bail!("a fleet ended with {status}; see above"),
        None => Ok(()),
    }
}

fn inside(args: &Args, programs: &Path, dir: &Path) -> Result<()> {
    call("ip", &["link", "set", "lo", "up"])?;
    let (hosts, hold, mut random) = (usize::try_from(args.hosts)?, Duration::from_secs(args.hold), Random(args.seed));
    println!("{hosts} hosts, seed {}; logs are in {}", args.seed, dir.join("logs").display());
    let mut bed = TestBed::start(programs, dir, hosts, Duration::from_millis(args.delay))?;
    let monitor = Monitor::start(&bed.url, hosts);
    let chosen = args.faults();
    let (begin, mut rows) = (Instant::now(), Vec::new());
    std::thread::sleep(Duration::from_secs(5));
    println!("{:<20} {:>6} {:>9}  observed", "fault", "s", "recovered");
    for n in 0.. {
        let fault = match args.minutes {
            Some(minutes) if begin.elapsed() >= Duration::from_secs(60 * minutes) => break,
            Some(_) => chosen[random.below(chosen.len())],
            None if n == chosen.len() => break,
            None => chosen[n],
        };
        let row = check::one(&mut bed, &monitor, fault, &mut random, hold)
            .with_context(|| format!("{}, the {}. fault of seed {}", fault.name, n + 1, args.seed));
        match row {
            Ok(row) => {
                println!("{}", row.line());
                rows.push(row);
            }
            // After a failed recovery the next faults prove nothing.
            Err(error) => {
                report(dir, &monitor, &rows)?;
                return Err(error);
            }
        }
    }
    report(dir, &monitor, &rows)?;
    bed.end()?;
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty()).count();
    if wrong > 0 {
        bail!("{wrong} of {} faults broke an invariant; logs are in {}", rows.len(), dir.join("logs").display());
    }
    println!("{} faults, all invariants held", rows.len());
    Ok(())
}

/// Writes the table and the chart.
fn report(dir: &Path, monitor: &Monitor, rows: &[Row]) -> Result<()> {
    let faults: Vec<_> = rows.iter().map(|row| (row.fault.name, row.from, row.to)).collect();
    fs::write(dir.join("chaos.svg"), monitor::chart(&monitor.since(0.0), &faults))?;
    let table: String = rows.iter().map(Row::markdown).collect();
    let head = "| fault | expected | observed | recovered in | command |\n|---|---|---|---|---|\n";
    fs::write(dir.join("chaos.md"), format!("{head}{table}"))?;
    println!("table and chart: {}", dir.join("chaos.md").display());
    Ok(())
}
