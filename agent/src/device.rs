//! Runs the sources of one sampling target: opens and reads them, isolates their failures, and turns batches into
//! sections.
//!
//! One thread of `schedule` owns a [`Runner`]; other threads read [`TargetState`].

mod source_stats;

pub use source_stats::{SourceStats, TargetState};

use crate::schedule::{Outcome, Settings};
use crate::state::{Series, TargetMemory, boot_ns};
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_samplers::counter::Total;
use fabriclens_agent_samplers::plan::{
    Assigned, Assignment, Candidates, Carried, PlanShape, ReadContext, SourcePlan, assign, saturated,
};
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_samplers::{ALL, Period, Sampler, Spec};
use fabriclens_catalog::is_fast;
use fabriclens_catalog::metrics::{by_name, state::PORT_ASYNC_EVENTS};
use fabriclens_wire::{Column, Section, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// First wait before a failed source is opened again; doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Interval at which an absent source is tried again: it may appear later (PFC switched on, a module plugged in).
const ABSENT: Duration = Duration::from_secs(30);
/// Limit of raw counters that one port passes through: some drivers have thousands, several per queue.
const MOST_PASSED: usize = 256;

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

struct SourceState {
    spec: &'static Spec,
    sampler: Option<Box<dyn Sampler>>,
    batch: Batch,
    plan: Option<SourcePlan>,
    planned: u64,
    full: Vec<bool>,
    fast: Vec<bool>,
    retry: Instant,
    wait: Duration,
    /// The last read gave data.
    fresh: bool,
    begin_ns: u64,
    ended: Instant,
    facts: Arc<[Column]>,
    opened_ns: u64,
    /// Saturated counters that another source replaces, as facts.
    stuck: Vec<(Column, Value)>,
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

    /// Sets the state saved by the previous agent process.
    pub fn recall(&mut self, memory: Option<(TargetMemory, Instant)>) {
        self.memory = memory;
    }

    /// Publishes the state that the next agent process continues from.
    fn remember(&self) {
        let mut memory = TargetMemory {
            identity: self.target.identity(),
            at: boot_ns(),
            series: Vec::new(),
            readings: BTreeMap::new(),
        };
        let mut carried = Carried::new();
        for source in &self.sources {
            if let Some(plan) = &source.plan {
                plan.carry(&mut carried);
                memory.readings.insert(source.spec.name.to_string(), plan.readings());
            }
        }
        memory.series = carried
            .into_iter()
            .map(|((metric, labels), (total, start))| Series {
                metric: metric.to_string(),
                labels: labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
                count: total.count(),
                scale: total.scale(),
                start,
            })
            .collect();
        *self.shared.memory.lock() = Some(memory);
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

    /// Columns of all plans.
    fn planned(&self) -> impl Iterator<Item = Arc<[Column]>> {
        self.sources.iter().filter_map(|l| l.plan.as_ref().map(SourcePlan::columns))
    }

    /// Binds all sources again; totals of surviving series are kept. Returns the series that end.
    fn replan(&mut self) -> Vec<Column> {
        let had: Vec<Arc<[Column]>> = self.planned().collect();
        let data = |l: &SourceState| (l.fresh || l.plan.is_some()) && l.batch.values.len() == l.batch.names().len();
        let candidates = Candidates {
            target: &self.target,
            sources: self
                .sources
                .iter()
                .map(|l| data(l).then_some((l.spec.source, &l.batch, l.plan.as_ref())))
                .collect(),
        };
        let Assignment { sources: assigned, unknown, stuck } = assign(&candidates);
        let mut carried = self.memory.as_ref().map(|(memory, _)| recalled(memory)).unwrap_or_default();
        for plan in self.sources.iter().filter_map(|l| l.plan.as_ref()) {
            plan.carry(&mut carried);
        }
        let mut room = MOST_PASSED;
        let mut stats = self.shared.stats.lock();
        for (index, (source, assigned)) in self.sources.iter_mut().zip(&assigned).enumerate() {
            stats[index].unknown = unknown[index];
            source.stuck = stuck[index].iter().map(|column| (saturated(column), Value::Int(1))).collect();
            if source.fresh || source.plan.is_some() {
                let first = source.plan.is_none();
                source.plan(assigned, is_fast(self.target.family(source.spec.source), source.spec.source), &carried);
                let memory = self.memory.as_ref().filter(|_| first);
                let readings = memory.and_then(|(m, at)| Some((m.readings.get(source.spec.name)?, *at)));
                if let (Some(plan), Some((readings, at))) = (&mut source.plan, readings) {
                    plan.recall(readings, at);
                }
                stats[index].left_out = source.pass(&self.target, &mut room);
            }
        }
        drop(stats);
        self.fast = (0..self.sources.len()).filter(|index| !self.sources[*index].fast.is_empty()).collect();
        let has: Vec<Arc<[Column]>> = self.planned().collect();
        let key = |c: &Column| (c.metric.name, c.labels.clone());
        let has: HashSet<_> = has.iter().flat_map(|columns| columns.iter().map(key)).collect();
        had.iter().flat_map(|columns| columns.iter()).filter(|c| !has.contains(&key(c))).cloned().collect()
    }

    /// Ends series that the device no longer provides, so that their last value does not pass as current.
    fn end(&mut self, ended: Vec<Column>, emit: &mut dyn FnMut(Section)) {
        if ended.is_empty() {
            return;
        }
        self.last_end = self.clock.now().max(self.last_end + 1);
        emit(Section {
            resource: Arc::clone(&self.target.resource),
            starts: vec![0; ended.len()].into(),
            values: vec![Value::Stale; ended.len()],
            columns: ended.into(),
            begin_ns: self.last_end,
            end_ns: self.last_end,
            urgent: false,
        });
    }

    fn emit(&mut self, index: usize, emit: &mut dyn FnMut(Section)) {
        let source = &mut self.sources[index];
        if !source.fresh {
            return self.fade(index, emit);
        }
        let now = ReadContext {
            at: source.ended,
            begin_ns: source.begin_ns,
            rate: self.target.rate_bytes(),
            known_rate: self.target.known_rate_bytes(),
        };
        // Strictly increasing, also when the mapping to wall time changes.
        self.last_end = self.clock.wall(source.ended).max(self.last_end + 1);
        let section = |columns, starts, values, urgent| Section {
            resource: Arc::clone(&self.target.resource),
            columns,
            begin_ns: source.begin_ns.min(self.last_end),
            end_ns: self.last_end,
            starts,
            values,
            urgent,
        };
        let mut made = [None, None];
        if let Some(plan) = source.plan.as_mut().filter(|p| !p.is_empty()) {
            let urgent = plan.take_full(&source.batch, now);
            let values = plan.values(&source.batch, now.known_rate, 0);
            made[0] = Some(section(plan.columns(), plan.starts(0), values, urgent));
            source.batch.facts.extend(plan.saturated().map(|column| (saturated(column), Value::Int(1))));
            self.shared.stats.lock()[index].discontinuities = plan.discontinuities;
        }
        source.batch.facts.extend(source.stuck.iter().cloned());
        if source.spec.name == "port_state" {
            for (kind, count) in self.shared.events.lock().iter() {
                source.batch.fact(&PORT_ASYNC_EVENTS, &[("event", kind)], Value::Int(*count));
            }
        }
        let had = Arc::clone(&source.facts);
        let same =
            had.len() == source.batch.facts.len() && had.iter().zip(&source.batch.facts).all(|(h, (c, _))| h == c);
        if !same {
            let ended: Vec<Column> =
                had.iter().filter(|h| source.batch.facts.iter().all(|(c, _)| c != *h)).cloned().collect();
            if !ended.is_empty() {
                let values = vec![Value::Stale; ended.len()];
                emit(section(ended.into(), Arc::from(vec![0; values.len()]), values, false));
            }
            source.facts = source.batch.facts.iter().map(|(column, _)| column.clone()).collect();
        }
        if !source.facts.is_empty() {
            let values = source.batch.facts.iter().map(|(_, value)| value.clone()).collect();
            let starts = Arc::from(vec![source.opened_ns; source.facts.len()]);
            made[1] = Some(section(Arc::clone(&source.facts), starts, values, source.batch.urgent));
        }
        for section in made.iter().flatten() {
            emit(section.clone());
        }
        self.shared.latest.lock()[index] = made;
    }

    /// Ends the series of a source without data.
    fn fade(&mut self, index: usize, emit: &mut dyn FnMut(Section)) {
        let had = std::mem::take(&mut self.shared.latest.lock()[index]);
        for mut section in had.into_iter().flatten() {
            section.values.fill(Value::Stale);
            self.last_end = self.clock.now().max(self.last_end + 1);
            (section.begin_ns, section.end_ns, section.urgent) = (self.last_end, self.last_end, false);
            emit(section);
        }
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

/// Totals of the previous agent process, as far as the catalog still has their metrics.
fn recalled(memory: &TargetMemory) -> Carried {
    let series = memory.series.iter().filter_map(|s| {
        let labels = s.labels.iter().map(|(n, v)| (Arc::from(n.as_str()), Arc::from(v.as_str()))).collect();
        Some(((by_name(&s.metric)?.name, labels), (Total::remembered(s.count, s.scale)?, s.start)))
    });
    series.collect()
}

fn is_state(spec: &Spec) -> bool {
    matches!(spec.name, "port_state" | "port_info")
}

fn now(target: &SamplingTarget, clock: &Clock, begin: Instant, end: Instant) -> ReadContext {
    ReadContext {
        at: end,
        begin_ns: clock.wall(begin),
        rate: target.rate_bytes(),
        known_rate: target.known_rate_bytes(),
    }
}

impl SourceState {
    fn new(spec: &'static Spec) -> Self {
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

    fn plan(&mut self, assigned: &[Assigned], fast: bool, carried: &Carried) {
        let shape = Arc::new(PlanShape::new(self.batch.names(), assigned, fast));
        let plan = SourcePlan::new(shape, carried, self.plan.as_ref());
        let names = self.batch.names().len();
        self.full = plan.mask(names, false);
        self.fast = if plan.has_fast() { plan.mask(names, true) } else { Vec::new() };
        self.planned = self.batch.generation();
        self.plan = Some(plan);
    }

    /// Passes raw counters through up to `room`; returns the number left out.
    fn pass(&mut self, target: &SamplingTarget, room: &mut usize) -> usize {
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
    fn judge(&mut self, result: std::thread::Result<Result<(), SampleError>>) -> (Outcome, bool, bool) {
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
