//! `bench report`: how long the communication report of a job takes, by hosts, and what a round of jobs' rollups costs. There
//! is no rival that makes either.

use crate::steps::{cargo, must};
use anyhow::Result;

/// Hosts, hours, and seconds between samples: of many hosts fewer samples fit on a disk, and as many are read.
const SIZES: [[&str; 3]; 4] = [["2", "24", "1"], ["64", "24", "15"], ["512", "24", "60"], ["4096", "24", "240"]];

/// Options of `bench report`.
#[derive(clap::Args)]
pub struct Args {
    /// Only up to so many hosts
    #[arg(long, default_value_t = 4096)]
    hosts: u32,
}

/// Runs all sizes, one after the other.
pub fn run(args: &Args) -> Result<()> {
    let program = ["run", "--release", "--locked", "-p", "fabriclens-report", "--example", "cost", "--"];
    for size in SIZES {
        if size[0].parse::<u32>()? <= args.hosts {
            must(cargo(&[&program[..], &size].concat()))?;
        }
    }
    let rollup = ["test", "--release", "--locked", "-p", "fabriclens", "--lib", "rollup::tests::cost"];
    must(cargo(&[&rollup[..], &["--", "--ignored", "--nocapture"]].concat()))
}
