//! `cargo`: what runs the pages is cargo at work on this very tree, so here its command lines are only read.

use super::take;
use crate::steps::{command, must, root};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Stdio;

/// Commands that build nothing of ours by name.
const OTHERS: &[&str] = &["check", "deny", "metadata", "tree"];

pub fn cargo(args: &[&str]) -> Result<()> {
    let (verb, rest) = args.split_first().context("what is cargo to do?")?;
    match *verb {
        "xtask" => {
            // Everything before it is parsed, and then nothing done.
            let mut own = command(&std::env::current_exe()?.display().to_string(), rest);
            own.arg("--help").stdout(Stdio::null());
            must(own)
        }
        "build" => {
            ensure!(rest.iter().all(|a| *a == "--release"), "cargo build {}?", rest.join(" "));
            Ok(())
        }
        "test" | "run" => targets(rest),
        other if OTHERS.contains(&other) => Ok(()),
        other => bail!("cargo {other}?"),
    }
}

/// The package, and what is named of it, are there.
fn targets(args: &[&str]) -> Result<()> {
    let mut args: Vec<&str> = args.iter().copied().take_while(|a| *a != "--").collect();
    let package = take(&mut args, "-p").map(package).transpose()?;
    for (option, dir) in [("--test", "tests"), ("--example", "examples")] {
        while let Some(name) = take(&mut args, option) {
            let at = package.as_ref().context("of which package?")?.join(dir);
            ensure!(
                at.join(format!("{name}.rs")).exists() || at.join(name).is_dir(),
                "no {option} {name} in {}",
                at.display()
            );
        }
    }
    args.retain(|a| !["--release", "--help", "--locked"].contains(a));
    ensure!(args.is_empty(), "{}?", args.join(" "));
    Ok(())
}

/// Where a package of the workspace is.
fn package(name: &str) -> Result<PathBuf> {
    let read = |path: PathBuf| -> Result<toml::Table> { Ok(std::fs::read_to_string(path)?.parse()?) };
    let workspace = read(root().join("Cargo.toml"))?;
    let members = workspace["workspace"]["members"].as_array().context("the workspace has no members")?;
    for member in members.iter().filter_map(toml::Value::as_str) {
        let dir = root().join(member);
        if read(dir.join("Cargo.toml"))?["package"]["name"].as_str() == Some(name) {
            return Ok(dir);
        }
    }
    bail!("no package is called {name}")
}
