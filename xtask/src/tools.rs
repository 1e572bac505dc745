//! Programs from crates.io that steps use: `typos` and `cargo deny`. Each is installed once, below the target directory.

use crate::steps::{cargo, must, root, target};
use crate::summary::skipped;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// A program from crates.io.
struct Tool {
    krate: &'static str,
    version: &'static str,
    program: &'static str,
}

/// Builds in 40 s on two cores.
const TYPOS: Tool = Tool { krate: "typos-cli", version: "^1", program: "typos" };
/// Builds in 40 s on two cores. `deny.toml` is written for this version.
const DENY: Tool = Tool { krate: "cargo-deny", version: "^0.20", program: "cargo-deny" };

impl Tool {
    /// Finds the program in the path or installs it; none if it cannot be installed, for example without a network.
    fn find(&self) -> Result<Option<PathBuf>> {
        let runs =
            |program: &PathBuf| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
        let installed = target()?.join("tools");
        let places = [PathBuf::from(self.program), installed.join("bin").join(self.program)];
        if let Some(found) = places.into_iter().find(runs) {
            return Ok(Some(found));
        }
        println!("  installing {} into {}", self.krate, installed.display());
        let package = format!("{}@{}", self.krate, self.version);
        let mut install = cargo(&["install", "--quiet", "--locked", "--debug", &package, "--root"]);
        // Not in the repository's root: its toolchain and profiles are not meant for this crate.
        install.arg(&installed).arg("--target-dir").arg(installed.join("build")).current_dir("/");
        if install.status()?.success() {
            std::fs::remove_dir_all(installed.join("build"))?;
            return Ok(Some(installed.join("bin").join(self.program)));
        }
        skipped(format!("{} could not be installed. Run: cargo install --locked {package}", self.krate));
        Ok(None)
    }
}

/// Spell check of all files, by `typos.toml`.
///
/// # Errors
/// When a word is misspelled.
pub fn spelling() -> Result<()> {
    let Some(typos) = TYPOS.find()? else { return Ok(()) };
    let mut run = Command::new(typos);
    run.current_dir(root());
    must(run)
}

/// `cargo deny`: licenses, banned crates and sources, by `deny.toml`.
///
/// # Errors
/// When a crate may not be used.
pub fn dependencies() -> Result<()> {
    deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]).map(drop)
}

/// `cargo deny`: known vulnerabilities; skipped if the database cannot be fetched.
///
/// # Errors
/// When a crate has a known vulnerability.
pub fn advisories() -> Result<()> {
    match deny(&["fetch", "db"]) {
        Ok(true) => deny(&["check", "advisories"]).map(drop),
        Ok(false) => Ok(()),
        Err(_) => {
            skipped("the database of known vulnerabilities cannot be fetched. Run: cargo deny check advisories");
            Ok(())
        }
    }
}

/// Runs `cargo deny`; false if it is not installed and cannot be.
fn deny(args: &[&str]) -> Result<bool> {
    let Some(program) = DENY.find()? else { return Ok(false) };
    let mut run = Command::new(program);
    run.args(args).current_dir(root());
    must(run).map(|()| true)
}
