//! One stretch of time, judged again out of the store: by the topology and the jobs of its time, beside what was calm before
//! it, and with the incidents that were open then, which keep their ids.

use std::cmp::Reverse;

use fabriclens_correlate::ALL;
use fabriclens_correlate::Incident;
use fabriclens_jobs::{Filter, Job};
use fabriclens_promql::QueryError;

use crate::backfill::{BEFORE_MS, Eyes, STEP_MS, frame_of};
use fabriclens_incidents::store::Found;
use fabriclens_state::AppState;

/// What is read at once, ms; less, down to the least, where that is too much.
const SLICE_MS: i64 = 60_000;
const LEAST_MS: i64 = 5_000;
/// So much of the newest is left to the live watch, ms.
const LIVE_MS: i64 = 30_000;
/// How long what began in the stretch is followed after it, ms: if it has not ended by then, it goes on.
const FOLLOW_MS: i64 = 3_600_000;
/// How often the questions are asked that look back for long, ms.
const ASK_MS: i64 = 60_000;

/// What a slice comes to.
pub(super) enum Step {
    /// There is more to judge.
    More,
    /// All was judged.
    Done(Vec<Found>),
}

/// See the module. Instants are Unix ms.
pub(super) struct Review {
    state: AppState,
    eyes: Eyes,
    stretch: [i64; 2],
    /// The last frame that was judged; `None`: it has not begun.
    at: Option<i64>,
    slice: i64,
    /// Since when the topology holds that the watch has, Unix ns.
    topology: Option<i64>,
    /// Those that ran at some time of it, and how many of their number at the last frame.
    jobs: Vec<Job>,
    employed: Vec<usize>,
    ports: usize,
    asked: i64,
    over: Vec<Incident>,
}

impl Review {
    pub(super) fn new(state: &AppState, stretch: [i64; 2]) -> Self {
        let ns = |ms: i64| Some(ms.saturating_mul(1_000_000));
        let [from, to] = stretch;
        let filter = Filter { from_ns: ns(from - 2 * BEFORE_MS), to_ns: ns(to + FOLLOW_MS), ..Filter::default() };
        let mut jobs = state.jobs.registry.list(&filter);
        jobs.sort_by_key(|job| Reverse(job.start_ns));
        Self {
            eyes: Eyes::new(state, ALL.iter().filter(|row| row.slow)),
            state: state.clone(),
            stretch,
            at: None,
            slice: SLICE_MS,
            topology: None,
            jobs,
            employed: Vec::new(),
            ports: 0,
            asked: i64::MIN,
            over: Vec::new(),
        }
    }

    pub(super) fn stretch(&self) -> [i64; 2] {
        self.stretch
    }

    /// Judges one slice.
    ///
    /// # Errors
    /// [`QueryError`]; the same slice comes again.
    pub(super) fn step(&mut self, now: i64) -> Result<Step, QueryError> {
        let edge = frame_of(now - LIVE_MS) - STEP_MS;
        let done = match self.at {
            None => self.start(edge),
            Some(at) => self.judge(at, at.saturating_add(self.slice).min(edge)),
        };
        if done.is_err() && self.slice > LEAST_MS {
            self.slice = (self.slice / 2).max(LEAST_MS);
            return Ok(Step::More);
        }
        done?;
        Ok(if self.is_done(edge) { Step::Done(self.found()) } else { Step::More })
    }

    fn start(&mut self, edge: i64) -> Result<(), QueryError> {
        let from = frame_of(self.stretch[0]).min(edge);
        let open = self.state.book.open_at(from.saturating_mul(1_000_000));
        if !self.eyes.find_ports(&open, from, self.stretch[1]) {
            // Whatever came late, it was of no port.
            self.at = Some(self.stretch[1]);
            return Ok(());
        }
        self.fabric(from);
        let before = self.eyes.calm_before(&open, from)?;
        self.eyes.watch.resume(&open, before.saturating_mul(1_000_000));
        self.at = Some(before);
        Ok(())
    }

    /// Cables and jobs as they were.
    fn fabric(&mut self, at: i64) {
        let at_ns = at.saturating_mul(1_000_000);
        let (since, topology) = self.state.topologies.version(at_ns);
        if self.topology != Some(since) {
            self.eyes.watch.rewire(&topology);
            self.topology = Some(since);
        }
        let ports = self.eyes.watch.fabric().ports.list.len();
        let run: Vec<usize> = (0..self.jobs.len()).filter(|n| self.jobs[*n].ran_at(at_ns)).collect();
        if run != self.employed || ports != self.ports {
            let jobs: Vec<Job> = run.iter().map(|n| self.jobs[*n].clone()).collect();
            self.eyes.employ(&jobs);
            (self.employed, self.ports) = (run, ports);
        }
    }

    /// The frames after one instant until another.
    fn judge(&mut self, at: i64, to: i64) -> Result<(), QueryError> {
        if to <= at {
            return Ok(());
        }
        self.fabric(to);
        let frames = self.eyes.frames(at + STEP_MS, to)?;
        if to >= self.asked.saturating_add(ASK_MS) {
            self.eyes.ask_all(to);
            self.asked = to;
        }
        for mut frame in frames {
            self.eyes.tell_asked(&mut frame);
            self.over.extend(self.eyes.watch.tick(frame));
        }
        self.at = Some(to);
        Ok(())
    }

    fn is_of(&self, incident: &Incident) -> bool {
        let [from, to] = self.stretch.map(|ms| ms.saturating_mul(1_000_000));
        incident.start_ns <= to && incident.end_ns.is_none_or(|end| end >= from)
    }

    /// Whether all is over that began in it, or known to go on.
    fn is_done(&self, edge: i64) -> bool {
        let Some(at) = self.at.filter(|at| *at >= self.stretch[1]) else { return false };
        let known = |i: &Incident| self.state.book.knows(i, at.saturating_mul(1_000_000));
        let all_known = || self.eyes.watch.open().iter().all(|i| !self.is_of(i) || known(i));
        at >= edge || at >= self.stretch[1] + FOLLOW_MS || all_known()
    }

    fn found(&self) -> Vec<Found> {
        let at_ns = self.at.unwrap_or(self.stretch[1]).saturating_mul(1_000_000);
        let open = self.eyes.watch.open().into_iter().map(|incident| {
            let known = self.state.book.knows(&incident, at_ns);
            Found { incident, followed: !known }
        });
        let over = self.over.iter().cloned().map(|incident| Found { incident, followed: true });
        over.chain(open).filter(|found| self.is_of(&found.incident)).collect()
    }
}
