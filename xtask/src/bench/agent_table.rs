//! The table of `bench agent`: figures, ratios to node_exporter, and goals.

use super::judged;
use super::scrape::Busy;
use super::syscalls::Calls;
use crate::process::Size;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const MB: f64 = 1e6;

/// One row of the table.
pub struct Figure {
    /// Row name.
    pub name: &'static str,
    /// Counters read per second.
    pub counters: f64,
    /// CPU microseconds per second.
    pub cpu_us: f64,
    /// Memory and threads at the end.
    pub size: Size,
    /// System calls; none if they could not be counted.
    pub calls: Option<Calls>,
}

/// Prints all rows. The first is the agent and the second node_exporter, both scraped each second.
pub fn print(figures: &[Figure]) {
    println!(
        "\n{:<36}{:>11}{:>11}{:>12}{:>9}{:>9}{:>9}{:>9}{:>10}",
        "a second of", "counters", "CPU", "CPU/counter", "core", "RSS", "no file", "threads", "calls"
    );
    for f in figures {
        println!(
            "{:<36}{:>11.0}{:>8.0} µs{:>9.2} µs{:>7.3} %{:>6.1} MB{:>6.1} MB{:>9}{:>10}",
            f.name,
            f.counters,
            f.cpu_us,
            per_counter(f),
            share(f),
            f.size.rss as f64 / MB,
            f.size.anonymous as f64 / MB,
            f.size.threads,
            f.calls.as_ref().map_or("-".into(), |c| format!("{:.0}", c.per_second)),
        );
    }
    println!("\nsystem calls a second, the most frequent:");
    for f in figures {
        if let Some(calls) = &f.calls {
            let most: Vec<String> = calls.most.iter().map(|(name, n)| format!("{name} {n:.0}")).collect();
            println!("{:<36}{}", f.name, most.join(", "));
        }
    }
    let [ours, rival, reading, sending, fast, ..] = figures else { return };
    println!();
    let of_rival = |f: &Figure| per_counter(f) / per_counter(rival);
    goal("CPU per counter, only reading", per_counter(reading), 1.2, "µs");
    goal("of the rival's: only reading", of_rival(reading), 0.1, "");
    goal("of the rival's: reading and sending", of_rival(sending), 0.1, "");
    goal("of the rival's: reading and being scraped", of_rival(ours), 0.1, "");
    goal("1 s + 100 ms, sending, share of one core", share(fast), 0.3, "%");
    goal("RSS of that", fast.size.rss as f64 / MB, 15.0, "MB");
    println!("nine congestion samples a second cost {:.0} µs", fast.cpu_us - sending.cpu_us);
    println!("sending costs {:.0} µs a second", sending.cpu_us - reading.cpu_us);
}

/// Prints what each sampler cost in `seconds`, between what had been spent before and after.
pub fn samplers(before: &Busy, after: &Busy, seconds: f64) {
    let cost = |(name, spent): (&String, &f64)| (name.clone(), (spent - before.get(name).unwrap_or(&0.0)) / seconds);
    let mut all: Vec<(String, f64)> = after.iter().map(cost).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!("\nwall time of a second that each sampler of the last row reads:");
    all.iter().for_each(|(name, share)| println!("{name:<36}{:>8.1} µs", share * 1e6));
}

/// Prints the size of the program.
pub fn sizes(agent: &Path, dir: &Path) -> Result<()> {
    let stripped = dir.join("stripped");
    if Command::new("strip").arg(agent).arg("-o").arg(&stripped).status().is_ok_and(|s| s.success()) {
        goal("program, stripped", std::fs::metadata(stripped)?.len() as f64 / MB, 10.0, "MB");
    }
    Ok(())
}

fn per_counter(f: &Figure) -> f64 {
    f.cpu_us / f.counters
}

/// Percent of one core.
fn share(f: &Figure) -> f64 {
    f.cpu_us / 1e4
}

fn goal(what: &str, value: f64, most: f64, unit: &str) {
    println!("{what:<44}{value:>8.3} {unit:<3} goal {most} {unit:<3} {}", judged(value <= most));
}
