//! Sensitivity of the verdicts to each detector's main threshold: all runs again with a quarter less and a quarter more.

use super::degrade::{self, Mode};
use super::ground_truth::Truth;
use super::score::Tally;
use super::sets::{Judge, Set};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Page that lists all thresholds; a test of the detectors keeps it current.
const PAGE: &str = "docs/verdicts.md";
const FACTORS: [f64; 2] = [0.75, 1.25];

/// Result of all runs with one threshold changed.
#[derive(Default)]
struct Row {
    tally: Tally,
    /// Runs with another answer than with the defaults.
    changed: usize,
}

/// First threshold of each detector, which decides whether it looks any further, and its default.
fn main_numbers(root: &Path) -> Result<Vec<(String, f64)>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let mut found: Vec<(String, f64)> = Vec::new();
    for line in page.lines() {
        let mut cells = line.trim_start_matches("| `").split(" | ");
        let (Some(name), Some(Ok(default))) = (cells.next(), cells.next().map(str::parse)) else { continue };
        let Some((name, detector)) = name.strip_suffix('`').and_then(|n| Some((n, n.split_once('.')?.0))) else {
            continue;
        };
        if !found.iter().any(|(n, _)| n.split('.').next() == Some(detector)) {
            found.push((name.to_owned(), default));
        }
    }
    ensure!(!found.is_empty(), "{PAGE} lists no numbers; is its table still there?");
    Ok(found)
}

/// Judges all runs with complete input and prints a row for each threshold.
///
/// # Errors
/// When a simulation cannot be read or the back-test fails.
pub fn run(program: &Path, set: &Set, dirs: &[PathBuf], work: &Path) -> Result<()> {
    let numbers = main_numbers(&crate::steps::root())?;
    let mut rows: Vec<[Row; 2]> = numbers.iter().map(|_| Default::default()).collect();
    let mut defaults = Tally::default();
    for dir in dirs {
        let truth = Truth::read(dir, set.stretch())?;
        let port_seconds = degrade::prepare(dir, work, &Mode::ALL_PORTS, &truth)?;
        let judge = |tally: &mut Tally, flags: &[String]| -> Result<_> {
            let mut own = Tally::default();
            let answer = super::ask(program, set, work, flags)?;
            for tally in [&mut own, tally] {
                match set.judge {
                    Judge::Faults => _ = tally.add(&truth, &answer.incidents, 1, port_seconds),
                    Judge::Life => _ = super::life::add(tally, dir, &truth, &answer.incidents, port_seconds)?,
                }
            }
            Ok((own.right, own.wrong, own.quiet, own.confusion))
        };
        let before = judge(&mut defaults, &[])?;
        for ((name, default), row) in numbers.iter().zip(&mut rows) {
            for (factor, row) in FACTORS.iter().zip(row) {
                let flags = ["--threshold".to_owned(), format!("{name}={}", default * factor)];
                row.changed += usize::from(judge(&mut row.tally, &flags)? != before);
            }
        }
        std::fs::remove_dir_all(work).ok();
    }
    print(&defaults, &numbers, &rows);
    Ok(())
}

fn print(defaults: &Tally, numbers: &[(String, f64)], rows: &[[Row; 2]]) {
    let cells = |t: &Tally, changed: usize| {
        let [kind, root, _] = t.right.map(|n| format!("{:.0} %", 100.0 * n as f64 / t.scored.max(1) as f64));
        format!("{kind}, {root}, {} false, {changed}", t.wrong)
    };
    println!("\nkind, root, false incidents, runs of {} of which something else is said", defaults.runs);
    println!("with the defaults: {}", cells(defaults, 0));
    println!("| number | default | a quarter less | a quarter more |\n|---|---|---|---|");
    for ((name, default), [less, more]) in numbers.iter().zip(rows) {
        println!(
            "| `{name}` | {default} | {} | {} |",
            cells(&less.tally, less.changed),
            cells(&more.tally, more.changed)
        );
    }
}
