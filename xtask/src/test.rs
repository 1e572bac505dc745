//! `cargo xtask test` and `cargo xtask check`: the steps that CI runs, as one table, in the order in which they fail fastest.

use crate::setup::{self, Need};
use crate::steps::{Steps, cargo, may_unshare, must, root, skipped, target};
use crate::{chaos, console, deb, docs, ebpf, layers, manifests, msrv, needs, tools, vm};
use anyhow::{Result, bail};
use std::process::Command;

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Leaves out the guests with real kernels
    #[arg(long)]
    no_vm: bool,
    /// Runs only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Lists the steps
    #[arg(long)]
    list: bool,
}

/// Which command runs a step without being asked for it by name.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Test,
    Check,
    Both,
    /// Neither: only `--only` runs it.
    Name,
}

/// A row of the table.
struct Step {
    name: &'static str,
    /// One line for `--list`.
    about: &'static str,
    by: By,
    /// Debian packages that the step uses; it says itself which of its checks it skips without them.
    needs: &'static [&'static Need],
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "format", about: "rustfmt", by: By::Both, needs: &[], run: format },
    Step {
        name: "layers",
        about: "no circle of imports between the files of a crate",
        by: By::Both,
        needs: &[],
        run: || layers::run(&layers::Args::default()),
    },
    Step { name: "spelling", about: "typos in code and pages", by: By::Both, needs: &[], run: tools::spelling },
    Step {
        name: "probes",
        about: "ebpf/objects are built from ebpf/probes",
        by: By::Test,
        needs: &[],
        run: || ebpf::run(&ebpf::Args { check: true }),
    },
    Step {
        name: "console",
        about: "console/dist is built from console",
        by: By::Test,
        needs: &[],
        run: || console::run(console::Args { check: true, ..console::Args::default() }),
    },
    Step {
        name: "manifests",
        about: "deploy/kubernetes is rendered from the Helm chart",
        by: By::Test,
        needs: &[],
        run: || manifests::run(&manifests::Args { check: true }),
    },
    Step {
        name: "dependencies",
        about: "cargo deny: licenses, bans and sources of all crates",
        by: By::Test,
        needs: &[],
        run: tools::dependencies,
    },
    Step {
        name: "advisories",
        about: "cargo deny: known vulnerabilities, where their database can be fetched",
        by: By::Test,
        needs: &[],
        run: tools::advisories,
    },
    Step {
        name: "msrv",
        about: "no dependency needs a newer Rust than we promise",
        by: By::Test,
        needs: &[],
        run: msrv::check,
    },
    Step { name: "lints", about: "clippy, warnings are errors", by: By::Both, needs: &[], run: lints },
    Step {
        name: "unit-tests",
        about: "tests inside the crates, without the integration tests",
        by: By::Check,
        needs: &[],
        run: || must(cargo(&["test", "--workspace", "--locked", "--lib", "--bins", "--quiet"])),
    },
    Step {
        name: "tests",
        about: "all tests and doctests",
        by: By::Test,
        needs: &[
            &setup::PROMETHEUS,
            &setup::VICTORIA_METRICS,
            &setup::ALERTMANAGER,
            &setup::NETWORK,
            &setup::CURL,
            &setup::MANUAL,
            &setup::IBSIM,
            &setup::MPI,
        ],
        run: tests,
    },
    Step { name: "documentation", about: "rustdoc, warnings are errors", by: By::Test, needs: &[], run: documentation },
    Step {
        name: "pages",
        about: "commands, configuration and links of the documentation",
        by: By::Test,
        needs: &[],
        run: || docs::run(docs::Args::default()),
    },
    Step {
        name: "browser",
        about: "the console in chromium, with the demo's data; only by name, because it takes minutes and draws what a slow machine may not draw in time",
        by: By::Name,
        needs: &[],
        run: || console::run(console::Args { browser: true, ..console::Args::default() }),
    },
    Step {
        name: "compose",
        about: "deploy/compose, with our programs instead of containers",
        by: By::Test,
        needs: &[],
        run: compose,
    },
    Step {
        name: "packages",
        about: "Debian packages: built, checked and installed in a clean root",
        by: By::Test,
        needs: &[],
        run: packages,
    },
    Step {
        name: "chaos",
        about: "injected faults under a running fleet",
        by: By::Test,
        needs: &[],
        run: || chaos::run(&chaos::Args::short()),
    },
    Step {
        name: VM,
        about: "guests with real kernels",
        by: By::Test,
        needs: &[],
        run: || vm::run(vm::Args::default()),
    },
];

const VM: &str = "vm";

/// Runs all steps of `cargo xtask test`, or those that `--only` names; the first failure ends it.
///
/// # Errors
/// When a step fails or has no such name.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        STEPS.iter().for_each(|step| println!("{:<14} {}", step.name, step.about));
        return Ok(());
    }
    if let Some(unknown) = args.only.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no step `{unknown}`; the steps are {}", names.join(", "));
    }
    run_steps(|step| match args.only.is_empty() {
        true => matches!(step.by, By::Test | By::Both) && !(args.no_vm && step.name == VM),
        false => args.only.iter().any(|name| name == step.name),
    })
}

/// Runs the fast steps: `cargo xtask check`.
///
/// # Errors
/// When a step fails.
pub fn check() -> Result<()> {
    run_steps(|step| matches!(step.by, By::Check | By::Both))
}

fn run_steps(selected: impl Fn(&Step) -> bool) -> Result<()> {
    let mut steps = Steps::default();
    for step in STEPS.iter().filter(|step| selected(step)) {
        steps.run(step.name, || {
            step.needs.iter().try_for_each(|need| setup::ensure(need).map(drop))?;
            (step.run)()
        })?;
    }
    steps.summary();
    Ok(())
}

fn format() -> Result<()> {
    must(cargo(&["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    must(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]))
}

fn tests() -> Result<()> {
    setup::tracefs()?;
    needs::run()
}

fn documentation() -> Result<()> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    must(doc)
}

/// Checks the wiring of the compose file without containers, with the programs that `pages` has built.
fn compose() -> Result<()> {
    if !setup::ensure(&setup::JQ)? || !may_unshare() {
        skipped("deploy/compose is not tried, which needs root and jq; run sudo cargo xtask test --only compose");
        return Ok(());
    }
    crate::demo::build(None)?;
    let mut run = Command::new(root().join("tests/lab/compose/run"));
    run.arg(target()?.join("demo"));
    must(run)
}

fn packages() -> Result<()> {
    deb::run(&deb::Args { profile: "demo".to_owned(), reproducible: false, test: true, packages: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique_words() {
        for (i, step) in STEPS.iter().enumerate() {
            assert!(step.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", step.name);
            assert!(!STEPS[..i].iter().any(|other| other.name == step.name), "{}", step.name);
        }
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_names() {
        let args = Args { no_vm: false, only: vec!["lint".to_owned()], list: false };
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("no step `lint`") && error.contains("lints"), "{error}");
    }
}
