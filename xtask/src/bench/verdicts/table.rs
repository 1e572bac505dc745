//! Tables of `bench verdicts`, as docs/verdicts.md shows them.

use super::reliability;
use super::score::{NOTHING, Tally, is_right};
use super::sets::{Judge, Set};
use std::collections::BTreeSet;

/// Prints a row per mode, the false incidents by kind, the reliability of confidence, and the confusion matrix of each mode.
pub fn print(set: &Set, tallies: &[(&str, Tally)]) {
    println!(
        "\n{:<26}{:>6}{:>8}{:>7}{:>7}{:>9}{:>12}{:>7}{:>14}{:>16}{:>9}",
        "read",
        "runs",
        "scored",
        "kind",
        "root",
        "culprit",
        "victims F1",
        "false",
        "a port-day",
        "samples, median",
        "90 %"
    );
    for (name, t) in tallies {
        let share = |n: usize| format!("{:.0} %", 100.0 * n as f64 / t.scored.max(1) as f64);
        let [kind, root, culprit] = t.right.map(share);
        println!(
            "{name:<26}{:>6}{:>8}{kind:>7}{root:>7}{culprit:>9}{:>12.2}{:>7}{:>14.3}{:>16.0}{:>9.0}",
            t.runs,
            t.scored,
            t.victims_f1(),
            t.wrong,
            t.wrong as f64 / t.port_days,
            t.late(0.5),
            t.late(0.9)
        );
    }
    for (name, tally) in tallies.iter().filter(|(_, tally)| set.judge == Judge::Life || tally.wrong > 0) {
        let kinds: Vec<String> = tally.false_kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let rate = 1000.0 * tally.wrong as f64 / tally.host_weeks;
        let week = if set.judge == Judge::Life {
            format!(", {rate:.0} per 1,000 hosts and week; {} true of ordinary events", tally.fair)
        } else {
            String::new()
        };
        println!("{name}: {} false ({}){week}", tally.wrong, kinds.join(", "));
    }
    reliability::print(tallies);
    for (name, tally) in tallies {
        matrix(name, tally);
    }
}

/// Confusion matrix: a row per true kind, a column per answered kind.
fn matrix(name: &str, tally: &Tally) {
    let truths: BTreeSet<&str> = tally.confusion.keys().map(|(truth, _)| truth.as_str()).collect();
    let answers: BTreeSet<&str> = tally.confusion.keys().map(|(_, answer)| answer.as_str()).collect();
    println!("\n{name}: what was, and what was said (harmless faults that were left unnamed: {})", tally.quiet);
    print!("{:<18}", "");
    answers.iter().for_each(|a| print!("{a:>19}"));
    println!("{:>9}", "recall");
    let count =
        |truth: &str, answer: &str| tally.confusion.get(&(truth.to_owned(), answer.to_owned())).copied().unwrap_or(0);
    let right = |truth: &str, answer: &str| is_right(truth, answer) || (is_calm(truth) && answer == NOTHING);
    for truth in &truths {
        print!("{truth:<18}");
        let all: usize = answers.iter().map(|a| count(truth, a)).sum();
        let hit: usize = answers.iter().filter(|a| right(truth, a)).map(|a| count(truth, a)).sum();
        answers.iter().for_each(|a| print!("{:>19}", dot(count(truth, a))));
        println!("{:>7.0} %", 100.0 * hit as f64 / all.max(1) as f64);
    }
    print!("{:<18}", "precision");
    for answer in &answers {
        let all: usize = truths.iter().map(|t| count(t, answer)).sum();
        let hit: usize = truths.iter().filter(|t| right(t, answer)).map(|t| count(t, answer)).sum();
        print!("{:>17.0} %", 100.0 * hit as f64 / all.max(1) as f64);
    }
    println!();
}

fn is_calm(truth: &str) -> bool {
    truth == "healthy" || truth == "busy"
}

fn dot(n: usize) -> String {
    if n == 0 { "·".to_owned() } else { n.to_string() }
}
