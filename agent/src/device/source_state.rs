//! One source of a sampling target: its sampler, its plan, and when a failed one is opened again.

use crate::schedule::Outcome;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_samplers::plan::{Assigned, Carried, PlanShape, SourcePlan};
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_samplers::{Sampler, Spec};
use fabriclens_wire::{Column, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First wait before a failed source is opened again; doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Interval at which an absent source is tried again: it may appear later (PFC switched on, a module plugged in).
const ABSENT: Duration = Duration::from_secs(30);

/// A source of a target, open or waiting to be opened again.
pub(super) struct SourceState {
    pub(super) spec: &'static Spec,
    pub(super) sampler: Option<Box<dyn Sampler>>,
    pub(super) batch: Batch,
    pub(super) plan: Option<SourcePlan>,
    pub(super) planned: u64,
    pub(super) full: Vec<bool>,
    pub(super) fast: Vec<bool>,
    pub(super) retry: Instant,
    pub(super) wait: Duration,
    /// The last read gave data.
    pub(super) fresh: bool,
    pub(super) begin_ns: u64,
    pub(super) ended: Instant,
    pub(super) facts: Arc<[Column]>,
    pub(super) opened_ns: u64,
    /// Saturated counters that another source replaces, as facts.
    pub(super) stuck: Vec<(Column, Value)>,
}

impl SourceState {
    pub(super) fn new(spec: &'static Spec) -> Self {
        let now = Instant::now();
        Self {
            spec,
            sampler: None,
            batch: Batch::default(),
            plan: None,
            planned: 0,
            full: Vec::new(),
            fast: Vec::new(),
            retry: now,
            wait: SHORTEST,
            fresh: false,
            begin_ns: 0,
            ended: now,
            facts: Arc::from([]),
            opened_ns: 0,
            stuck: Vec::new(),
        }
    }

    pub(super) fn plan(&mut self, assigned: &[Assigned], fast: bool, carried: &Carried) {
        let shape = Arc::new(PlanShape::new(self.batch.names(), assigned, fast));
        let plan = SourcePlan::new(shape, carried, self.plan.as_ref());
        let names = self.batch.names().len();
        self.full = plan.mask(names, false);
        self.fast = if plan.has_fast() { plan.mask(names, true) } else { Vec::new() };
        self.planned = self.batch.generation();
        self.plan = Some(plan);
    }

    /// Passes raw counters through up to `room`; returns the number left out.
    pub(super) fn pass(&mut self, target: &SamplingTarget, room: &mut usize) -> usize {
        let names = self.batch.names().iter().enumerate();
        let mut raws: Vec<usize> = names.filter(|(_, name)| target.passes(name)).map(|(raw, _)| raw).collect();
        let left_out = raws.len().saturating_sub(*room);
        raws.truncate(*room);
        *room -= raws.len();
        if let Some(plan) = self.plan.as_mut().filter(|_| !raws.is_empty()) {
            plan.pass(&self.batch, raws, self.spec.source);
            self.full = plan.mask(self.batch.names().len(), false);
        }
        left_out
    }

    /// Returns outcome, whether the source panicked, whether the device is gone; sets the time of the next attempt.
    pub(super) fn judge(&mut self, result: std::thread::Result<Result<(), SampleError>>) -> (Outcome, bool, bool) {
        let (outcome, wait, panicked, gone) = match result {
            Ok(Ok(())) => {
                self.wait = SHORTEST;
                return (Outcome::Data { counters: self.batch.len() }, false, false);
            }
            Ok(Err(SampleError::Absent(why))) => (Outcome::Absent(why), ABSENT, false, false),
            Ok(Err(SampleError::Failed(why))) => (Outcome::Error(why), self.wait, false, false),
            Ok(Err(SampleError::Gone(why))) => (Outcome::Error(why), SHORTEST, false, true),
            // An open source is kept: there may be no descriptors to open it again.
            Ok(Err(SampleError::Shortage(why))) => {
                self.retry = Instant::now() + SHORTEST;
                return (Outcome::Error(why), false, false);
            }
            Err(payload) => {
                let why = crate::schedule::words(&*payload);
                (
                    Outcome::Error(format!("the sampler panicked ({why}); it is retried; please report this")),
                    self.wait,
                    true,
                    false,
                )
            }
        };
        self.sampler = None;
        self.retry = Instant::now() + wait;
        self.wait = (self.wait * 2).min(LONGEST);
        (outcome, panicked, gone)
    }
}
