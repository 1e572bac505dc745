//! The table of the steps, in the order in which they fail fastest.

use crate::setup::{self, Need};
use crate::steps::{cargo, may_unshare, must, root};
use crate::summary::skipped;
use crate::{chaos, console, deb, docs, ebpf, layers, libtest, manifests, msrv, programs, tools, vm};
use anyhow::Result;
use std::process::Command;

/// Which command runs a step without being asked for it by name.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    Test,
    /// `test`, unless the guests are left out.
    Guests,
    Check,
    Both,
}

/// A row of the table.
pub struct Step {
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    pub by: By,
    /// Debian packages that the step uses; it says itself which of its checks it skips without them.
    pub needs: &'static [&'static Need],
    /// Only compiles: runs beside the steps that run in turn, if all steps run.
    pub beside: bool,
    pub run: fn() -> Result<()>,
}

pub const STEPS: &[Step] = &[
    Step { name: "format", about: "rustfmt", by: By::Both, needs: &[], beside: false, run: format },
    Step {
        name: "layers",
        about: "no circle of imports between the files of a crate",
        by: By::Both,
        needs: &[],
        beside: false,
        run: || layers::run(&layers::Args::default()),
    },
    Step {
        name: "spelling",
        about: "typos in code and pages",
        by: By::Both,
        needs: &[],
        beside: false,
        run: tools::spelling,
    },
    Step {
        name: "probes",
        about: "ebpf/objects are built from ebpf/probes",
        by: By::Test,
        needs: &[],
        beside: false,
        run: || ebpf::run(&ebpf::Args { check: true }),
    },
    Step {
        name: "console",
        about: "console/dist is built from console",
        by: By::Test,
        needs: &[],
        beside: false,
        run: || console::run(console::Args { check: true, ..console::Args::default() }),
    },
    Step {
        name: "manifests",
        about: "deploy/kubernetes is rendered from the Helm chart",
        by: By::Test,
        needs: &[],
        beside: false,
        run: || manifests::run(&manifests::Args { check: true }),
    },
    Step {
        name: "dependencies",
        about: "cargo deny: licenses, bans and sources of all crates",
        by: By::Test,
        needs: &[],
        beside: false,
        run: tools::dependencies,
    },
    Step {
        name: "advisories",
        about: "cargo deny: known vulnerabilities, where their database can be fetched",
        by: By::Test,
        needs: &[],
        beside: false,
        run: tools::advisories,
    },
    Step {
        name: "msrv",
        about: "no dependency needs a newer Rust than we promise",
        by: By::Test,
        needs: &[],
        beside: false,
        run: msrv::check,
    },
    Step {
        name: "guest-programs",
        about: "static programs of the guests",
        by: By::Guests,
        needs: &[&vm::QEMU, &vm::MAKE, &vm::MUSL],
        beside: true,
        run: vm::guest_programs,
    },
    Step { name: "lints", about: "clippy, warnings are errors", by: By::Both, needs: &[], beside: true, run: lints },
    Step {
        name: "unit-tests",
        about: "tests inside the crates, without the integration tests",
        by: By::Check,
        needs: &[],
        beside: false,
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
        beside: false,
        run: tests,
    },
    Step {
        name: "documentation",
        about: "rustdoc, warnings are errors",
        by: By::Test,
        needs: &[],
        beside: true,
        run: documentation,
    },
    Step {
        name: "pages",
        about: "commands, configuration and links of the documentation",
        by: By::Test,
        needs: &[],
        beside: false,
        run: || docs::run(docs::Args::default()),
    },
    Step {
        name: "browser",
        about: "the console in chromium, with the demo's data, an empty store and tokens",
        by: By::Test,
        needs: &[],
        beside: false,
        run: || console::run(console::Args { browser: true, ..console::Args::default() }),
    },
    Step {
        name: "compose",
        about: "deploy/compose, with our programs instead of containers",
        by: By::Test,
        needs: &[],
        beside: false,
        run: compose,
    },
    Step {
        name: "packages",
        about: "Debian packages: built, checked and installed in a clean root",
        by: By::Test,
        needs: &[],
        beside: false,
        run: packages,
    },
    Step {
        name: "chaos",
        about: "injected faults under a running fleet",
        by: By::Test,
        needs: &[],
        beside: false,
        run: || chaos::run(&chaos::Args::short(programs::of_tests()?)),
    },
    Step {
        name: "vm",
        about: "guests with real kernels",
        by: By::Guests,
        needs: &[],
        beside: false,
        run: || vm::run(vm::Args::default()),
    },
];

fn format() -> Result<()> {
    must(cargo(&["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    must(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]))
}

fn tests() -> Result<()> {
    setup::tracefs()?;
    libtest::run()
}

fn documentation() -> Result<()> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    must(doc)
}

/// Checks the wiring of the compose file without containers, with the programs that the tests have built.
fn compose() -> Result<()> {
    if !setup::ensure(&setup::JQ)? || !may_unshare() {
        skipped("deploy/compose is not tried, which needs root and jq; run sudo cargo xtask test --only compose");
        return Ok(());
    }
    let mut run = Command::new(root().join("tests/lab/compose/run"));
    run.arg(programs::of_tests()?);
    must(run)
}

fn packages() -> Result<()> {
    deb::run(&deb::Args { test: true, programs: Some(programs::of_tests()?), ..deb::Args::default() })
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
}
