//! A guard against fitting: the main threshold of each detector is chosen on one half of the runs, without regard to its
//! default, and reported on the other half.

use super::score::Tally;
use super::sets::Set;
use super::trials::{Number, Run, Trials};
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
            print!(" {} |", cells(&trials.judge(half, flags)?.iter().collect()));
        }
        println!();
        Ok(())
    };
    print("defaults", &[])?;
    for (half, name) in halves.iter().zip(["first", "second"]) {
        let (flags, moved) = choose(&trials, half, &numbers)?;
        print(&format!("chosen on the {name} half"), &flags)?;
        eprintln!("chosen on the {name} half, other than the default: {}", moved.join(", "));
    }
    Ok(())
}

fn cells(sum: &Tally) -> String {
    let [kind, root, culprit] = sum.right.map(|n| 100.0 * n as f64 / sum.scored.max(1) as f64);
    format!("{kind:.0}, {root:.0}, {culprit:.0} %, F1 {:.2}, {} false", sum.victims_f1(), sum.wrong)
}

/// One threshold after the other, the factor with the best result; flags, and the factors that are not 1.
fn choose(trials: &Trials<'_>, half: &[&Run], numbers: &[Number]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut flags, mut moved) = (Vec::new(), Vec::new());
    for number in numbers {
        let mut values = [0.0; GRID.len()];
        for (value, factor) in values.iter_mut().zip(GRID) {
            let tried = [&flags[..], &number.times(factor)].concat();
            *value = value_of(&trials.judge(half, &tried)?.iter().collect());
        }
        let factor = GRID[middle_of_best(&values)];
        flags.extend(number.times(factor));
        if factor != 1.0 {
            moved.push(format!("{} x {factor}", number.name));
        }
    }
    Ok((flags, moved))
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
