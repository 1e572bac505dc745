//! Small recordings with ground truth, which tests back-test: a calm minute, a fault, and the time after it.
//!
//! The simulator has no random numbers, so a scenario is always the same. Only hosts are sampled.

mod files;
mod truth;

use super::fabric::{Fabric, Fault};
use super::layout::ports;
use super::nic::Nic;
use anyhow::{Context, Result};
use std::path::Path;

/// Seconds before the fault, with it, and after it.
const CALM: usize = 60;
const FAULT: usize = 30;
const AFTER: usize = 60;
/// Simulator steps per second.
const STEPS: usize = 10;

/// A run of the simulated fabric.
pub struct Scenario {
    /// Name of the directory, and the kind of the fault.
    pub name: &'static str,
    fault: Option<Fault>,
}

/// Every committed scenario.
pub const ALL: &[Scenario] = &[
    Scenario { name: "healthy", fault: None },
    Scenario { name: "incast", fault: Some(Fault::Incast { job: 1, to: (7, 3) }) },
    Scenario { name: "pfc_storm", fault: Some(Fault::Storm { nic: (12, 2) }) },
    Scenario { name: "slow_receiver", fault: Some(Fault::SlowReceiver { nic: (7, 1), drain: 0.125 }) },
    Scenario { name: "lossy_link", fault: Some(Fault::BadLink { nic: (3, 5) }) },
    Scenario { name: "degraded_link", fault: Some(Fault::SlowLink { nic: (13, 6), rate: 0.25 }) },
];

/// State of all NICs after a second.
struct Sample {
    nics: Vec<Nic>,
    /// Rate of each NIC's link, as a share of the line rate.
    rates: Vec<f64>,
}

/// Simulates a scenario; gives a sample per second.
fn simulate(fault: Option<Fault>) -> Vec<Sample> {
    let mut fabric = Fabric::new();
    let second = |at: usize| {
        fabric.fault = fault.filter(|_| (CALM..CALM + FAULT).contains(&at));
        (0..STEPS).for_each(|_| fabric.step(1.0 / STEPS as f64));
        Sample { nics: fabric.nics.clone(), rates: ports().map(|port| fabric.link_rate(port)).collect() }
    };
    (0..CALM + FAULT + AFTER).map(second).collect()
}

/// Writes every scenario into a directory of its name below `dir`.
///
/// # Errors
/// When a file cannot be written.
pub fn write_all(dir: &Path) -> Result<()> {
    let healthy = simulate(None);
    for scenario in ALL {
        let run = simulate(scenario.fault);
        let to = dir.join(scenario.name);
        std::fs::create_dir_all(&to).with_context(|| format!("create {}", to.display()))?;
        files::write(&to, &run)?;
        truth::write(&to, scenario, &run, &healthy)?;
    }
    Ok(())
}
