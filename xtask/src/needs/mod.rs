//! The tests step: runs the tests that need nothing, then the ignored ones whose need is met, and reports both.
//!
//! A test that needs more than the repository says so: `#[ignore = "needs: prometheus"]`, or several names with commas.
//! Run without it, such a test fails. libtest prints the reason of each ignored test, which is read here.

mod probe;

use crate::steps::cargo;
use crate::summary::note;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// Something outside the repository that a test needs.
struct Need {
    /// The name in the ignore reason.
    name: &'static str,
    /// The error says what is missing and how to get it.
    probe: fn() -> Result<()>,
}

const NEEDS: &[Need] = &[
    Need { name: "alertmanager", probe: || probe::programs(&["prometheus-alertmanager"], "prometheus-alertmanager") },
    Need { name: "bpf", probe: probe::bpf },
    Need { name: "btf", probe: || probe::exists("/sys/kernel/btf/vmlinux".as_ref(), "boot a kernel with BTF") },
    Need { name: "cgroup2", probe: probe::cgroup2 },
    Need { name: "curl", probe: || probe::programs(&["curl"], "curl") },
    Need {
        name: "ibsim",
        probe: || probe::programs(fabriclens_testing::ibsim::PROGRAMS, fabriclens_testing::ibsim::PACKAGES),
    },
    Need {
        name: "infiniband-simulations",
        probe: || {
            let why = "set FABRICLENS_SCENARIOS_IB to a set of simulations";
            probe::exists(&fabriclens_testing::infiniband_simulations(), why)
        },
    },
    Need { name: "kernel-log", probe: probe::kernel_log },
    Need { name: "landlock", probe: || probe::kernel(6, 7) },
    Need {
        name: "libibverbs-dev",
        probe: || {
            probe::programs(&["cc"], "gcc")?;
            probe::exists("/usr/include/infiniband/verbs.h".as_ref(), "apt-get install libibverbs-dev")
        },
    },
    Need { name: "linux-5.13", probe: || probe::kernel(5, 13) },
    Need { name: "manual", probe: || probe::programs(&["man", "zsh", "fish"], "man-db zsh fish") },
    Need { name: "mount", probe: probe::mount },
    Need {
        name: "mpi",
        probe: || probe::programs(fabriclens_testing::mpi::Mpi::PROGRAMS, fabriclens_testing::mpi::Mpi::PACKAGES),
    },
    Need { name: "network-namespaces", probe: probe::network_namespaces },
    Need { name: "prometheus", probe: || probe::programs(&["prometheus", "promtool"], "prometheus") },
    Need {
        name: "prometheus-scripts",
        probe: || {
            let why = "set FABRICLENS_PROMQLTEST to a folder of scripts";
            probe::exists(&fabriclens_testing::prometheus_scripts(), why)
        },
    },
    Need { name: "pygnmi", probe: probe::pygnmi },
    Need {
        name: "recordings",
        probe: || probe::exists(&fabriclens_testing::recordings(), "set FABRICLENS_FIXTURES to a collection"),
    },
    Need {
        name: "reference",
        probe: || probe::exists(&fabriclens_testing::reference(), "set FABRICLENS_REFERENCE to the counter lists"),
    },
    Need {
        name: "simulations",
        probe: || probe::exists(&fabriclens_testing::simulations(), "set FABRICLENS_SCENARIOS to a set of simulations"),
    },
    Need { name: "tcx", probe: || probe::bpf().and_then(|()| probe::kernel(6, 6)) },
    Need { name: "user-namespaces", probe: probe::user_namespaces },
    Need { name: "victoria-metrics", probe: || probe::programs(&["victoria-metrics", "vmalert"], "victoria-metrics") },
];

/// What a run of `cargo test` printed of its tests.
#[derive(Default)]
struct Outcome {
    passed: usize,
    /// Name and needs of each test that was ignored for a need.
    ignored: Vec<(String, String)>,
}

/// Runs all tests of the workspace whose needs are met.
///
/// # Errors
/// When a test fails, an ignored test has an unknown need, or a test with a met need did not run.
pub fn run() -> Result<()> {
    let first = pass(&[])?;
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unmet: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let mut names = Vec::new();
    for (test, needs) in &first.ignored {
        match missing(needs).with_context(|| format!("test {test}"))? {
            None => {
                names.push(test.as_str());
                *met.entry(needs).or_default() += 1;
            }
            Some(why) => unmet.entry(needs).or_insert((0, why)).0 += 1,
        }
    }
    if !names.is_empty() {
        let mut args = vec!["--lib", "--bins", "--tests", "--", "--ignored", "--exact"];
        args.extend(&names);
        let second = pass(&args)?;
        ensure!(second.passed == names.len(), "{} tests with a met need ran, not {}", second.passed, names.len());
    }
    note(format!("{:6} run      without needs", first.passed));
    met.iter().for_each(|(need, count)| note(format!("{count:6} run      {need}")));
    unmet.iter().for_each(|(need, (count, why))| note(format!("{count:6} skipped  {need}: {why}")));
    Ok(())
}

/// Why the first unmet one of these needs is not met.
fn missing(needs: &str) -> Result<Option<String>> {
    for name in needs.split(',').map(str::trim) {
        let need = NEEDS.iter().find(|need| need.name == name);
        let need = need.with_context(|| format!("unknown need `{name}`; add it to xtask/src/needs"))?;
        if let Err(why) = (need.probe)() {
            return Ok(Some(format!("{why:#}")));
        }
    }
    Ok(None)
}

/// Tests that libtest runs at once. Many wait for a program or for time to pass, so there are more of them than processors.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `cargo test` with more arguments, prints what it prints, and counts. All tests run, so that one run shows all failures.
fn pass(more: &[&str]) -> Result<Outcome> {
    let mut test = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        test.env("RUST_TEST_THREADS", threads().to_string());
    }
    let mut child = test.args(more).stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let mut outcome = Outcome::default();
    let mut ignored = 0;
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        println!("{line}");
        outcome.add(&line);
        ignored += counted(&line, " ignored;");
    }
    let status = child.wait()?;
    ensure!(status.success(), "cargo test ended with {status}");
    let helpers = ignored.saturating_sub(outcome.ignored.len());
    if more.is_empty() && ignored < outcome.ignored.len() {
        bail!("{} tests were ignored by their reasons, but {ignored} by the summaries", outcome.ignored.len());
    }
    if more.is_empty() && helpers > 0 {
        println!("{helpers} ignored functions are tools or helper processes, not tests");
    }
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, line: &str) {
        if let Some((test, needs)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored, needs: "))
        {
            let test = test.trim_end_matches(" - should panic");
            self.ignored.push((test.to_owned(), needs.trim().to_owned()));
        }
        self.passed += counted(line, " passed;");
    }
}

/// The number before `word` in a summary line of libtest.
fn counted(line: &str, word: &str) -> usize {
    let number = || line.strip_prefix("test result: ")?.split_once(word)?.0.rsplit(' ').next()?.parse().ok();
    number().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_libtest_is_understood() {
        let mut outcome = Outcome::default();
        for line in [
            "test a::b ... ignored, needs: prometheus, curl",
            "test kill::child ... ignored, helper process of survives_kills",
            "test c ... ok",
            "test result: ok. 12 passed; 0 failed; 2 ignored; 0 measured; 3 filtered out; finished in 0.02s",
        ] {
            outcome.add(line);
        }
        assert_eq!(outcome.passed, 12);
        assert_eq!(outcome.ignored, [("a::b".to_owned(), "prometheus, curl".to_owned())]);
        assert!(missing("no-such-need").is_err());
    }
}
