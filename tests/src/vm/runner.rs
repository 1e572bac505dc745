//! Runs scenarios: two at a time, because most of a scenario is waiting for samples, then one by one those that must be alone.

use super::lab::{Lab, Prepared, Programs};
use super::{ALL, Scenario};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Scenarios that run at once.
const LANES: usize = 2;

/// Runs the scenarios called `names`; if `names` is empty, those whose rows say `often`.
///
/// # Errors
/// When a name is unknown, the guest cannot be built or a scenario fails twice; the others still run.
pub fn run(names: &[String], cache: &Path, programs: &Programs) -> Result<()> {
    for name in names {
        ensure!(
            ALL.iter().any(|scenario| scenario.name == name),
            "no scenario {name}; there are: {}",
            ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ")
        );
    }
    let is_chosen = |scenario: &&Scenario| match names {
        [] => scenario.often,
        names => names.iter().any(|name| name == scenario.name),
    };
    let (alone, beside): (Vec<_>, Vec<_>) = ALL.iter().filter(is_chosen).partition(|scenario| scenario.alone);
    let count = alone.len() + beside.len();
    let start = Instant::now();
    let image = Lab::prepare(cache, programs).context("building the guest")?;
    println!("guest: Linux {}, ready after {:.1} s", image.release(), start.elapsed().as_secs_f64());
    let mut failed = side_by_side(&image, &beside);
    failed.extend(alone.into_iter().filter(|scenario| !passes(&image, scenario)));
    // Emulated guests on a busy machine can miss deadlines: a second try separates a slow machine from a defect.
    let failed: Vec<&str> =
        failed.into_iter().filter(|scenario| !passes(&image, scenario)).map(|scenario| scenario.name).collect();
    println!("{} of {count} scenarios passed in {:.0} s", count - failed.len(), start.elapsed().as_secs_f64());
    ensure!(failed.is_empty(), "failed twice: {}", failed.join(", "));
    Ok(())
}

/// Runs scenarios, [`LANES`] at a time, in their order; those that failed.
fn side_by_side<'a>(image: &Prepared, scenarios: &[&'a Scenario]) -> Vec<&'a Scenario> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !passes(image, scenario) {
                        failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(*scenario);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs a scenario and prints its result.
fn passes(image: &Prepared, scenario: &Scenario) -> bool {
    println!("{}: {}", scenario.name, scenario.shows);
    let start = Instant::now();
    let done = image.open(scenario).and_then(|lab| {
        (scenario.run)(&lab).with_context(|| format!("files of the run: {}", lab.keep().display()))?;
        lab.discard()
    });
    let seconds = start.elapsed().as_secs_f64();
    match &done {
        Ok(()) => println!("{}: pass in {seconds:.1} s", scenario.name),
        Err(error) => println!("{}: FAIL in {seconds:.1} s: {error:#}", scenario.name),
    }
    done.is_ok()
}
