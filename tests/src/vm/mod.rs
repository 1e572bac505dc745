//! Scenarios on real kernels: one file each, one row each in [`ALL`]. `cargo xtask vm` runs them.

mod hca_abi;
mod hca_congestion;
mod hca_hang;
mod hca_pfc_switch;
mod hca_port;
mod hca_saturation;
mod hca_umad;
mod hca_unload;
mod hca_urgent;
mod lab;
mod leaf_spine;
mod paths;
mod paths_faults;
mod paths_hosts;
mod probed_fabric;
mod rxe_congestion;
mod rxe_counts;
mod rxe_faults;
mod rxe_jobs;
mod rxe_link;
mod rxe_loss;
mod rxe_probes;
mod rxe_replug;
mod slurm_rdma;
mod tcp_probes;
mod watched;

pub use lab::{Lab, Programs};

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// One scenario.
#[derive(Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Tested behavior, in a line.
    pub shows: &'static str,
    /// Time limit.
    pub limit: Duration,
    /// Starts guests and checks; everything that it started ends when it returns.
    pub run: fn(&Lab) -> Result<()>,
}

/// All scenarios, in the order in which they run.
pub const ALL: &[Scenario] = &[
    rxe_counts::SCENARIO,
    rxe_jobs::SCENARIO,
    rxe_link::SCENARIO,
    rxe_loss::SCENARIO,
    rxe_faults::SCENARIO,
    rxe_congestion::SCENARIO,
    rxe_replug::SCENARIO,
    rxe_probes::SCENARIO,
    slurm_rdma::SCENARIO,
    hca_abi::SCENARIO,
    hca_congestion::SCENARIO,
    hca_saturation::SCENARIO,
    hca_port::SCENARIO,
    hca_pfc_switch::SCENARIO,
    hca_urgent::SCENARIO,
    hca_umad::SCENARIO,
    hca_unload::SCENARIO,
    hca_hang::SCENARIO,
    tcp_probes::SCENARIO,
    paths::SCENARIO,
    paths_hosts::SCENARIO,
    paths_faults::SCENARIO,
];

/// Scenarios that take minutes, or measure rather than check; they run only when named.
pub const BY_NAME: &[&str] = &["rxe-faults", "paths-hosts", "paths-faults"];

/// Runs the scenarios called `names` (if there are none, all but [`BY_NAME`]), one after the other.
///
/// # Errors
/// When a name is unknown, the guest cannot be built or a scenario fails; the others still run.
pub fn run(names: &[String], cache: &Path, programs: &Programs) -> Result<()> {
    for name in names {
        ensure!(
            ALL.iter().any(|scenario| scenario.name == name),
            "no scenario {name}; there are: {}",
            ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ")
        );
    }
    let is_chosen = |scenario: &&Scenario| match names {
        [] => !BY_NAME.contains(&scenario.name),
        names => names.iter().any(|name| name == scenario.name),
    };
    let chosen: Vec<&Scenario> = ALL.iter().filter(is_chosen).collect();
    let start = Instant::now();
    let image = Lab::prepare(cache, programs).context("building the guest")?;
    println!("      guest: Linux {}, ready after {:.1} s", image.release(), start.elapsed().as_secs_f64());
    let mut failed = Vec::new();
    for (number, scenario) in chosen.iter().enumerate() {
        println!("[{}/{}] {}: {}", number + 1, chosen.len(), scenario.name, scenario.shows);
        let start = Instant::now();
        let attempt = || {
            image.open(scenario.limit).and_then(|lab| {
                (scenario.run)(&lab).with_context(|| format!("files of the run: {}", lab.keep().display()))?;
                lab.discard()
            })
        };
        // Emulated guests on a busy machine can miss deadlines: a second try separates a slow machine from a defect,
        // and both results are printed.
        let done = attempt().or_else(|error| {
            println!("      failed in {:.1} s, trying once more: {error:#}", start.elapsed().as_secs_f64());
            attempt()
        });
        let seconds = start.elapsed().as_secs_f64();
        match done {
            Ok(()) => println!("      pass in {seconds:.1} s"),
            Err(error) => {
                println!("      FAIL in {seconds:.1} s: {error:#}");
                failed.push(scenario.name);
            }
        }
    }
    println!(
        "{} of {} scenarios passed in {:.0} s",
        chosen.len() - failed.len(),
        chosen.len(),
        start.elapsed().as_secs_f64()
    );
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}
