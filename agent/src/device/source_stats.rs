//! Statistics of each source of a sampling target, and the state that other threads read.

use crate::schedule::{Outcome, SourceStatus};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_samplers::Spec;
use fabriclens_agent_samplers::plan::Discontinuities;
use fabriclens_wire::Section;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Statistics of one source since the start.
#[derive(Debug, Clone)]
pub struct SourceStats {
    /// Row of `samplers::ALL`.
    pub spec: &'static Spec,
    /// Current state and last read cost.
    pub status: SourceStatus,
    /// Time spent reading.
    pub busy: Duration,
    /// Panics caught.
    pub panics: u64,
    /// Reads that passed their deadline.
    pub stalls: u64,
    /// Full samples missed because a read took longer than their period.
    pub missed: u64,
    /// Counter names that the catalog lacks.
    pub unknown: usize,
    /// Configured passthrough names beyond the limit.
    pub left_out: usize,
    /// Rows dropped because their content is not a number.
    pub bad: u64,
    /// Resets, wraps and other discontinuities.
    pub discontinuities: Discontinuities,
    /// Start of a read in progress, and whether it was counted as a stall.
    pub under_way: Option<(Instant, bool)>,
    /// Time of the last logged failure.
    pub logged_at: Option<Instant>,
    /// Wall time of the last sample, Unix ns.
    pub sampled_ns: u64,
}

/// Minimum interval between two logged failures of one source; `/healthz` shows the current one.
const QUIET: Duration = Duration::from_secs(600);

/// State of a sampling target, shared between threads.
#[derive(Debug)]
pub struct TargetState {
    /// `mlx5_0/1`, `host` …
    pub target: String,
    /// Period of a full sample.
    pub full: Duration,
    /// True once the thread has stopped sampling it.
    pub ended: AtomicBool,
    /// Asynchronous events of the port by kind, since the start.
    pub events: Mutex<BTreeMap<&'static str, u64>>,
    /// One per source.
    pub stats: Mutex<Vec<SourceStats>>,
    /// State for the next agent process, as of the last slow sample.
    pub memory: Mutex<Option<crate::state::TargetMemory>>,
    /// Latest counter section and fact section of each source.
    pub latest: Mutex<Vec<[Option<Section>; 2]>>,
}

impl TargetState {
    /// Status of each source; a read in progress for longer than `deadline` is stalled.
    pub fn statuses(&self, deadline: Duration) -> Vec<SourceStatus> {
        let mut sources = self.stats.lock();
        sources.iter_mut().map(|stats| stats.watched(deadline)).collect()
    }

    /// Latest sections of all sources.
    pub fn sections(&self) -> Vec<Section> {
        self.latest.lock().iter().flatten().flatten().cloned().collect()
    }
}

impl SourceStats {
    /// Status of the source; a read in progress for longer than `deadline` is counted as a stall once.
    fn watched(&mut self, deadline: Duration) -> SourceStatus {
        let mut status = self.status.clone();
        if let Some((began, counted)) = &mut self.under_way
            && began.elapsed() > deadline
        {
            status.outcome = Outcome::Stalled(began.elapsed());
            if !*counted {
                *counted = true;
                self.stalls += 1;
                if self.is_news(&status.outcome, Instant::now()) {
                    tracing::warn!(sampler = self.spec.name, target = %status.target, ?deadline, "read exceeds its deadline; other devices are sampled as usual");
                }
            }
        }
        status
    }

    /// Rate limit of logged failures: a flapping source must not fill the log.
    fn is_news(&mut self, outcome: &Outcome, now: Instant) -> bool {
        let fails = matches!(outcome, Outcome::Error(_) | Outcome::Stalled(_));
        if !fails || self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            return false;
        }
        self.logged_at = Some(now);
        true
    }

    pub(super) fn new(spec: &'static Spec, target: &str) -> Self {
        let status = SourceStatus {
            sampler: spec.name,
            target: target.to_string(),
            outcome: Outcome::Absent("not read yet".into()),
            last_read: None,
            reads: 0,
            errors: 0,
            note: String::new(),
        };
        Self {
            spec,
            status,
            busy: Duration::ZERO,
            panics: 0,
            stalls: 0,
            missed: 0,
            unknown: 0,
            left_out: 0,
            bad: 0,
            discontinuities: Discontinuities::default(),
            under_way: None,
            logged_at: None,
            sampled_ns: 0,
        }
    }
}

impl TargetState {
    pub(super) fn begin(&self, index: usize, at: Instant) {
        self.stats.lock()[index].under_way = Some((at, false));
    }

    pub(super) fn end(&self, index: usize, took: Duration) {
        let stats = &mut self.stats.lock()[index];
        stats.under_way = None;
        stats.busy += took;
        let missed = took.as_nanos().checked_div(self.full.as_nanos()).unwrap_or(0);
        stats.missed += u64::try_from(missed).unwrap_or(u64::MAX);
        stats.status.reads += 1;
    }

    pub(super) fn record(
        &self,
        index: usize,
        took: Duration,
        outcome: Outcome,
        panicked: bool,
        batch: &Batch,
        end_ns: u64,
    ) {
        self.end(index, took);
        let stats = &mut self.stats.lock()[index];
        let data = matches!(outcome, Outcome::Data { .. });
        stats.status.errors += u64::from(matches!(outcome, Outcome::Error(_))) + u64::from(data && batch.bad > 0);
        stats.panics += u64::from(panicked);
        if data {
            stats.bad += batch.bad as u64;
            stats.sampled_ns = end_ns;
            stats.status.last_read = Some(took);
            stats.status.note.clone_from(&batch.note);
        }
        if let (Outcome::Error(now), Outcome::Error(before)) = (&outcome, &stats.status.outcome)
            && now == before
        {
            return;
        }
        let news = stats.is_news(&outcome, Instant::now());
        log(stats, &outcome, batch, news);
        stats.status.outcome = outcome;
    }
}

/// Logs a change of state, not each failed read; `news` is false while the rate limit applies.
fn log(stats: &SourceStats, outcome: &Outcome, batch: &Batch, news: bool) {
    let (sampler, target) = (stats.spec.name, &stats.status.target);
    match outcome {
        Outcome::Error(why) if !news => tracing::debug!(sampler, %target, why, "source unavailable"),
        Outcome::Error(why) => tracing::warn!(sampler, %target, why, "source failed"),
        Outcome::Absent(why) => tracing::debug!(sampler, %target, why, "source unavailable"),
        Outcome::Data { .. } | Outcome::Stalled(_) => {
            if let Some(example) = batch.example.as_ref().filter(|_| stats.bad == 0) {
                tracing::warn!(sampler, %target, rows = batch.bad, example, "rows are not numbers and are skipped");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flapping_source_is_logged_at_intervals() {
        let mut stats = SourceStats::new(&fabriclens_agent_samplers::ALL[0], "mlx5_0/1");
        let (begin, fails) = (Instant::now(), |why: &str| Outcome::Error(why.into()));
        assert!(stats.is_news(&fails("a"), begin));
        for s in 1..600 {
            let outcome = if s % 2 == 0 { fails("b") } else { Outcome::Stalled(Duration::from_secs(3)) };
            assert!(!stats.is_news(&outcome, begin + Duration::from_secs(s)), "{s}");
        }
        assert!(!stats.is_news(&Outcome::Data { counters: 1 }, begin + QUIET), "success is not logged");
        assert!(stats.is_news(&fails("a"), begin + QUIET));
    }
}
