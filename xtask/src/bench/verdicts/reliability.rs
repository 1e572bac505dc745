//! Whether confidence means what it says: of incidents told with 90 %, nine in ten should be right.

use super::score::Tally;

/// Lower ends of the ranges of confidence.
const RANGES: [f64; 6] = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Prints how many of the incidents in each range of confidence were right, over several tallies.
pub fn print(tallies: &[(&str, Tally)]) {
    println!("\nconfidence of the incidents, and how many were right");
    println!("{:<26}{:>16}{:>12}{:>9}", "read", "confidence", "incidents", "right");
    for (name, tally) in tallies {
        for (at, from) in RANGES.iter().enumerate() {
            let to = RANGES.get(at + 1).copied().unwrap_or(f64::INFINITY);
            let of: Vec<bool> = tally
                .confidence
                .iter()
                .filter(|(sure, _)| (*from..to).contains(sure))
                .map(|(_, right)| *right)
                .collect();
            if of.is_empty() {
                continue;
            }
            let right = of.iter().filter(|right| **right).count();
            let range = format!("{:.0} to {:.0} %", from * 100.0, to.min(1.0) * 100.0);
            println!("{name:<26}{range:>16}{:>12}{:>7.0} %", of.len(), 100.0 * right as f64 / of.len() as f64);
        }
    }
}
