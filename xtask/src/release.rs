//! `cargo xtask release`: builds the files of a release from a clean checkout: packages, debug symbols, an SBOM per program and
//! checksums. docs/releasing.md describes the steps before and after.

use crate::deb::{self, PACKAGES};
use crate::sbom::sbom;
use crate::setup;
use crate::steps::{VERSION, copy, must, output, root, target};
use crate::summary::Steps;
use crate::tools;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;

/// Options of `release`.
#[derive(clap::Args)]
pub struct Args {
    /// Cargo profile of the programs; use another than release only to try the command
    #[arg(long, default_value = "release")]
    profile: String,
    /// Allows uncommitted changes
    #[arg(long)]
    dirty: bool,
}

/// Builds into `target/dist`.
///
/// # Errors
/// When a dependency is not allowed, or a file does not build.
pub fn run(args: &Args) -> Result<()> {
    let mut changed = Command::new("git");
    changed.args(["status", "--porcelain"]).current_dir(root());
    let changed = output(changed)?;
    ensure!(args.dirty || changed.is_empty(), "commit or stash first, or use --dirty:\n{changed}");
    let mut steps = Steps::default();
    steps.run("dependencies", tools::dependencies)?;
    steps.run("advisories", tools::advisories)?;
    let dist = target()?.join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| format!("removing {}", dist.display()))?;
    }
    fs::create_dir_all(&dist)?;
    steps.run("packages", || {
        ensure!(setup::ensure(&deb::DEBHELPER)?, "debhelper is needed");
        let packages =
            deb::build(&deb::Args { profile: args.profile.clone(), reproducible: true, ..deb::Args::default() })?;
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
