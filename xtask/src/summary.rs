//! A table of steps with their times, how busy the machine was, and notes.

use anyhow::{Context, Result};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Notes of the running step for the final table.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Adds a note of the running step to the final table.
pub fn note(line: impl Into<String>) {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).push(line.into());
}

/// Reports a skipped part of this step and the reason, now and in the final table.
pub fn skipped(why: impl AsRef<str>) {
    println!("SKIPPED: {}", why.as_ref());
    note(format!("skipped: {}", why.as_ref()));
}

/// A step that ran.
struct Done {
    name: String,
    took: Duration,
    /// Share of the processors' time in which they worked, for whatever process; none where the kernel does not say.
    busy: Option<f64>,
    notes: Vec<String>,
}

/// Steps that ran, with their times and notes.
#[derive(Default)]
pub struct Steps(Vec<Done>);

impl Steps {
    /// Runs one step.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n=== {name}");
        let (begin, before) = (Instant::now(), Processors::read());
        step().with_context(|| format!("step failed: {name}"))?;
        let notes = std::mem::take(&mut *NOTES.lock().unwrap_or_else(PoisonError::into_inner));
        let busy = before.zip(Processors::read()).and_then(|(before, after)| after.busy_since(&before));
        self.0.push(Done { name: name.to_owned(), took: begin.elapsed(), busy, notes });
        Ok(())
    }

    /// Prints the table.
    pub fn summary(&self) {
        println!("\n{:<44} seconds  busy", "step");
        for Done { name, took, busy, notes } in &self.0 {
            let busy = busy.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
            println!("{name:<44} {:7.1} {busy:>5}", took.as_secs_f64());
            notes.iter().for_each(|note| println!("    {note}"));
        }
        println!("{:<44} {:7.1}", "total", self.0.iter().map(|s| s.took.as_secs_f64()).sum::<f64>());
    }
}

/// Ticks of all processors since boot.
struct Processors {
    busy: u64,
    idle: u64,
}

impl Processors {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line of /proc/stat: `cpu`, then user, nice, system, idle, iowait, irq, softirq, steal, and guests' time, which user time includes.
    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Self { busy: fields.iter().sum::<u64>() - idle, idle })
    }

    fn busy_since(&self, before: &Self) -> Option<f64> {
        let (busy, idle) = (self.busy.checked_sub(before.busy)?, self.idle.checked_sub(before.idle)?);
        (busy + idle > 0).then(|| busy as f64 / (busy + idle) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_wait_are_not_busy() {
        let before = Processors::parse("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3").unwrap();
        let after = Processors::parse("cpu  120 5 60 840 75 0 0 0 9 0\n").unwrap();
        assert_eq!(after.busy_since(&before), Some(0.35));
        assert_eq!(before.busy_since(&before), None);
        assert!(Processors::parse("intr 5").is_none());
    }
}
