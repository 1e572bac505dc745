//! What each source of a subject has done, and what other threads may look at.

use crate::schedule::{Outcome, SourceStatus};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_samplers::Spec;
use fabriclens_agent_samplers::plan::Discontinuities;
use fabriclens_wire::Section;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What one source has done so far.
#[derive(Debug, Clone)]
pub struct Account {
    /// Row of `samplers::ALL`.
    pub spec: &'static Spec,
    /// State and cost.
    pub status: SourceStatus,
    /// Time spent reading.
    pub busy: Duration,
    /// Panics caught.
    pub panics: u64,
    /// Reads that passed their deadline.
    pub stalls: u64,
    /// Full samples that did not happen because a read took longer than their period.
    pub missed: u64,
    /// Names that the catalog does not know.
    pub unknown: usize,
    /// Names that the user wants raw and that there was no room for.
    pub left_out: usize,
    /// Rows dropped because their content was no number.
    pub bad: u64,
    /// Counters that did not simply grow.
    pub discontinuities: Discontinuities,
    /// Since when a read is under way, and whether it is counted as a stall.
    pub under_way: Option<(Instant, bool)>,
    /// When a failure was last told in the log.
    pub told: Option<Instant>,
    /// Wall time of the last sample, Unix ns.
    pub sampled_ns: u64,
}

/// How long the log is told no other failure of a source; `/healthz` has the present one.
const QUIET: Duration = Duration::from_secs(600);

/// What other threads see of a subject.
#[derive(Debug)]
pub struct Shared {
    /// `mlx5_0/1`, `host` …
    pub target: String,
    /// Period of a full sample.
    pub full: Duration,
    /// Its thread is through with it.
    pub ended: AtomicBool,
    /// Asynchronous events of the port by kind, since the start.
    pub events: Mutex<BTreeMap<&'static str, u64>>,
    /// One per source.
    pub accounts: Mutex<Vec<Account>>,
    /// What the next agent needs to go on, as of the last slow sample.
    pub memory: Mutex<Option<crate::state::Target>>,
    /// Latest section of each source, and of its facts.
    pub latest: Mutex<Vec<[Option<Section>; 2]>>,
}

impl Shared {
    /// State of each source; a read under way for longer than `deadline` shows as stalled.
    pub fn statuses(&self, deadline: Duration) -> Vec<SourceStatus> {
        let mut accounts = self.accounts.lock();
        accounts.iter_mut().map(|account| account.watched(deadline)).collect()
    }

    /// Latest sections.
    pub fn sections(&self) -> Vec<Section> {
        self.latest.lock().iter().flatten().flatten().cloned().collect()
    }
}

impl Account {
    /// Its status; a read that is under way for longer than `deadline` is a stall, counted once.
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
                    tracing::warn!(sampler = self.spec.name, target = %status.target, "a read is under way for longer than {deadline:?}; other devices go on");
                }
            }
        }
        status
    }

    /// Whether a failure is to be told at once: a source that comes and goes, or stalls in each read, must not fill the log.
    fn is_news(&mut self, outcome: &Outcome, now: Instant) -> bool {
        let fails = matches!(outcome, Outcome::Error(_) | Outcome::Stalled(_));
        if !fails || self.told.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            return false;
        }
        self.told = Some(now);
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
            told: None,
            sampled_ns: 0,
        }
    }
}

impl Shared {
    pub(super) fn begin(&self, index: usize, at: Instant) {
        self.accounts.lock()[index].under_way = Some((at, false));
    }

    pub(super) fn end(&self, index: usize, took: Duration) {
        let account = &mut self.accounts.lock()[index];
        account.under_way = None;
        account.busy += took;
        let missed = took.as_nanos().checked_div(self.full.as_nanos()).unwrap_or(0);
        account.missed += u64::try_from(missed).unwrap_or(u64::MAX);
        account.status.reads += 1;
    }

    pub(super) fn told(
        &self,
        index: usize,
        took: Duration,
        outcome: Outcome,
        panicked: bool,
        batch: &Batch,
        end_ns: u64,
    ) {
        self.end(index, took);
        let account = &mut self.accounts.lock()[index];
        let data = matches!(outcome, Outcome::Data { .. });
        account.status.errors += u64::from(matches!(outcome, Outcome::Error(_))) + u64::from(data && batch.bad > 0);
        account.panics += u64::from(panicked);
        if data {
            account.bad += batch.bad as u64;
            account.sampled_ns = end_ns;
            account.status.last_read = Some(took);
            account.status.note.clone_from(&batch.note);
        }
        if let (Outcome::Error(now), Outcome::Error(before)) = (&outcome, &account.status.outcome)
            && now == before
        {
            return;
        }
        let news = account.is_news(&outcome, Instant::now());
        log(account, &outcome, batch, news);
        account.status.outcome = outcome;
    }
}

/// Changes of state are logged once, not each second; `news`: where they are not too many.
fn log(account: &Account, outcome: &Outcome, batch: &Batch, news: bool) {
    let (sampler, target) = (account.spec.name, &account.status.target);
    match outcome {
        Outcome::Error(why) if !news => tracing::debug!(sampler, %target, "{why}"),
        Outcome::Error(why) => tracing::warn!(sampler, %target, "{why}"),
        Outcome::Absent(why) => tracing::debug!(sampler, %target, "{why}"),
        Outcome::Data { .. } | Outcome::Stalled(_) => {
            if let Some(example) = batch.example.as_ref().filter(|_| account.bad == 0) {
                tracing::warn!(sampler, %target, rows = batch.bad, "some rows are unreadable: {example}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_comes_and_goes_is_told_once_in_a_while() {
        let mut account = Account::new(&fabriclens_agent_samplers::ALL[0], "mlx5_0/1");
        let (begin, fails) = (Instant::now(), |why: &str| Outcome::Error(why.into()));
        assert!(account.is_news(&fails("a"), begin));
        for s in 1..600 {
            let outcome = if s % 2 == 0 { fails("b") } else { Outcome::Stalled(Duration::from_secs(3)) };
            assert!(!account.is_news(&outcome, begin + Duration::from_secs(s)), "{s}");
        }
        assert!(!account.is_news(&Outcome::Data { counters: 1 }, begin + QUIET), "what is well is no news");
        assert!(account.is_news(&fails("a"), begin + QUIET));
    }
}
