//! Switches that attack the collector which reads them by gNMI.

use crate::steps::tied;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// The switches, by name and by what they do.
const SWITCHES: [&str; 2] = ["flooding=flood", "garbled=garbage"];

/// Their process, killed on drop.
pub struct HostileSwitches {
    process: Child,
    /// Configuration of a collector that reads them.
    pub config: String,
}

impl HostileSwitches {
    /// Starts the process.
    ///
    /// # Errors
    /// When it does not start or ends early.
    pub fn start(program: &Path) -> Result<Self> {
        let mut process = tied("KILL", program)
            .args(SWITCHES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let output = process.stdout.take().context("standard output of the switches")?;
        let mut switches = Self { process, config: String::new() };
        for line in BufReader::new(output).lines().take(SWITCHES.len()) {
            let line = line?;
            let (name, address) = line.split_once(' ').with_context(|| format!("the switches printed {line:?}"))?;
            writeln!(
                switches.config,
                "[[gnmi.targets]]\nname = \"{name}\"\naddress = \"{address}\"\nkind = \"cumulus\"\ntls = false\n"
            )?;
        }
        Ok(switches)
    }
}

impl Drop for HostileSwitches {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
