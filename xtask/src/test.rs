//! `cargo xtask test`: everything that CI runs, in the order in which it fails fastest.

use crate::steps::{Steps, cargo, may_unshare, must, root, skipped, target};
use crate::{chaos, deb, docs, ebpf, manifests, needs, release, setup, vm};
use anyhow::Result;
use std::process::Command;

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Leaves out the guests with real kernels
    #[arg(long)]
    no_vm: bool,
}

/// Runs every step; the first failure ends it.
pub fn run(args: Args) -> Result<()> {
    let mut steps = Steps::default();
    let warnings_are_errors = |args: &[&str]| {
        let mut c = cargo(args);
        c.env("RUSTDOCFLAGS", "-D warnings");
        c
    };
    steps.run("packages", || {
        use setup::{ALERTMANAGER, CURL, MANUAL, NETWORK, PROMETHEUS, VICTORIA_METRICS};
        [PROMETHEUS, VICTORIA_METRICS, ALERTMANAGER, NETWORK, CURL, MANUAL]
            .iter()
            .try_for_each(|need| setup::ensure(need).map(drop))
    })?;
    steps.run("tracefs", setup::tracefs)?;
    steps.run("probes", || ebpf::run(&ebpf::Args { check: true }))?;
    steps.run("manifests", || manifests::run(&manifests::Args { check: true }))?;
    steps.run("licences", release::may_be_linked)?;
    steps.run("format", || must(cargo(&["fmt", "--all", "--check"])))?;
    steps.run("lints", || {
        must(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
    })?;
    steps.run("tests", needs::run)?;
    steps.run("documentation", || must(warnings_are_errors(&["doc", "--workspace", "--no-deps", "--locked"])))?;
    steps.run("pages", || docs::run(docs::Args::default()))?;
    steps.run("compose", compose)?;
    let packages = deb::Args { profile: "demo".to_owned(), reproducible: false, test: true, packages: None };
    steps.run("debian packages", || deb::run(&packages))?;
    steps.run("chaos", || chaos::run(&chaos::Args::short()))?;
    if !args.no_vm {
        steps.run("real kernels", || vm::run(vm::Args::default()))?;
    }
    steps.summary();
    Ok(())
}

/// What the compose file wires together, without containers: the programs are those that the pages were run with.
fn compose() -> Result<()> {
    if !setup::ensure(&setup::JQ)? || !may_unshare() {
        skipped("deploy/compose is not tried, which needs root and jq");
        return Ok(());
    }
    let mut run = Command::new(root().join("tests/lab/compose/run"));
    run.arg(target()?.join("demo"));
    must(run)
}
