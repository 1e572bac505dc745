//! `cargo xtask vm`: builds the programs that go into the guests and runs the scenarios of `tests/src/vm`.

use crate::programs::{self, PROBER};
use crate::setup::{self, Need};
use crate::steps::{cargo, must, root, target};
use crate::summary::skipped;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Static programs run in any guest, independent of its libraries.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The emulator of the guests.
pub const QEMU: Need = Need {
    without: "tests on real kernels are skipped",
    packages: &["qemu-system-x86"],
    proof: &["/usr/bin/qemu-system-x86_64"],
};

/// Needed to build the fake HCA with the kernel's makefiles.
pub const MAKE: Need = Need {
    without: "the fake HCA cannot be built and tests on real kernels are skipped",
    packages: &["make", "gcc-12"],
    proof: &["/usr/bin/make", "/usr/bin/gcc-12"],
};

/// Needed for the C parts of the agent's dependencies in the static build.
pub const MUSL: Need = Need {
    without: "the static agent cannot be built and tests on real kernels are skipped",
    packages: &["musl-tools"],
    proof: &["/usr/bin/musl-gcc"],
};

/// Options of `vm`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Scenarios to run, with agents of the profile `demo` [default: those of `cargo xtask test`, with the agents of the tests]
    names: Vec<String>,
    /// Lists the scenarios
    #[arg(long)]
    list: bool,
    /// Fails instead of skipping if guests cannot run (no QEMU, not Debian)
    #[arg(long)]
    require: bool,
}

/// Runs the scenarios; skips them with a message if this host cannot run guests.
///
/// # Errors
/// When something does not build or a scenario fails.
pub fn run(args: Args) -> Result<()> {
    let programs = programs::of_tests()?;
    let mut lab = Command::new(programs.join("fabriclens-vm"));
    if args.list {
        lab.arg("--list");
        return must(lab);
    }
    if !able()? {
        ensure!(!args.require, "this host cannot run the guests (see above)");
        return Ok(());
    }
    let target = target()?;
    let (agents, fixed) = if args.names.is_empty() {
        compile("dev")?;
        (programs.clone(), target.join(STATIC).join("debug"))
    } else {
        // The agent of the tests takes more of an emulated processor than its budget, and would probe less.
        must(cargo(&["build", "--locked", "--profile", "demo", "-p", "fabriclens-agent"]))?;
        compile("demo")?;
        (target.join("demo"), target.join(STATIC).join("demo"))
    };
    lab.arg("--cache").arg(target.join("vm"));
    lab.arg("--guest").arg(fixed.join("fabriclens-guest"));
    lab.arg("--agent").arg(agents.join("fabriclens-agent"));
    lab.arg("--agent-static").arg(fixed.join("fabriclens-agent"));
    lab.arg("--collector").arg(programs.join("fabriclens"));
    lab.arg("--prober").arg(programs.join(PROBER));
    lab.args(&args.names);
    must(lab)
}

/// Builds the static programs, if guests can run here.
///
/// # Errors
/// When something does not build.
pub fn guest_programs() -> Result<()> {
    if able()? { compile("dev") } else { Ok(()) }
}

fn compile(profile: &str) -> Result<()> {
    let mut build = cargo(&["build", "--quiet", "--locked", "--target", STATIC, "--profile", profile]);
    build.args(["-p", "fabriclens-agent", "-p", "fabriclens-guest"]);
    must(build)
}

/// Whether guests can be built and run here; prints what is missing.
fn able() -> Result<bool> {
    if !Path::new("/usr/bin/apt-get").exists() {
        skipped("no apt-get: the guests are built from Debian packages, so tests on real kernels are skipped");
        return Ok(false);
    }
    Ok(setup::ensure(&QEMU)? && setup::ensure(&MAKE)? && setup::ensure(&MUSL)? && target_installed()?)
}

/// Installs the static target if it is missing; false if it cannot be installed (offline).
fn target_installed() -> Result<bool> {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = installed.context("running rustup: the guests need its target x86_64-unknown-linux-musl")?;
    if String::from_utf8_lossy(&installed.stdout).lines().any(|line| line == STATIC) {
        return Ok(true);
    }
    let added = Command::new("rustup").args(["target", "add", STATIC]).current_dir(root()).status()?.success();
    if !added {
        skipped(format!("tests on real kernels are skipped. Run: rustup target add {STATIC}"));
    }
    Ok(added)
}
