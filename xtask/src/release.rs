//! `cargo xtask release`: all files of a release, from a clean checkout: packages, debug symbols, a bill of materials
//! for each program, and checksums. docs/releasing.md says what goes before and after.

use crate::deb::{self, PACKAGES};
use crate::sbom::sbom;
use crate::setup;
use crate::steps::{Steps, VERSION, cargo, copy, must, output, root, target};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;

/// What `deny.toml` is written for.
const DENY_VERSION: &str = "0.20";

/// Options of `release`.
#[derive(clap::Args)]
pub struct Args {
    /// Cargo profile of the binaries; another than release is for trying out
    #[arg(long, default_value = "release")]
    profile: String,
    /// Takes a working tree with changes that are not committed
    #[arg(long)]
    dirty: bool,
}

/// Builds into `target/dist`.
///
/// # Errors
/// When a crate may not be shipped, or something does not build.
pub fn run(args: &Args) -> Result<()> {
    let mut changed = Command::new("git");
    changed.args(["status", "--porcelain"]).current_dir(root());
    let changed = output(changed)?;
    ensure!(args.dirty || changed.is_empty(), "commit or stash first, or say --dirty:\n{changed}");
    let mut steps = Steps::default();
    steps.run("what may be shipped", deny)?;
    let dist = target()?.join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| format!("removing {}", dist.display()))?;
    }
    fs::create_dir_all(&dist)?;
    steps.run("packages", || {
        ensure!(setup::ensure(&deb::DEBHELPER)?, "debhelper is needed");
        let packages =
            deb::build(&deb::Args { profile: args.profile.clone(), reproducible: true, test: false, packages: None })?;
        deb::lint(&packages)?;
        for package in packages {
            copy(&package, &dist)?;
        }
        Ok(())
    })?;
    steps.run("bill of materials", || {
        for package in PACKAGES {
            let file = dist.join(format!("{package}_{VERSION}.cdx.json"));
            fs::write(file, format!("{:#}\n", sbom(package, &deb::epoch()?)?))?;
        }
        Ok(())
    })?;
    let mut sums = Command::new("sh");
    sums.args(["-ec", "LC_ALL=C sha256sum -- * > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS"]).current_dir(&dist);
    must(sums)?;
    print!("{}", fs::read_to_string(dist.join("SHA256SUMS"))?);
    steps.summary();
    Ok(())
}

/// What may be linked must be so, where `cargo deny` is installed: to build it takes longer than all lints.
pub fn may_be_linked() -> Result<()> {
    if !can_deny() {
        println!("SKIPPED: licences and sources of crates are not checked; cargo install --locked cargo-deny");
        return Ok(());
    }
    must(cargo(&["deny", "check", "licenses", "bans", "sources"]))
}

fn can_deny() -> bool {
    cargo(&["deny", "--version"]).output().is_ok_and(|o| o.status.success())
}

/// The same for sure; and no known vulnerabilities, where their database can be had.
fn deny() -> Result<()> {
    if !can_deny() {
        must(cargo(&["install", "--locked", "--debug", &format!("cargo-deny@^{DENY_VERSION}")]))?;
    }
    may_be_linked()?;
    let fetched = cargo(&["deny", "fetch", "db"]).status()?.success();
    if !fetched {
        println!(
            "SKIPPED: known vulnerabilities are not looked up, their database cannot be reached. Run where it can: cargo deny check advisories"
        );
        return Ok(());
    }
    must(cargo(&["deny", "check", "advisories"]))
}
