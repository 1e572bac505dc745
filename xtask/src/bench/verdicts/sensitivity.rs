//! Sensitivity of the verdicts to each detector's main threshold: all runs again with a quarter less and a quarter more.

use super::score::Tally;
use super::sets::Set;
use super::trials::{Judged, Number, Trials};
use anyhow::Result;
use std::path::{Path, PathBuf};

const FACTORS: [f64; 2] = [0.75, 1.25];

/// Judges all runs with complete input and prints a row for each threshold.
///
/// # Errors
/// When a simulation cannot be read or the back-test fails.
pub fn run(program: &Path, set: &Set, dirs: &[PathBuf], work: &Path) -> Result<()> {
    let trials = Trials::new(program, set, dirs, work)?;
    let runs = trials.all();
    let usual = trials.judge(&runs, &[])?;
    println!("\nkind, root, false incidents, runs of {} of which something else is said", runs.len());
    let cells = |judged: &[Judged]| {
        let changed = judged.iter().zip(&usual).filter(|(now, usual)| !now.tally.names_the_same(&usual.tally)).count();
        let sum: Tally = judged.iter().map(|judged| &judged.tally).collect();
        let [kind, root, _] = sum.right.map(|n| format!("{:.0} %", 100.0 * n as f64 / sum.scored.max(1) as f64));
        format!("{kind}, {root}, {} false, {changed}", sum.wrong)
    };
    println!("with the defaults: {}", cells(&usual));
    println!("| number | default | a quarter less | a quarter more |\n|---|---|---|---|");
    for number in Number::main()? {
        print!("| `{}` | {} |", number.name, number.default);
        for factor in FACTORS {
            print!(" {} |", cells(&trials.judge_with(&runs, &usual, (&number, factor), &[])?));
        }
        println!();
    }
    Ok(())
}
