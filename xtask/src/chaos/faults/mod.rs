//! The faults: what is injected into the test bed, one row per fault in the file of its kind.

mod attacks;
mod clock;
mod devices;
mod floods;
mod insiders;
mod network;
mod processes;
mod resources;

use super::testbed::{TestBed, get};
use crate::random::Random;
use crate::sim::layout::host_name;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// A fault.
pub struct Fault {
    pub name: &'static str,
    /// Whether `cargo xtask test` injects it, too; `cargo xtask chaos` injects all.
    pub often: bool,
    /// Expected behavior, in addition to what always holds.
    pub expected: &'static str,
    /// Injects the fault for about the given time and removes it.
    pub inject: fn(&mut TestBed, &mut Random, Duration) -> Result<Outcome>,
}

/// Result of an injected fault.
#[derive(Default)]
pub struct Outcome {
    /// Observation for the table.
    pub observed: String,
    /// Hosts that could not sample, with begin and end in Unix seconds. Their gaps are no loss.
    pub unsampled: Vec<(usize, f64, f64)>,
    /// Why the fault cannot be injected on this machine.
    pub skipped: Option<String>,
}

impl Outcome {
    pub fn of(observed: impl Into<String>) -> Result<Self> {
        Ok(Self { observed: observed.into(), ..Self::default() })
    }

    fn unsampled(observed: String, unsampled: Vec<(usize, f64, f64)>) -> Result<Self> {
        Ok(Self { observed, unsampled, skipped: None })
    }

    fn skipped(why: &str) -> Result<Self> {
        Ok(Self { skipped: Some(why.to_owned()), ..Self::default() })
    }
}

/// Every fault, in the order of a short run.
pub fn all() -> impl Iterator<Item = &'static Fault> {
    [
        processes::FAULTS,
        network::FAULTS,
        resources::FAULTS,
        clock::FAULTS,
        devices::FAULTS,
        attacks::FAULTS,
        floods::FAULTS,
        insiders::FAULTS,
    ]
    .into_iter()
    .flatten()
}

/// Waits until `/healthz` of every agent has a reason with `words`.
fn agents_report(bed: &TestBed, words: &str, timeout: Duration) -> Result<String> {
    (0..bed.agents.len()).try_for_each(|host| wait_for(timeout, || agent_reports(bed, host, words)).map(|_| ()))?;
    agent_reports(bed, 0, words)
}

fn agent_reports(bed: &TestBed, host: usize, words: &str) -> Result<String> {
    let (_, text) = get(&format!("http://127.0.0.1:{}/healthz", bed.agent_ports[host]))?;
    let health: serde_json::Value = serde_json::from_str(&text)?;
    let reasons = health["reasons"].as_array().into_iter().flatten().filter_map(|one| one.as_str());
    let found = reasons.into_iter().find(|one| one.contains(words)).map(str::to_owned);
    found.with_context(|| format!("/healthz of {} has no reason \"{words}\": {text}", host_name(host)))
}

pub fn wait_for<T>(timeout: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match look() {
            Err(_) if begin.elapsed() < timeout => std::thread::sleep(Duration::from_millis(100)),
            end => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::all;
    use std::collections::BTreeSet;

    /// Head of the table of a run.
    const HEAD: &str = "| fault | expected | observed |";

    #[test]
    fn documentation_has_a_row_for_each_fault() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/resilience.md");
        let text = std::fs::read_to_string(path).expect("the page of the faults");
        let rows =
            text.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2).take_while(|line| line.starts_with('|'));
        let columns = |row: &str| row.split('|').skip(1).take(2).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let told: BTreeSet<Vec<String>> = rows.map(columns).collect();
        let wanted: BTreeSet<Vec<String>> =
            all().map(|fault| vec![fault.name.to_owned(), fault.expected.to_owned()]).collect();
        // Without a fault nothing is expected that is not always so.
        assert_eq!(told, wanted);
    }
}
