//! Runs all tests of the workspace whose needs are met, and tells which are not.
//!
//! Many tests wait for a program or for time to pass, so several programs run at a time, unlike with `cargo test`. Each runs the tests
//! that need nothing, then the ignored ones whose need is met: libtest prints the reason of each ignored test in the first run.

mod outcome;
mod programs;

use crate::needs::missing;
use crate::steps::{cargo, must, output};
use crate::summary::note;
use anyhow::{Context as _, Result, ensure};
use outcome::Outcome;
use programs::Program;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Counts of all programs.
#[derive(Default)]
struct Tally {
    passed: usize,
    helpers: usize,
    /// Tests that ran, by need.
    met: BTreeMap<String, usize>,
    /// Tests that did not run, by need, and what is missing.
    unmet: BTreeMap<String, (usize, String)>,
    /// What went wrong, a line for each program.
    wrong: Vec<String>,
}

/// Builds and runs the tests and doctests. All run, so that one call shows all failures.
///
/// # Errors
/// When a test fails, an ignored test has an unknown need, or a test with a met need did not run.
pub fn run() -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(Program::all()?.into_iter());
    let tally = Mutex::new(Tally::default());
    let lane = || {
        while let Some(program) = next(&queue) {
            let begin = Instant::now();
            let (text, wrong) = match run_one(&program, &tally, 2 * processors) {
                Ok(text) => (text, None),
                Err(error) => ("failed; see the end".to_owned(), Some(format!("{}: {error:#}", program.name))),
            };
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            println!("=== {}: {:.1} s\n{text}", program.name, begin.elapsed().as_secs_f64());
            tally.wrong.extend(wrong);
        }
    };
    std::thread::scope(|scope| (0..processors).for_each(|_| _ = scope.spawn(lane)));
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let doctests = must(cargo(&["test", "--workspace", "--locked", "--doc", "--no-fail-fast", "--quiet"]));
    ensure!(tally.wrong.is_empty(), "{} test programs failed:\n{}", tally.wrong.len(), tally.wrong.join("\n"));
    doctests?;
    note(format!("{:6} run      without needs", tally.passed));
    tally.met.iter().for_each(|(need, count)| note(format!("{count:6} run      {need}")));
    tally.unmet.iter().for_each(|(need, (count, why))| note(format!("{count:6} skipped  {need}: {why}")));
    println!("{} ignored functions are tools or helper processes, not tests", tally.helpers);
    Ok(())
}

fn next(queue: &Mutex<std::vec::IntoIter<Program>>) -> Option<Program> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Runs the tests of a program and counts them; gives what it printed.
fn run_one(program: &Program, tally: &Mutex<Tally>, threads: usize) -> Result<String> {
    let call = |args: &[&str]| {
        let mut command = program.command(args);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        output(command)
    };
    let mut text = call(&[])?;
    let first = Outcome::of(&text)?;
    let (mut met, mut unmet) = (Vec::new(), Vec::new());
    for (test, needs) in &first.ignored {
        match missing(needs).with_context(|| format!("test {test}"))? {
            None => met.push((test.as_str(), needs)),
            Some(why) => unmet.push((needs, why)),
        }
    }
    if !met.is_empty() {
        let names = met.iter().map(|(test, _)| *test);
        let second = call(&["--ignored", "--exact"].into_iter().chain(names).collect::<Vec<_>>())?;
        let passed = Outcome::of(&second)?.passed;
        ensure!(passed == met.len(), "{passed} tests with a met need ran, not {}", met.len());
        text = format!("{text}\n{second}");
    }
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.passed += first.passed;
    tally.helpers += first.helpers;
    met.into_iter().for_each(|(_, needs)| *tally.met.entry(needs.clone()).or_default() += 1);
    unmet.into_iter().for_each(|(needs, why)| tally.unmet.entry(needs.clone()).or_insert((0, why)).0 += 1);
    Ok(text)
}
