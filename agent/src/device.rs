//! Runs the sources of one subject: opens them, reads them, survives them, and makes sections of what they give.
//!
//! Owned by one thread of `schedule`; what others may look at is in [`Shared`].

mod account;

pub use account::{Account, Shared};

use crate::schedule::{Outcome, Settings};
use crate::state::{Series, Target, boot_ns};
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_samplers::counter::Total;
use fabriclens_agent_samplers::plan::{Assigned, Assignment, Candidates, Carried, LinePlan, Now, assign, saturated};
use fabriclens_agent_samplers::target::Subject;
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
/// What is not there may appear (PFC switched on, a module plugged in).
const ABSENT: Duration = Duration::from_secs(30);
/// Raw counters that one port passes through at most: some drivers have thousands, with one of each per queue.
const MOST_PASSED: usize = 256;

/// Which samples are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// The congestion sample.
    Fast,
    /// The full sample.
    Full,
    /// The full sample and slow facts; also looks for what has appeared.
    Slow,
    /// Only state: something happened.
    State,
}

struct Line {
    spec: &'static Spec,
    sampler: Option<Box<dyn Sampler>>,
    batch: Batch,
    plan: Option<LinePlan>,
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
    /// Counters at their end for which another source stands in, as facts.
    stuck: Vec<(Column, Value)>,
}

/// The sources of one subject.
pub struct Runner {
    subject: Subject,
    lines: Vec<Line>,
    /// Lines that a congestion sample reads.
    fast: Vec<usize>,
    shared: Arc<Shared>,
    clock: Arc<Clock>,
    last_end: u64,
    /// Of the agent before this one, until the first samples are through.
    memory: Option<(Target, Instant)>,
    remembers: bool,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("target", &self.shared.target).finish_non_exhaustive()
    }
}

impl Runner {
    /// All sources that apply to the subject and are on.
    pub fn new(subject: Subject, settings: &Settings, clock: Arc<Clock>) -> Self {
        let on = |spec: &Spec| settings.is_on(spec);
        let may_read = subject.device.as_ref().is_none_or(|d| d.class.may_read());
        let specs: Vec<_> =
            ALL.iter().filter(|s| on(s) && (s.applies)(&subject) && (may_read || is_state(s))).collect();
        let target = subject.target();
        let accounts = specs.iter().map(|spec| Account::new(spec, &target)).collect();
        let latest = specs.iter().map(|_| [None, None]).collect();
        let events = Mutex::default();
        let (accounts, latest) = (Mutex::new(accounts), Mutex::new(latest));
        let shared = Shared {
            target,
            full: settings.full,
            ended: AtomicBool::new(false),
            events,
            accounts,
            latest,
            memory: Mutex::default(),
        };
        let lines = specs.into_iter().map(Line::new).collect();
        Self {
            subject,
            lines,
            fast: Vec::new(),
            shared: Arc::new(shared),
            clock,
            last_end: 0,
            memory: None,
            remembers: settings.state_dir.is_some(),
        }
    }

    /// Goes on where the agent before this one ended.
    pub fn recall(&mut self, memory: Option<(Target, Instant)>) {
        self.memory = memory;
    }

    /// What the next agent needs to go on.
    fn remember(&self) {
        let mut target =
            Target { identity: self.subject.identity(), at: boot_ns(), series: Vec::new(), readings: BTreeMap::new() };
        let mut carried = Carried::new();
        for line in &self.lines {
            if let Some(plan) = &line.plan {
                plan.carry(&mut carried);
                target.readings.insert(line.spec.name.to_string(), plan.readings());
            }
        }
        target.series = carried
            .into_iter()
            .map(|((metric, labels), (total, start))| Series {
                metric: metric.to_string(),
                labels: labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
                count: total.count(),
                scale: total.scale(),
                start,
            })
            .collect();
        *self.shared.memory.lock() = Some(target);
    }

    /// What others may look at.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The subject.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// True when a congestion sample has anything to read.
    pub fn has_fast(&self) -> bool {
        self.fast.iter().any(|index| self.lines[*index].sampler.is_some())
    }

    /// Reads what is due and hands the sections to `emit`. False when the device is gone.
    pub fn run(&mut self, tick: Tick, emit: &mut dyn FnMut(Section)) -> bool {
        if tick == Tick::Fast {
            return self.run_fast();
        }
        let mut gone = false;
        let mut due = vec![false; self.lines.len()];
        for (index, due) in due.iter_mut().enumerate() {
            *due = match tick {
                Tick::State => is_state(self.lines[index].spec),
                Tick::Slow => true,
                _ => self.lines[index].spec.period == Period::Full,
            };
            if *due {
                gone |= self.read(index, tick == Tick::Slow);
            }
        }
        // A link that changed may have come back slower; its rate is a slow fact otherwise.
        if tick == Tick::Full && self.lines.iter().any(|l| is_state(l.spec) && l.fresh && l.batch.urgent) {
            for (index, due) in due.iter_mut().enumerate().filter(|(_, due)| !**due) {
                if is_state(self.lines[index].spec) {
                    *due = true;
                    gone |= self.read(index, false);
                }
            }
        }
        let changed = |l: &Line| l.fresh && (l.plan.is_none() || l.planned != l.batch.generation());
        if tick == Tick::Slow || self.lines.iter().any(changed) {
            let ended = self.replan();
            self.end(ended, emit);
        }
        for index in (0..self.lines.len()).filter(|i| due[*i]) {
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
            let line = &mut self.lines[index];
            let (Some(sampler), Some(plan)) = (&mut line.sampler, &mut line.plan) else { continue };
            if line.planned != line.batch.generation() {
                continue;
            }
            let begin = Instant::now();
            line.batch.begin();
            self.shared.begin(index, begin);
            let result = catch_unwind(AssertUnwindSafe(|| sampler.sample(&line.fast, &mut line.batch)));
            let end = Instant::now();
            self.shared.end(index, end - begin);
            // A failure here is told by the next full sample.
            if let Ok(Ok(())) = result
                && line.planned == line.batch.generation()
            {
                let now = now(&self.subject, &self.clock, begin, end);
                plan.take_fast(&line.batch, now);
            }
            gone |= matches!(result, Ok(Err(SampleError::Gone(_))));
        }
        !gone
    }

    /// One read of one source. True when the device is gone.
    fn read(&mut self, index: usize, everything: bool) -> bool {
        let begin = Instant::now();
        let line = &mut self.lines[index];
        line.fresh = false;
        if line.sampler.is_none() && begin < line.retry {
            return false;
        }
        self.shared.begin(index, begin);
        let mask: &[bool] = if everything { &[] } else { &line.full };
        let Line { sampler, batch, spec, .. } = line;
        batch.begin();
        let subject = &self.subject;
        let result = catch_unwind(AssertUnwindSafe(|| {
            let sampler = match sampler {
                Some(sampler) => sampler,
                none => none.insert((spec.open)(subject)?),
            };
            sampler.sample(mask, batch)
        }));
        let end = Instant::now();
        line.begin_ns = self.clock.wall(begin);
        line.ended = end;
        if line.opened_ns == 0 {
            line.opened_ns = line.begin_ns;
        }
        line.fresh = matches!(result, Ok(Ok(())));
        let (outcome, panicked, gone) = line.judge(result);
        self.shared.told(index, end - begin, outcome, panicked, &line.batch, self.clock.wall(end));
        gone
    }

    /// Columns of all plans.
    fn planned(&self) -> impl Iterator<Item = Arc<[Column]>> {
        self.lines.iter().filter_map(|l| l.plan.as_ref().map(LinePlan::columns))
    }

    /// Binds all sources of the subject anew; series that live on keep their totals. Returns those that do not.
    fn replan(&mut self) -> Vec<Column> {
        let had: Vec<Arc<[Column]>> = self.planned().collect();
        let data = |l: &Line| (l.fresh || l.plan.is_some()) && l.batch.values.len() == l.batch.names().len();
        let candidates = Candidates {
            subject: &self.subject,
            lines: self.lines.iter().map(|l| data(l).then_some((l.spec.source, &l.batch, l.plan.as_ref()))).collect(),
        };
        let Assignment { lines: assigned, unknown, stuck } = assign(&candidates);
        let mut carried = self.memory.as_ref().map(|(memory, _)| recalled(memory)).unwrap_or_default();
        for plan in self.lines.iter().filter_map(|l| l.plan.as_ref()) {
            plan.carry(&mut carried);
        }
        let mut room = MOST_PASSED;
        let mut accounts = self.shared.accounts.lock();
        for (index, (line, assigned)) in self.lines.iter_mut().zip(&assigned).enumerate() {
            accounts[index].unknown = unknown[index];
            line.stuck = stuck[index].iter().map(saturated).collect();
            if line.fresh || line.plan.is_some() {
                let first = line.plan.is_none();
                line.plan(assigned, is_fast(self.subject.family(line.spec.source), line.spec.source), &carried);
                let memory = self.memory.as_ref().filter(|_| first);
                let readings = memory.and_then(|(m, at)| Some((m.readings.get(line.spec.name)?, *at)));
                if let (Some(plan), Some((readings, at))) = (&mut line.plan, readings) {
                    plan.recall(readings, at);
                }
                accounts[index].left_out = line.pass(&self.subject, &mut room);
            }
        }
        drop(accounts);
        self.fast = (0..self.lines.len()).filter(|index| !self.lines[*index].fast.is_empty()).collect();
        let has: Vec<Arc<[Column]>> = self.planned().collect();
        let key = |c: &Column| (c.metric.name, c.labels.clone());
        let has: HashSet<_> = has.iter().flat_map(|columns| columns.iter().map(key)).collect();
        had.iter().flat_map(|columns| columns.iter()).filter(|c| !has.contains(&key(c))).cloned().collect()
    }

    /// Ends series that the device no longer gives, so that nobody takes their last value for today's.
    fn end(&mut self, ended: Vec<Column>, emit: &mut dyn FnMut(Section)) {
        if ended.is_empty() {
            return;
        }
        self.last_end = self.clock.now().max(self.last_end + 1);
        emit(Section {
            resource: Arc::clone(&self.subject.resource),
            starts: vec![0; ended.len()].into(),
            values: vec![Value::Stale; ended.len()],
            columns: ended.into(),
            begin_ns: self.last_end,
            end_ns: self.last_end,
            urgent: false,
        });
    }

    fn emit(&mut self, index: usize, emit: &mut dyn FnMut(Section)) {
        let line = &mut self.lines[index];
        if !line.fresh {
            return self.fade(index, emit);
        }
        let now = Now {
            at: line.ended,
            begin_ns: line.begin_ns,
            rate: self.subject.rate_bytes(),
            known_rate: self.subject.known_rate_bytes(),
        };
        // Strictly increasing, whatever the mapping to wall time does.
        self.last_end = self.clock.wall(line.ended).max(self.last_end + 1);
        let section = |columns, starts, values, urgent| Section {
            resource: Arc::clone(&self.subject.resource),
            columns,
            begin_ns: line.begin_ns.min(self.last_end),
            end_ns: self.last_end,
            starts,
            values,
            urgent,
        };
        let mut made = [None, None];
        if let Some(plan) = line.plan.as_mut().filter(|p| !p.is_empty()) {
            let urgent = plan.take_full(&line.batch, now);
            let values = plan.values(&line.batch, now.known_rate);
            made[0] = Some(section(plan.columns(), plan.starts(), values, urgent));
            plan.saturated(&mut line.batch.facts);
            self.shared.accounts.lock()[index].discontinuities = plan.discontinuities;
        }
        line.batch.facts.extend(line.stuck.iter().cloned());
        if line.spec.name == "port_state" {
            for (kind, count) in self.shared.events.lock().iter() {
                line.batch.fact(&PORT_ASYNC_EVENTS, &[("event", kind)], Value::Int(*count));
            }
        }
        let had = Arc::clone(&line.facts);
        let same = had.len() == line.batch.facts.len() && had.iter().zip(&line.batch.facts).all(|(h, (c, _))| h == c);
        if !same {
            let ended: Vec<Column> =
                had.iter().filter(|h| line.batch.facts.iter().all(|(c, _)| c != *h)).cloned().collect();
            if !ended.is_empty() {
                let values = vec![Value::Stale; ended.len()];
                emit(section(ended.into(), Arc::from(vec![0; values.len()]), values, false));
            }
            line.facts = line.batch.facts.iter().map(|(column, _)| column.clone()).collect();
        }
        if !line.facts.is_empty() {
            let values = line.batch.facts.iter().map(|(_, value)| value.clone()).collect();
            let starts = Arc::from(vec![line.opened_ns; line.facts.len()]);
            made[1] = Some(section(Arc::clone(&line.facts), starts, values, line.batch.urgent));
        }
        for section in made.iter().flatten() {
            emit(section.clone());
        }
        self.shared.latest.lock()[index] = made;
    }

    /// A source that gave nothing: its series end instead of standing still.
    fn fade(&mut self, index: usize, emit: &mut dyn FnMut(Section)) {
        let had = std::mem::take(&mut self.shared.latest.lock()[index]);
        for mut section in had.into_iter().flatten() {
            section.values.fill(Value::Stale);
            self.last_end = self.clock.now().max(self.last_end + 1);
            (section.begin_ns, section.end_ns, section.urgent) = (self.last_end, self.last_end, false);
            emit(section);
        }
    }

    /// Ends all series: the device is gone.
    pub fn close(&mut self, emit: &mut dyn FnMut(Section)) {
        if self.remembers {
            self.remember();
        }
        for index in 0..self.lines.len() {
            self.fade(index, emit);
        }
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

/// Totals of the agent before, as far as the catalog still knows them.
fn recalled(memory: &Target) -> Carried {
    let series = memory.series.iter().filter_map(|s| {
        let labels = s.labels.iter().map(|(n, v)| (Arc::from(n.as_str()), Arc::from(v.as_str()))).collect();
        Some(((by_name(&s.metric)?.name, labels), (Total::remembered(s.count, s.scale)?, s.start)))
    });
    series.collect()
}

fn is_state(spec: &Spec) -> bool {
    matches!(spec.name, "port_state" | "port_info")
}

fn now(subject: &Subject, clock: &Clock, begin: Instant, end: Instant) -> Now {
    Now { at: end, begin_ns: clock.wall(begin), rate: subject.rate_bytes(), known_rate: subject.known_rate_bytes() }
}

impl Line {
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
        let plan = LinePlan::new(&self.batch, assigned, fast, carried, self.plan.as_ref());
        let names = self.batch.names().len();
        self.full = plan.mask(names, false);
        self.fast = if plan.has_fast() { plan.mask(names, true) } else { Vec::new() };
        self.planned = self.batch.generation();
        self.plan = Some(plan);
    }

    /// Passes raw counters through while there is `room`; returns how many there was none for.
    fn pass(&mut self, subject: &Subject, room: &mut usize) -> usize {
        let names = self.batch.names().iter().enumerate();
        let mut raws: Vec<usize> = names.filter(|(_, name)| subject.passes(name)).map(|(raw, _)| raw).collect();
        let left_out = raws.len().saturating_sub(*room);
        raws.truncate(*room);
        *room -= raws.len();
        if let Some(plan) = self.plan.as_mut().filter(|_| !raws.is_empty()) {
            plan.pass(&self.batch, raws, self.spec.source);
            self.full = plan.mask(self.batch.names().len(), false);
        }
        left_out
    }

    /// Outcome, whether it panicked, whether the device is gone; sets when to try again.
    fn judge(&mut self, result: std::thread::Result<Result<(), SampleError>>) -> (Outcome, bool, bool) {
        let (outcome, wait, panicked, gone) = match result {
            Ok(Ok(())) => {
                self.wait = SHORTEST;
                return (Outcome::Data { counters: self.batch.len() }, false, false);
            }
            Ok(Err(SampleError::Absent(why))) => (Outcome::Absent(why), ABSENT, false, false),
            Ok(Err(SampleError::Failed(why))) => (Outcome::Error(why), self.wait, false, false),
            Ok(Err(SampleError::Gone(why))) => (Outcome::Error(why), SHORTEST, false, true),
            // What it has open already is kept: there may be no room to open it again.
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
