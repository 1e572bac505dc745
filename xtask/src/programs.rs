//! The programs that xtask starts, and where they are built.

use crate::steps::{cargo, must, target};
use anyhow::Result;
use std::path::PathBuf;

/// Program and package of the switches that answer gNMI.
pub const GNMI_TARGET: &str = "fabriclens-gnmi-target";
/// Package and program that probes without a collector, in the guests.
pub const PROBER: &str = "fabriclens-lab-prober";

/// Package and program that writes man pages and completions.
pub const MANUAL: &str = "fabriclens-manual";

/// Builds them with the `demo` profile, for who wants to see or measure the product; gives their directory. One command: cargo compiles
/// what two packages need once, even if they use different features of it.
///
/// # Errors
/// When they do not build.
pub fn of_demo() -> Result<PathBuf> {
    println!("building the collector and the agent (the first time takes some minutes)");
    let mut build = cargo(&["build", "--profile", "demo", "--locked"]);
    for package in ["fabriclens", "fabriclens-agent", GNMI_TARGET, "fabriclens-load"] {
        build.args(["-p", package]);
    }
    must(build)?;
    Ok(target()?.join("demo"))
}

/// Builds them with the profile and the features of the tests, so that nothing is left to compile after these; gives their directory.
/// Without `--tests` cargo would leave out features that only tests ask for, and compile all that depends on them again.
///
/// # Errors
/// When they do not build.
pub fn of_tests() -> Result<PathBuf> {
    let mut build = cargo(&["build", "--quiet", "--workspace", "--tests", "--locked"]);
    // Not all: this program would be replaced while it runs.
    for program in ["fabriclens", "fabriclens-agent", GNMI_TARGET, "fabriclens-load", MANUAL, PROBER, "fabriclens-vm"] {
        build.args(["--bin", program]);
    }
    must(build)?;
    Ok(target()?.join("debug"))
}
