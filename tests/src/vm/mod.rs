//! Scenarios on real kernels: one file each, one row each in [`ALL`]. `cargo xtask vm` runs them.

mod hca_abi;
mod hca_congestion;
mod hca_drift;
mod hca_hang;
mod hca_pcie;
mod hca_pfc_switch;
mod hca_port;
mod hca_saturation;
mod hca_umad;
mod hca_unload;
mod hca_urgent;
mod lab;
mod leaf_spine;
mod mpi;
mod paths;
mod paths_faults;
mod paths_hosts;
mod probed_fabric;
mod runner;
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
pub use runner::run;

use anyhow::Result;
use std::time::Duration;

/// One scenario.
#[derive(Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Tested behavior, in a line.
    pub shows: &'static str,
    /// Time limit.
    pub limit: Duration,
    /// Whether it runs without being named. Not if it takes minutes, or measures rather than checks.
    pub often: bool,
    /// Measures times, or starts more guests than a small machine has processors: no other scenario runs beside it.
    pub alone: bool,
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
    mpi::SCENARIO,
    mpi::OPEN,
    hca_abi::SCENARIO,
    hca_congestion::SCENARIO,
    hca_saturation::SCENARIO,
    hca_port::SCENARIO,
    hca_pfc_switch::SCENARIO,
    hca_pcie::SCENARIO,
    hca_drift::SCENARIO,
    hca_urgent::SCENARIO,
    hca_umad::SCENARIO,
    hca_unload::SCENARIO,
    hca_hang::SCENARIO,
    tcp_probes::SCENARIO,
    paths::SCENARIO,
    paths_hosts::SCENARIO,
    paths_faults::SCENARIO,
];
