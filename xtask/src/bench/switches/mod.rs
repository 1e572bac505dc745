//! `bench switches`: what switches cost. The collector under OTLP in the form of Cumulus Linux, beside the same series under
//! canonical names, and under gNMI; the agent that reads an InfiniBand subnet in-band.

mod gnmi;
mod push;
mod subnet;

use crate::demo::Binaries;
use crate::programs;
use crate::steps::target;
use anyhow::Result;
use std::path::PathBuf;

/// Options of `bench switches`.
#[derive(clap::Args)]
pub struct Args {
    /// Parts to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Takes the programs, `fabriclens-load` among them, from this directory instead of building them with the demo profile
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Seconds to measure, after a warm-up
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Switches that push OTLP
    #[arg(long, default_value_t = 400)]
    switches: u64,
    /// Ports of a switch that pushes OTLP, with 18 counters each
    #[arg(long, default_value_t = 64)]
    ports: u64,
    /// Times that each form of OTLP is measured, in turns
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Switches that are read by gNMI
    #[arg(long, default_value_t = 500)]
    targets: usize,
    /// Ports of a switch that is read by gNMI, with 18 values each
    #[arg(long, default_value_t = 64)]
    target_ports: usize,
    /// Switch ports of the InfiniBand subnet, about
    #[arg(long, default_value_t = 10_000)]
    subnet_ports: usize,
    /// Datagrams that the reader of the InfiniBand subnet may send per second; 10,000 ports need 4,100
    #[arg(long, default_value_t = 20_000)]
    mads_per_second: u32,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Switches that push OTLP to a collector
    Otlp,
    /// Switches that a collector reads by gNMI
    Gnmi,
    /// An agent that reads an InfiniBand subnet
    Subnet,
}

/// Builds, measures and prints.
///
/// # Errors
/// When a program does not build or start.
pub fn run(args: &Args) -> Result<()> {
    let programs = args.programs.clone().map_or_else(programs::of_demo, Ok)?;
    let binaries = Binaries::of(&programs);
    let dir = target()?.join("bench-switches");
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    if wanted(Part::Otlp) {
        push::run(args, &binaries.collector, &programs.join("fabriclens-load"), &dir)?;
    }
    if wanted(Part::Gnmi) {
        gnmi::run(args, &binaries, &dir)?;
    }
    if wanted(Part::Subnet) {
        subnet::run(args, &binaries.agent, &binaries.collector, &dir)?;
    }
    Ok(())
}
