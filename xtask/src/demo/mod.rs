//! `cargo xtask demo`: the whole path on this machine, from counter to query, and a story to watch.
//!
//! A collector, an agent that reads this host, and 16 agents that read simulated hosts; `story` injects three faults
//! and asks the collector what it saw. Everything it prints about the fabric is an answer to a query.

mod ask;
mod fleet;
mod story;

pub use fleet::{Binaries, FIRST_JOB, build};

use crate::sim::HOSTS;
use crate::sim::fabric::Fabric;
use crate::sim::tree::{HostTree, host_name};
use crate::steps::root;
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Ends by itself after this many seconds (default: runs until Ctrl-C)
    #[arg(long, value_name = "SECONDS")]
    r#for: Option<u64>,
    /// Uses the programs in this directory and builds none
    #[arg(long, value_name = "DIR")]
    programs: Option<std::path::PathBuf>,
    /// Where hosts and data are written (emptied at the start)
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// How often the simulated NICs' files are brought up to date.
const TICK: Duration = Duration::from_millis(100);

/// Builds, starts, tells, and stops everything.
pub fn run(args: Args) -> Result<()> {
    let binaries = Binaries::of(&args.programs.map_or_else(build, Ok)?);
    let dir = args.dir.unwrap_or_else(|| root().join("target/demo-run"));
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("empty {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let dir = dir.canonicalize()?;

    let stop = Arc::new(AtomicBool::new(false));
    ctrlc::set_handler({
        let stop = stop.clone();
        move || stop.store(true, Ordering::SeqCst)
    })
    .context("listen for Ctrl-C")?;

    let fabric = Arc::new(Mutex::new(Fabric::new()));
    let mut trees = create_trees(&dir, HOSTS)?;
    let simulator = std::thread::spawn({
        let (fabric, stop) = (fabric.clone(), stop.clone());
        move || crate::sim::run(&fabric, &mut trees, TICK, &stop)
    });
    let fleet = fleet::Fleet::start(&binaries, &dir)?;
    println!("{}", fleet.welcome());
    let jobs = {
        let fabric = fabric.lock().map_err(|_| anyhow::anyhow!("the simulator panicked"))?;
        fleet.tell_jobs(&fabric.jobs)?;
        fabric.jobs.len()
    };
    let told = story::tell(&fleet.collector_url, &fabric, &stop, args.r#for.map(Duration::from_secs));
    let told = told.and_then(|()| fleet.write_reports(jobs));
    stop.store(true, Ordering::SeqCst);
    let simulated = simulator.join();
    let ended = fleet.stop();
    told?;
    simulated.unwrap_or_else(|_| Err(anyhow::anyhow!("the simulator panicked")))?;
    ended
}

/// The files of so many hosts, below `hosts` of a directory.
pub fn create_trees(dir: &Path, hosts: usize) -> Result<Vec<HostTree>> {
    (0..hosts).map(|h| HostTree::create(&dir.join("hosts").join(host_name(h)), h)).collect()
}
