//! `bench probes`: what tracing and probing cost a fleet of 2,016 hosts with eight ports. No probe is sent: agents are simulated at the level of
//! their reports, and the two ends of a probe over a simulated network, so that system calls and NICs are not in the figures.

use crate::steps::{cargo, must};
use anyhow::Result;

/// Package and test of each table.
const TABLES: [[&str; 2]; 2] =
    [["fabriclens-probing", "cost::a_large_fleet"], ["fabriclens-agent-prober", "port_prober::tests::cost_of_a_probe"]];

/// Prints the tables one after the other.
///
/// # Errors
/// When a package does not build, or agents and collector contradict each other.
pub fn run() -> Result<()> {
    for [package, test] in TABLES {
        let build = ["test", "--release", "--locked", "-p", package, "--lib", test];
        must(cargo(&[&build[..], &["--", "--exact", "--ignored", "--nocapture"]].concat()))?;
    }
    Ok(())
}
