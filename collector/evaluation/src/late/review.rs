//! Re-evaluates one time span from the store, with the topology, jobs and open incidents of that time (which keep their
//! IDs), and the baseline from before it.

use std::cmp::Reverse;

use fabriclens_correlate::{ALL, Incident, Scope};
use fabriclens_jobs::{Filter, Job};
use fabriclens_promql::QueryError;

use crate::backfill::{BEFORE_MS, Backfill, STEP_MS, frame_of};
use fabriclens_incidents::store::LateFinding;
use fabriclens_state::AppState;

/// Length of a slice that is read at once, ms, and the shortest one, used if slices are too large.
const SLICE_MS: i64 = 60_000;
const LEAST_MS: i64 = 5_000;
/// The newest samples are left to the live evaluation, ms.
const LIVE_MS: i64 = 30_000;
/// How long incidents that began in the span are followed after it, ms; those still open then continue.
const FOLLOW_MS: i64 = 3_600_000;
/// Interval of queries of slow signals, ms.
const QUERY_INTERVAL_MS: i64 = 60_000;

/// Result of one slice.
pub(super) enum Step {
    /// More slices follow.
    More,
    /// Finished.
    Done(Vec<LateFinding>),
}

/// Evaluation of one time span. Instants are Unix ms.
pub(super) struct Review {
    state: AppState,
    backfill: Backfill,
    span: [i64; 2],
    /// The last evaluated frame; `None` before the start.
    at: Option<i64>,
    slice: i64,
    /// Time from which the tracker's topology is valid, Unix ns.
    topology: Option<i64>,
    /// Jobs that ran during the span, and the indexes of those running at the last frame.
    jobs: Vec<Job>,
    running: Vec<usize>,
    ports: usize,
    queried_at: i64,
    over: Vec<Incident>,
}

impl Review {
    pub(super) fn new(state: &AppState, span: [i64; 2]) -> Self {
        let ns = |ms: i64| Some(ms.saturating_mul(1_000_000));
        let [from, to] = span;
        let filter = Filter { from_ns: ns(from - 2 * BEFORE_MS), to_ns: ns(to + FOLLOW_MS), ..Filter::default() };
        let mut jobs = state.jobs.registry.list(&filter);
        jobs.sort_by_key(|job| Reverse(job.start_ns));
        Self {
            backfill: Backfill::new(state, ALL.iter().filter(|row| row.slow)),
            state: state.clone(),
            span,
            at: None,
            slice: SLICE_MS,
            topology: None,
            jobs,
            running: Vec::new(),
            ports: 0,
            queried_at: i64::MIN,
            over: Vec::new(),
        }
    }

    pub(super) fn span(&self) -> [i64; 2] {
        self.span
    }

    /// Evaluates one slice.
    ///
    /// # Errors
    /// [`QueryError`]; the same slice is then tried again.
    pub(super) fn step(&mut self, now: i64) -> Result<Step, QueryError> {
        let edge = frame_of(now - LIVE_MS) - STEP_MS;
        let done = match self.at {
            None => self.start(edge),
            Some(at) => self.evaluate(at, at.saturating_add(self.slice).min(edge)),
        };
        if done.is_err() && self.slice > LEAST_MS {
            self.slice = (self.slice / 2).max(LEAST_MS);
            return Ok(Step::More);
        }
        done?;
        Ok(if self.is_done(edge) { Step::Done(self.found()) } else { Step::More })
    }

    fn start(&mut self, edge: i64) -> Result<(), QueryError> {
        let from = frame_of(self.span[0]).min(edge);
        let mut open = self.state.incidents.open_at(from.saturating_mul(1_000_000));
        // Late counters say nothing of collectives.
        open.retain(|incident| incident.kind.spec().scope == Scope::Network);
        if !self.backfill.find_ports(&open, from, self.span[1]) {
            // None of the late samples belong to a port.
            self.at = Some(self.span[1]);
            return Ok(());
        }
        self.fabric(from);
        let before = self.backfill.load_baseline(&open, from)?;
        self.backfill.tracker.resume(&open, before.saturating_mul(1_000_000));
        self.at = Some(before);
        Ok(())
    }

    /// Updates cables and jobs to those of an instant.
    fn fabric(&mut self, at: i64) {
        let at_ns = at.saturating_mul(1_000_000);
        let (since, topology) = self.state.topologies.version(at_ns);
        if self.topology != Some(since) {
            self.backfill.tracker.rewire(&topology);
            self.topology = Some(since);
        }
        let ports = self.backfill.tracker.fabric().ports.list.len();
        let run: Vec<usize> = (0..self.jobs.len()).filter(|n| self.jobs[*n].ran_at(at_ns)).collect();
        if run != self.running || ports != self.ports {
            let jobs: Vec<Job> = run.iter().map(|n| self.jobs[*n].clone()).collect();
            self.backfill.set_jobs(&jobs);
            (self.running, self.ports) = (run, ports);
        }
    }

    /// Evaluates the frames after `at` up to `to`.
    fn evaluate(&mut self, at: i64, to: i64) -> Result<(), QueryError> {
        if to <= at {
            return Ok(());
        }
        self.fabric(to);
        let frames = self.backfill.frames(at + STEP_MS, to)?;
        if to >= self.queried_at.saturating_add(QUERY_INTERVAL_MS) {
            self.backfill.query_all(to);
            self.queried_at = to;
        }
        for mut frame in frames {
            self.backfill.fill(&mut frame);
            self.over.extend(self.backfill.tracker.tick(frame));
        }
        self.at = Some(to);
        Ok(())
    }

    fn is_of(&self, incident: &Incident) -> bool {
        let [from, to] = self.span.map(|ms| ms.saturating_mul(1_000_000));
        incident.start_ns <= to && incident.end_ns.is_none_or(|end| end >= from)
    }

    /// Whether everything that began in the span has ended, or is known to continue.
    fn is_done(&self, edge: i64) -> bool {
        let Some(at) = self.at.filter(|at| *at >= self.span[1]) else { return false };
        let known = |i: &Incident| self.state.incidents.knows(i, at.saturating_mul(1_000_000));
        let all_known = || self.backfill.tracker.open().iter().all(|i| !self.is_of(i) || known(i));
        at >= edge || at >= self.span[1] + FOLLOW_MS || all_known()
    }

    fn found(&self) -> Vec<LateFinding> {
        let at_ns = self.at.unwrap_or(self.span[1]).saturating_mul(1_000_000);
        let open = self.backfill.tracker.open().into_iter().map(|incident| {
            let known = self.state.incidents.knows(&incident, at_ns);
            LateFinding { incident, followed: !known }
        });
        let over = self.over.iter().cloned().map(|incident| LateFinding { incident, followed: true });
        over.chain(open).filter(|found| self.is_of(&found.incident)).collect()
    }
}
