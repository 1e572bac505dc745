//! `cargo xtask demo`: the whole product on this machine, from counter to verdict, with a script of faults.
//!
//! Starts a collector, an agent for this host, 16 agents for simulated hosts, and their leaf and spine switches. `story`
//! injects four faults and prints the collector's answers.

mod ask;
mod fleet;
mod story;
pub mod switches;

pub use fleet::{Binaries, FIRST_JOB};

use crate::programs;
use crate::sim::fabric::Fabric;
use crate::sim::layout::{HOSTS, host_name};
use crate::sim::switch::spines;
use crate::sim::tree::HostTree;
use crate::steps::root;
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Stops after this many seconds [default: on Ctrl-C]
    #[arg(long, value_name = "SECONDS")]
    r#for: Option<u64>,
    /// Takes the programs from this directory instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<std::path::PathBuf>,
    /// Directory of hosts and data (emptied at the start)
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

/// Update interval of the simulated counters.
const TICK: Duration = Duration::from_millis(100);

/// Builds, starts and stops everything, and runs the story.
///
/// # Errors
/// When a program does not build or start, or ends early.
pub fn run(args: Args) -> Result<()> {
    let binaries = Binaries::of(&args.programs.map_or_else(programs::of_demo, Ok)?);
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
    trees.iter().try_for_each(HostTree::set_neighbors)?;
    let simulator = std::thread::spawn({
        let (fabric, stop) = (fabric.clone(), stop.clone());
        move || crate::sim::run(&fabric, &mut trees, TICK, &stop)
    });
    let inspector = std::thread::spawn({
        let (fabric, stop, hosts) = (fabric.clone(), stop.clone(), dir.join("hosts"));
        move || crate::sim::inspector::run(&fabric, &hosts, &stop)
    });
    let spines = switches::Spines::start(&binaries.gnmi_target, spines(), &switches::links(&fabric)?)?;
    let fleet = fleet::Fleet::start(&binaries, &dir, spines.process, &spines.config)?;
    let mut values = spines.values;
    let switches = std::thread::spawn({
        let (fabric, stop, otlp) = (fabric.clone(), stop.clone(), fleet.otlp_url.clone());
        // The values come back, so that the spines end when they are stopped.
        move || switches::run(&otlp, &mut values, &fabric, &stop).map(|()| values)
    });
    println!("{}", fleet.welcome());
    let jobs = {
        let fabric = fabric.lock().map_err(|_| anyhow::anyhow!("the simulator panicked"))?;
        fleet.register_jobs(&fabric.jobs)?;
        fabric.jobs.len()
    };
    let result = story::run(&fleet.collector_url, &fabric, &stop, args.r#for.map(Duration::from_secs));
    let result = result.and_then(|()| fleet.write_reports(jobs));
    stop.store(true, Ordering::SeqCst);
    let (simulated, switches, inspected) = (simulator.join(), switches.join(), inspector.join());
    let ended = fleet.stop();
    result?;
    simulated.unwrap_or_else(|_| Err(anyhow::anyhow!("the simulator panicked")))?;
    inspected.unwrap_or_else(|_| Err(anyhow::anyhow!("the thread that writes files of the Inspector panicked")))?;
    switches.unwrap_or_else(|_| Err(anyhow::anyhow!("the thread of the switches panicked")))?;
    ended
}

/// Creates the trees of a number of hosts in `dir/hosts`.
pub fn create_trees(dir: &Path, hosts: usize) -> Result<Vec<HostTree>> {
    (0..hosts).map(|h| HostTree::create(&dir.join("hosts").join(host_name(h)), h)).collect()
}
