//! Runs the sources of one sampling target: opens and reads them, isolates their failures, and turns batches into
//! sections.
//!
//! One thread of `schedule` owns a [`Runner`]; other threads read [`TargetState`].

mod memory;
mod planning;
mod sections;
mod source_state;
mod source_stats;

pub use source_stats::{SourceStats, TargetState};

use crate::schedule::Settings;
use crate::state::TargetMemory;
use fabriclens_agent_host::batch::SampleError;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_samplers::plan::ReadContext;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_samplers::{ALL, Period, Spec};
use fabriclens_wire::Section;
use parking_lot::Mutex;
use source_state::SourceState;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Kind of a sampling tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// Congestion sample.
    Fast,
    /// Full sample.
    Full,
    /// Full sample and slow facts; also retries absent sources.
    Slow,
    /// State sources only, after an event.
    State,
}

/// Sources of one sampling target.
pub struct Runner {
    target: SamplingTarget,
    sources: Vec<SourceState>,
    /// Indexes of sources that a congestion sample reads.
    fast: Vec<usize>,
    shared: Arc<TargetState>,
    clock: Arc<Clock>,
    last_end: u64,
    /// State saved by the previous agent process, until the first samples have used it.
    memory: Option<(TargetMemory, Instant)>,
    remembers: bool,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("target", &self.shared.target).finish_non_exhaustive()
    }
}

impl Runner {
    /// Creates the sources that apply to the target and are on. Opens nothing.
    pub fn new(target: SamplingTarget, settings: &Settings, clock: Arc<Clock>) -> Self {
        let on = |spec: &Spec| settings.is_on(spec);
        let may_read = target.device.as_ref().is_none_or(|d| d.class.may_read());
        let specs: Vec<_> = ALL.iter().filter(|s| on(s) && (s.applies)(&target) && (may_read || is_state(s))).collect();
        let name = target.name();
        let stats = specs.iter().map(|spec| SourceStats::new(spec, &name)).collect();
        let latest = specs.iter().map(|_| [None, None]).collect();
        let events = Mutex::default();
        let (stats, latest) = (Mutex::new(stats), Mutex::new(latest));
        let shared = TargetState {
            target: name,
            full: settings.full,
            ended: AtomicBool::new(false),
            events,
            stats,
            latest,
            memory: Mutex::default(),
        };
        let sources = specs.into_iter().map(SourceState::new).collect();
        Self {
            target,
            sources,
            fast: Vec::new(),
            shared: Arc::new(shared),
            clock,
            last_end: 0,
            memory: None,
            remembers: settings.state_dir.is_some(),
        }
    }

    /// State shared with other threads.
    pub fn shared(&self) -> Arc<TargetState> {
        Arc::clone(&self.shared)
    }

    /// The sampling target.
    pub fn target(&self) -> &SamplingTarget {
        &self.target
    }

    /// True if a congestion sample has at least one open source.
    pub fn has_fast(&self) -> bool {
        self.fast.iter().any(|index| self.sources[*index].sampler.is_some())
    }

    /// Reads the sources that are due and passes their sections to `emit`. False when the device is gone.
    pub fn run(&mut self, tick: Tick, emit: &mut dyn FnMut(Section)) -> bool {
        if tick == Tick::Fast {
            return self.run_fast();
        }
        let mut gone = false;
        let mut due = vec![false; self.sources.len()];
        for (index, due) in due.iter_mut().enumerate() {
            *due = match tick {
                Tick::State => is_state(self.sources[index].spec),
                Tick::Slow => true,
                _ => self.sources[index].spec.period == Period::Full,
            };
            if *due {
                gone |= self.read(index, tick == Tick::Slow);
            }
        }
        // A link may come back at another speed; its rate is read as a slow fact only.
        if tick == Tick::Full && self.sources.iter().any(|l| is_state(l.spec) && l.fresh && l.batch.urgent) {
            for (index, due) in due.iter_mut().enumerate().filter(|(_, due)| !**due) {
                if is_state(self.sources[index].spec) {
                    *due = true;
                    gone |= self.read(index, false);
                }
            }
        }
        let changed = |l: &SourceState| l.fresh && (l.plan.is_none() || l.planned != l.batch.generation());
        if tick == Tick::Slow || self.sources.iter().any(changed) {
            let ended = self.replan();
            self.end(ended, emit);
        }
        for index in (0..self.sources.len()).filter(|i| due[*i]) {
            self.emit(index, emit);
        }
        if tick == Tick::Slow {
            self.memory = None;
            if self.remembers {
                self.remember();
            }
        }
        !gone
    }

    fn run_fast(&mut self) -> bool {
        let mut gone = false;
        for &index in &self.fast {
            let source = &mut self.sources[index];
            let (Some(sampler), Some(plan)) = (&mut source.sampler, &mut source.plan) else { continue };
            if source.planned != source.batch.generation() {
                continue;
            }
            let begin = Instant::now();
            source.batch.begin();
            self.shared.begin(index, begin);
            let result = catch_unwind(AssertUnwindSafe(|| sampler.sample(&source.fast, &mut source.batch)));
            let end = Instant::now();
            self.shared.end(index, end - begin);
            // The next full sample reports a failure.
            if let Ok(Ok(())) = result
                && source.planned == source.batch.generation()
            {
                let now = now(&self.target, &self.clock, begin, end);
                plan.take_fast(&source.batch, now);
            }
            gone |= matches!(result, Ok(Err(SampleError::Gone(_))));
        }
        !gone
    }

    /// Reads one source. True when the device is gone.
    fn read(&mut self, index: usize, everything: bool) -> bool {
        let begin = Instant::now();
        let source = &mut self.sources[index];
        source.fresh = false;
        if source.sampler.is_none() && begin < source.retry {
            return false;
        }
        self.shared.begin(index, begin);
        let mask: &[bool] = if everything { &[] } else { &source.full };
        let SourceState { sampler, batch, spec, .. } = source;
        batch.begin();
        let target = &self.target;
        let result = catch_unwind(AssertUnwindSafe(|| {
            let sampler = match sampler {
                Some(sampler) => sampler,
                none => none.insert((spec.open)(target)?),
            };
            sampler.sample(mask, batch)
        }));
        let end = Instant::now();
        source.begin_ns = self.clock.wall(begin);
        source.ended = end;
        if source.opened_ns == 0 {
            source.opened_ns = source.begin_ns;
        }
        source.fresh = matches!(result, Ok(Ok(())));
        let (outcome, panicked, gone) = source.judge(result);
        self.shared.record(index, end - begin, outcome, panicked, &source.batch, self.clock.wall(end));
        gone
    }

    /// Ends all series, because the device is gone.
    pub fn close(&mut self, emit: &mut dyn FnMut(Section)) {
        if self.remembers {
            self.remember();
        }
        for index in 0..self.sources.len() {
            self.fade(index, emit);
        }
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

fn now(target: &SamplingTarget, clock: &Clock, begin: Instant, end: Instant) -> ReadContext {
    ReadContext {
        at: end,
        begin_ns: clock.wall(begin),
        rate: target.rate_bytes(),
        known_rate: target.known_rate_bytes(),
    }
}

fn is_state(spec: &Spec) -> bool {
    matches!(spec.name, "port_state" | "port_info")
}
