//! `cargo xtask chaos`: real agents and a real collector, hurt in each way that [`faults::ALL`] knows, and what must hold
//! whatever happens: no sample is missing that was taken, every sample is accounted for, no incident is told of a healthy
//! fabric, memory and processor stay within bounds, and all is well again soon.
//!
//! It runs in mounts, a network and processes of its own, so nothing outside of them is touched.

mod check;
mod faults;
mod peers;
mod stage;
mod unit;
mod watch;
mod wire;

use crate::sim::tree::host_name;
use crate::steps::{cargo, command, may_unshare, must, output, target, unshare};
use anyhow::{Context, Result, bail};
use check::Row;
use faults::{ALL, Fault};
use stage::Stage;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use watch::Watch;

/// Options of `chaos`.
#[derive(clap::Args)]
pub struct Args {
    /// Hosts with 8 ports each, each with its agent
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=256))]
    hosts: u64,
    /// Goes on with faults at random for so many minutes, instead of each once
    #[arg(long)]
    minutes: Option<u64>,
    /// How long a fault lasts, about
    #[arg(long, default_value_t = 6, value_name = "SECONDS")]
    hold: u64,
    /// What is random is the same with the same number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this fault; can be given several times
    #[arg(long, value_name = "NAME")]
    fault: Vec<String>,
    /// Tells the faults, and what must be so
    #[arg(long)]
    list: bool,
    /// Uses the programs in this directory and builds none
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Where everything is written (emptied at the start)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// In the place of its own already, with the programs there
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

impl Args {
    /// Each fault once, on few hosts: minutes.
    pub fn short() -> Self {
        let (hosts, hold, seed) = (3, 4, 1);
        Self {
            hosts,
            minutes: None,
            hold,
            seed,
            fault: Vec::new(),
            list: false,
            programs: None,
            dir: None,
            inside: None,
        }
    }

    /// The command that does the same in this directory, with the programs in that one.
    fn command(&self, dir: &Path, programs: &Path) -> Result<Command> {
        let mut command = unshare();
        command.arg(std::env::current_exe()?).args(["chaos", "--hosts", &self.hosts.to_string()]);
        command.args(["--hold", &self.hold.to_string(), "--seed", &self.seed.to_string()]);
        for name in &self.fault {
            command.args(["--fault", name]);
        }
        if let Some(minutes) = self.minutes {
            command.args(["--minutes", &minutes.to_string()]);
        }
        command.arg("--dir").arg(dir).arg("--inside").arg(programs);
        Ok(command)
    }
}

/// Builds, goes to a place of its own, and breaks things there.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        ALL.iter().for_each(|fault| println!("{:<20} {}", fault.name, fault.expected));
        return Ok(());
    }
    let unknown = args.fault.iter().find(|name| ALL.iter().all(|fault| fault.name != **name));
    if let Some(name) = unknown {
        let names: Vec<&str> = ALL.iter().map(|fault| fault.name).collect();
        bail!("no fault is called {name}; there are {}", names.join(", "));
    }
    let dir = args.dir.clone().map_or_else(|| target().map(|target| target.join("chaos")), Ok)?;
    if let Some(programs) = &args.inside {
        return inside(args, programs, &dir);
    }
    if !may_unshare() {
        println!("SKIPPED: this user may make no namespaces, so nothing was hurt. Run it as root.");
        return Ok(());
    }
    for need in [&crate::setup::NETWORK, &crate::setup::BINDFS, &crate::setup::FAKETIME] {
        crate::setup::ensure(need)?;
    }
    let programs = match &args.programs {
        Some(programs) => programs.canonicalize().with_context(|| format!("find {}", programs.display()))?,
        None => {
            let load = cargo(&["build", "--profile", "demo", "--locked", "-p", "fabriclens-load"]);
            must(load).and_then(|()| crate::demo::build())?
        }
    };
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("empty {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    must(args.command(&dir, &programs)?)
}

fn inside(args: &Args, programs: &Path, dir: &Path) -> Result<()> {
    call("ip", &["link", "set", "lo", "up"])?;
    let (hosts, hold, mut random) = (usize::try_from(args.hosts)?, Duration::from_secs(args.hold), Random(args.seed));
    println!("{hosts} hosts, seed {}; logs are in {}", args.seed, dir.join("logs").display());
    let mut stage = Stage::start(programs, dir, hosts)?;
    let watch = Watch::start(&stage.url, hosts);
    let chosen: Vec<&Fault> =
        ALL.iter().filter(|fault| args.fault.is_empty() || args.fault.iter().any(|name| name == fault.name)).collect();
    let (begin, mut rows) = (Instant::now(), Vec::new());
    std::thread::sleep(Duration::from_secs(5));
    println!("{:<20} {:>6} {:>9}  observed", "fault", "s", "well in");
    for n in 0.. {
        let fault = match args.minutes {
            Some(minutes) if begin.elapsed() >= Duration::from_secs(60 * minutes) => break,
            Some(_) => chosen[random.below(chosen.len())],
            None if n == chosen.len() => break,
            None => chosen[n],
        };
        let row = check::one(&mut stage, &watch, fault, &mut random, hold)
            .with_context(|| format!("{}, the {}. fault of seed {}", fault.name, n + 1, args.seed));
        match row {
            Ok(row) => {
                println!("{}", row.line());
                rows.push(row);
            }
            // A stage that did not recover proves nothing of the next fault.
            Err(error) => {
                report(dir, &watch, &rows)?;
                return Err(error);
            }
        }
    }
    report(dir, &watch, &rows)?;
    stage.end()?;
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty()).count();
    if wrong > 0 {
        bail!("{wrong} of {} faults broke what must hold; logs are in {}", rows.len(), dir.join("logs").display());
    }
    println!("{} faults, and everything held that must", rows.len());
    Ok(())
}

/// Writes the table and the picture.
fn report(dir: &Path, watch: &Watch, rows: &[Row]) -> Result<()> {
    let faults: Vec<_> = rows.iter().map(|row| (row.fault.name, row.from, row.to)).collect();
    fs::write(dir.join("chaos.svg"), watch::picture(&watch.since(0.0), &faults))?;
    let table: String = rows.iter().map(Row::markdown).collect();
    let head = "| fault | expected | observed | well in | command |\n|---|---|---|---|---|\n";
    fs::write(dir.join("chaos.md"), format!("{head}{table}"))?;
    println!("table and picture: {}", dir.join("chaos.md").display());
    Ok(())
}

/// Runs a program; an error has what it said.
fn call(program: &str, args: &[&str]) -> Result<()> {
    output(command(program, args)).map(drop)
}

/// splitmix64: the same everywhere.
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below another.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
