//! A guard against fitting: the main threshold of each detector is chosen on one half of the runs, without regard to its
//! default, and reported on the other half.

use super::score::Tally;
use super::sets::Set;
use super::trials::{Judged, Number, Run, Trials};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Factors of the default among which is chosen.
const GRID: [f64; 5] = [0.5, 0.7, 1.0, 1.4, 2.0];

/// Chooses on each half, and prints the results on both.
///
/// # Errors
/// When a simulation cannot be read or the back-test fails.
pub fn run(program: &Path, set: &Set, dirs: &[PathBuf], work: &Path) -> Result<()> {
    let trials = Trials::new(program, set, dirs, work)?;
    let numbers = Number::main()?;
    let halves = [trials.half(0), trials.half(1)];
    println!("\n| thresholds | first half | second half |\n|---|---|---|");
    let print = |name: &str, flags: &[String]| -> Result<()> {
        print!("| {name} |");
        for half in &halves {
            print!(" {} |", cells(&sum(&trials.judge(half, flags)?)));
        }
        println!();
        Ok(())
    };
    print("defaults", &[])?;
    for (half, name) in halves.iter().zip(["first", "second"]) {
        let flags = choose(&trials, half, &numbers)?;
        print(&format!("chosen on the {name} half"), &flags)?;
    }
    Ok(())
}

fn cells(sum: &Tally) -> String {
    let [kind, root, culprit] = sum.right.map(|n| 100.0 * n as f64 / sum.scored.max(1) as f64);
    format!("{kind:.0}, {root:.0}, {culprit:.0} %, F1 {:.2}, {} false", sum.victims_f1(), sum.wrong)
}

/// One threshold after the other, the factor with the best result, as flags. Prints each threshold that changes a result.
fn choose(trials: &Trials<'_>, half: &[&Run], numbers: &[Number]) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    let mut chosen = trials.judge(half, &flags)?;
    for number in numbers {
        let mut tried = try_all(trials, half, &chosen, (number, &flags))?;
        let values = tried.each_ref().map(|judged| value_of(&sum(judged)));
        let best = middle_of_best(&values);
        if values.iter().any(|value| *value != values[best]) {
            eprintln!("{} x {}, of {GRID:?} worth {values:.2?}", number.name, GRID[best]);
        }
        if GRID[best] != 1.0 {
            flags.extend(number.times(GRID[best]));
        }
        chosen = std::mem::take(&mut tried[best]);
    }
    Ok(flags)
}

/// The results of some runs with each factor of a threshold, of which those with factor 1 are known. A run of which the
/// smallest and the largest factor change nothing is not judged with those between.
fn try_all(
    trials: &Trials<'_>,
    runs: &[&Run],
    known: &[Judged],
    (number, flags): (&Number, &[String]),
) -> Result<[Vec<Judged>; GRID.len()]> {
    let last = GRID.len() - 1;
    let mut tried = GRID.map(|_| known.to_vec());
    for end in [0, last] {
        tried[end] = trials.judge_with(runs, known, (number, GRID[end]), flags)?;
    }
    let changes = |at: &usize| [0, last].iter().any(|end| !tried[*end][*at].tally.names_the_same(&known[*at].tally));
    let changed: Vec<usize> = (0..runs.len()).filter(changes).collect();
    let again: Vec<&Run> = changed.iter().map(|at| runs[*at]).collect();
    for middle in (1..last).filter(|middle| GRID[*middle] != 1.0 && !again.is_empty()) {
        let judged = trials.judge(&again, &[flags, &number.times(GRID[middle])].concat())?;
        for (at, judged) in changed.iter().zip(judged) {
            tried[middle][*at] = judged;
        }
    }
    Ok(tried)
}

fn sum(judged: &[Judged]) -> Tally {
    judged.iter().map(|judged| &judged.tally).collect()
}

/// What counts: each right kind, root and culprit as much as the victims of a fault; a false incident as much as a fault.
fn value_of(sum: &Tally) -> f64 {
    sum.right.iter().sum::<usize>() as f64 + sum.scored as f64 * sum.victims_f1() - 3.0 * sum.wrong as f64
}

/// The middle of the longest row of neighbours that are all best, for a threshold should stand far from any cliff.
fn middle_of_best(values: &[f64]) -> usize {
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut longest = 0..0;
    let mut from = 0;
    for at in 0..=values.len() {
        if at == values.len() || values[at] < best {
            if at - from > longest.len() {
                longest = from..at;
            }
            from = at + 1;
        }
    }
    (longest.start + longest.end - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::middle_of_best;

    #[test]
    fn a_threshold_stands_in_the_middle_of_what_is_best() {
        assert_eq!(middle_of_best(&[1.0; 5]), 2);
        assert_eq!(middle_of_best(&[1.0, 2.0, 2.0, 2.0, 1.0]), 2);
        assert_eq!(middle_of_best(&[2.0, 1.0, 2.0, 2.0, 2.0]), 3);
        assert_eq!(middle_of_best(&[0.0, 0.0, 0.0, 0.0, 1.0]), 4);
    }
}
