//! `cargo` commands of the pages: the packages, tests and examples that they name exist. They are not run.

use super::page::Page;
use crate::steps::root;
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;

/// Subcommands that name no package, test or example of ours.
const OTHERS: &[&str] = &["bench", "check", "clippy", "deny", "fmt", "install", "metadata", "tree", "xtask"];
const FLAGS: &[&str] = &["--release", "--help", "--locked", "--workspace"];

/// One message for each command that names something that does not exist.
pub fn wrong_commands(pages: &[Page]) -> Vec<String> {
    let mut wrong = Vec::new();
    for page in pages {
        for code in page.code.iter().chain(page.blocks.iter().filter(|block| block.language() == "sh")) {
            for line in code.text.lines().filter(|line| line.starts_with("cargo ")) {
                let words: Vec<&str> = line.split_whitespace().skip(1).take_while(|word| *word != "#").collect();
                if let Err(error) = check(&words) {
                    wrong.push(format!("{}:{}: `{line}`: {error:#}", page.path.display(), code.line));
                }
            }
        }
    }
    wrong
}

fn check(words: &[&str]) -> Result<()> {
    let (verb, rest) = words.split_first().context("no subcommand")?;
    match *verb {
        "build" | "test" | "run" => targets(rest),
        other if OTHERS.contains(&other) => Ok(()),
        other => bail!("unknown subcommand {other}"),
    }
}

fn targets(args: &[&str]) -> Result<()> {
    let mut args: Vec<&str> = args.iter().copied().take_while(|a| *a != "--").collect();
    let package = take(&mut args, "-p").map(package).transpose()?;
    for (option, dir) in [("--test", "tests"), ("--example", "examples")] {
        while let Some(name) = take(&mut args, option) {
            let dir = package.as_ref().context("no package is named")?.join(dir);
            let exists = dir.join(format!("{name}.rs")).exists() || dir.join(name).is_dir();
            ensure!(exists, "no {option} {name} in {}", dir.display());
        }
    }
    // A word without dashes selects tests by name.
    args.retain(|a| a.starts_with('-') && !FLAGS.contains(a));
    ensure!(args.is_empty(), "unknown options {}", args.join(" "));
    Ok(())
}

/// Takes an option and its value out of the arguments.
fn take<'a>(args: &mut Vec<&'a str>, option: &str) -> Option<&'a str> {
    let at = args.iter().position(|a| *a == option)?;
    args.remove(at);
    (at < args.len()).then(|| args.remove(at))
}

/// Directory of a package of the workspace.
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
    bail!("no package {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_must_name_existing_targets() {
        for (right, wrong, says) in [
            ("build --release", "build --fast", "--fast"),
            ("test -p fabriclens-fuzz", "test -p fabriclens-fuss", "no package fabriclens-fuss"),
            (
                "run --release -p fabriclens-store --example workload -- 3",
                "run -p fabriclens-model --example workload",
                "no --example workload",
            ),
            ("deny check advisories", "denies check", "denies"),
        ] {
            let of = |line: &str| check(&line.split(' ').collect::<Vec<_>>());
            of(right).unwrap();
            let error = of(wrong).expect_err(wrong).to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
