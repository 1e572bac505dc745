//! `bench report`: time to make a job's communication report by number of hosts, and cost of a round of job rollups.

use crate::steps::{cargo, must};
use anyhow::Result;

/// Hosts, hours and sample interval in seconds. More hosts have a longer interval, so that the data fits on a disk.
const SIZES: [[&str; 3]; 4] = [["2", "24", "1"], ["64", "24", "15"], ["512", "24", "60"], ["4096", "24", "240"]];

/// Options of `bench report`.
#[derive(clap::Args)]
pub struct Args {
    /// Largest number of hosts
    #[arg(long, default_value_t = 4096)]
    hosts: u32,
}

/// Runs all sizes in turn.
///
/// # Errors
/// When a benchmark fails.
pub fn run(args: &Args) -> Result<()> {
    let program = ["run", "--release", "--locked", "-p", "fabriclens-report", "--example", "cost", "--"];
    for size in SIZES {
        if size[0].parse::<u32>()? <= args.hosts {
            must(cargo(&[&program[..], &size].concat()))?;
        }
    }
    let rollup = ["test", "--release", "--locked", "-p", "fabriclens-job-sources", "--lib", "rollup::tests::cost"];
    must(cargo(&[&rollup[..], &["--", "--ignored", "--nocapture"]].concat()))
}
