//! Evaluates signals over samples as they arrive, because querying a store for every series of a large fabric takes
//! longer than one second. Signals that need history or joins are left to PromQL.
//!
//! A rate is the growth from the last sample of one frame to the newest sample of the next, which equals `irate` if a
//! frame has one sample. Frames without samples in between share it. A falling counter gives no value, because the
//! growth before its reset is unknown.

use crate::model::priority;
use crate::model::topology::port_name;
use crate::signals::expression::{Alternatives, Divisor, Measure, Term};
use crate::signals::frame_sink::FrameSink;
use crate::signals::late_samples::LateSamples;
use crate::signals::table::{ALL, LOOK_BACK, SignalSpec};
use fabriclens_model::{Labels, Layout, LayoutId, Matcher, is_absent, is_stale};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Weak;

/// Known label lists before dropped lists are looked for.
const MAX_PLANS: usize = 4096;
/// Limit of series.
const MAX_SERIES: usize = 8_000_000;
/// How long the value of a divisor stays valid, ms.
const DIVISOR_VALID_MS: i64 = 300_000;
/// Series are evicted once one in this many is silent.
const EVICT_ONE_IN: usize = 8;
const NONE: u32 = u32::MAX;

/// A term that is evaluated here.
struct Reader {
    /// Row of its signal in [`ALL`].
    row: usize,
    series: Vec<Matcher>,
    rate: bool,
    scale: f64,
    /// Index of the divisor series.
    over: Option<usize>,
}

/// Terms and divisor series, by metric name.
#[derive(Default)]
struct Readers {
    terms: Vec<Reader>,
    divisors: Vec<Vec<Matcher>>,
    by_metric: HashMap<&'static str, Vec<Use>>,
}

#[derive(Clone, Copy)]
enum Use {
    Term(usize),
    Divisor(usize),
}

impl Readers {
    /// Takes the expression of a row, if all of its terms can be evaluated over arriving samples: gauges and rates of now.
    fn add(&mut self, row: usize, expression: Alternatives) -> bool {
        let streams = |term: &Term| {
            let of_now = matches!(term.measure, Measure::Gauge | Measure::Rate) && term.offset.is_none();
            of_now && term.spread.is_none() && term.unless.is_none()
        };
        expression.0.iter().all(streams) && expression.0.iter().all(|term| self.add_term(row, term).is_some())
    }

    fn add_term(&mut self, row: usize, term: &Term) -> Option<()> {
        let series = term.selector.matchers().ok()?;
        let (scale, over) = match term.divisor {
            None => (1.0, None),
            Some(Divisor::Number(number)) => (1.0 / number, None),
            Some(Divisor::Series(selector)) => {
                self.by_metric.entry(selector.metric).or_default().push(Use::Divisor(self.divisors.len()));
                self.divisors.push(selector.matchers().ok()?);
                (1.0, Some(self.divisors.len() - 1))
            }
        };
        self.by_metric.entry(term.selector.metric).or_default().push(Use::Term(self.terms.len()));
        self.terms.push(Reader { row, series, rate: term.measure == Measure::Rate, scale, over });
        Some(())
    }
}

/// A series in one of its uses.
struct Slot {
    cell: u32,
    term: u32,
    over: u32,
    /// Priority of the series, if the signal is kept per priority.
    priority: Option<u8>,
    /// Hash of its labels without the name.
    same: u64,
    /// Unix ms and value: the last sample of an earlier frame, and the newest sample.
    before: (i64, f64),
    newest: (i64, f64),
    /// Instant of the frame of `value`, Unix ms.
    frame: i64,
    value: f64,
}

impl Slot {
    /// A slot without samples that belongs to no signal.
    fn unused(same: u64) -> Self {
        let never = (i64::MIN, 0.0);
        let (frame, value) = (i64::MIN, f64::NAN);
        Self { cell: NONE, term: NONE, over: NONE, priority: None, same, before: never, newest: never, frame, value }
    }
}

/// One signal at one port: series that become one value.
struct Cell {
    row: usize,
    port: usize,
    members: Vec<u32>,
}

/// A column of a label list that some term reads.
struct Column {
    at: u32,
    slot: u32,
    cell: u32,
}

/// What a label list is used for, by cell; divisors, which have no cell, come first.
struct Plan {
    /// Tells when the list is dropped.
    list: Weak<[Labels]>,
    uses: Vec<Column>,
}

/// The streaming evaluator.
pub struct StreamingEval {
    readers: Readers,
    plans: HashMap<LayoutId, Plan>,
    /// Number of plans at which dropped lists are looked for.
    plan_limit: usize,
    slots: Vec<Slot>,
    cells: Vec<Cell>,
    index: HashMap<(u32, u64), u32>,
    of_port: HashMap<(usize, usize), u32>,
    step_ms: i64,
    full: bool,
    late: LateSamples,
}

impl StreamingEval {
    /// Creates an evaluator for frames `step_ms` apart, and returns the signals that it cannot evaluate.
    pub fn new(step_ms: i64) -> (Self, Vec<&'static SignalSpec>) {
        let mut readers = Readers::default();
        let is_asked = |(at, row): &(usize, &SignalSpec)| row.slow || !readers.add(*at, row.expression);
        let rest = ALL.iter().enumerate().filter(is_asked).map(|r| r.1).collect();
        let standing = Self {
            readers,
            plans: HashMap::new(),
            plan_limit: MAX_PLANS,
            slots: Vec::new(),
            cells: Vec::new(),
            index: HashMap::new(),
            of_port: HashMap::new(),
            step_ms: step_ms.max(1),
            full: false,
            late: LateSamples::default(),
        };
        (standing, rest)
    }

    /// Instant of the frame that contains a time, Unix ms.
    pub fn frame_of(&self, time_ms: i64) -> i64 {
        frame_of(time_ms, self.step_ms)
    }

    /// Drops what is known about label lists after the topology has changed, because unknown ports may be known now.
    pub fn rewired(&mut self) {
        self.plans.clear();
    }

    /// Ports with a sample since an instant (Unix ms).
    pub fn heard(&self, since_ms: i64) -> HashSet<usize> {
        let newer = self.slots.iter().filter(|slot| slot.newest.0 >= since_ms);
        newer.filter_map(|slot| Some(self.cells.get(slot.cell as usize)?.port)).collect()
    }

    /// Evicts series without samples since an instant (Unix ms) once they are many, because hosts come and go for
    /// months. Series of ports in `gone` are evicted at once.
    pub fn forget(&mut self, before_ms: i64, gone: &HashSet<usize>) {
        let is_gone = |slot: &Slot| self.cells.get(slot.cell as usize).is_some_and(|cell| gone.contains(&cell.port));
        let mut stays: Vec<bool> = self.slots.iter().map(|slot| slot.newest.0 >= before_ms && !is_gone(slot)).collect();
        for (at, slot) in self.slots.iter().enumerate() {
            if stays[at] && slot.over != NONE {
                stays[slot.over as usize] = true;
            }
        }
        let few = stays.iter().filter(|stays| !**stays).count() < (self.slots.len() / EVICT_ONE_IN).max(1);
        if few && gone.is_empty() {
            return;
        }
        let mut cells_stay = vec![false; self.cells.len()];
        for (slot, _) in self.slots.iter().zip(&stays).filter(|(slot, stays)| **stays && slot.cell != NONE) {
            cells_stay[slot.cell as usize] = true;
        }
        let (slots, cells) = (NewIndices::new(&stays), NewIndices::new(&cells_stay));
        slots.keep(&mut self.slots);
        cells.keep(&mut self.cells);
        for slot in &mut self.slots {
            (slot.over, slot.cell) = (slots.to(slot.over), cells.to(slot.cell));
        }
        for cell in &mut self.cells {
            cell.members.retain_mut(|member| slots.moves(member));
        }
        self.index.retain(|_, slot| slots.moves(slot));
        self.index.shrink_to_fit();
        self.of_port.retain(|_, cell| cells.moves(cell));
        self.plans.retain(|_, plan| {
            plan.list.strong_count() > 0
                && plan.uses.iter_mut().all(|column| {
                    column.cell = cells.to(column.cell);
                    slots.moves(&mut column.slot)
                })
        });
        self.full = false;
    }

    /// Time spans (Unix ms) of samples that arrived too late for live evaluation, since the last call.
    pub fn late(&mut self) -> Vec<[i64; 2]> {
        self.late.take()
    }

    /// Number of series.
    pub fn series(&self) -> usize {
        self.slots.len()
    }

    /// Whether series were ignored because of the limit.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Writes samples (column-major, as the store has them) into the frames of `sink`; drops samples that no frame
    /// covers.
    pub fn take(&mut self, series: &Layout, times: &[i64], values: &[f64], sink: &mut dyn FrameSink) {
        let id = series.id();
        if !self.plans.contains_key(&id) {
            if self.plans.len() >= self.plan_limit {
                self.plans.retain(|_, plan| plan.list.strong_count() > 0);
                self.plan_limit = MAX_PLANS.max(2 * self.plans.len());
            }
            let uses = self.plan(series, sink);
            self.plans.insert(id, Plan { list: series.downgrade(), uses });
        }
        let Self { readers, plans, slots, cells, step_ms, late, .. } = self;
        let Some(plan) = plans.get(&id).filter(|plan| !plan.uses.is_empty()) else { return };
        let (first, now_ms) = (plan.uses[0].slot as usize, sink.now_ns() / 1_000_000);
        for (row, time) in times.iter().enumerate() {
            let frame = frame_of(*time, *step_ms);
            late.record(slots[first].same, *time, slots[first].newest.0, now_ms);
            for of_cell in plan.uses.chunk_by(|a, b| a.cell == b.cell) {
                let mut any = false;
                for column in of_cell {
                    let value = values[column.at as usize * times.len() + row];
                    if !is_absent(value) && !is_stale(value) {
                        any |= sample(slots, column.slot, &readers.terms, (*time, value), (frame, *step_ms));
                    }
                }
                if let Some(cell) = cells.get(of_cell[0].cell as usize).filter(|_| any) {
                    write(cell, slots, (frame, *step_ms), sink);
                }
            }
        }
    }

    fn plan(&mut self, series: &Layout, sink: &mut dyn FrameSink) -> Vec<Column> {
        let mut uses = Vec::new();
        for (column, labels) in series.iter().enumerate() {
            let Some(found) = self.readers.by_metric.get(labels.metric()) else { continue };
            for one in found.clone() {
                if let Some(slot) = self.slot(one, labels, sink) {
                    uses.push(Column { at: column as u32, slot, cell: self.slots[slot as usize].cell });
                }
            }
        }
        uses.sort_by_key(|column: &Column| column.cell.wrapping_add(1));
        uses
    }

    fn slot(&mut self, one: Use, labels: &Labels, sink: &mut dyn FrameSink) -> Option<u32> {
        let (matchers, number) = match one {
            Use::Term(at) => (&self.readers.terms[at].series, 2 * at as u32),
            Use::Divisor(at) => (&self.readers.divisors[at], 2 * at as u32 + 1),
        };
        if !matchers.iter().all(|m| m.matches(labels)) {
            return None;
        }
        let same = hash(labels);
        if let Some(slot) = self.index.get(&(number, same)) {
            return Some(*slot);
        }
        if self.slots.len() >= MAX_SERIES {
            self.full = true;
            return None;
        }
        let Use::Term(at) = one else { return Some(self.divisor(number, same)) };
        let port = sink.measured_port(labels.get("host"), &port_name(labels))?;
        let (row, over) = (self.readers.terms[at].row, self.readers.terms[at].over);
        let over = over.map_or(NONE, |divisor| self.divisor(2 * divisor as u32 + 1, same));
        let next = self.cells.len() as u32;
        let cell = *self.of_port.entry((row, port)).or_insert(next);
        if cell == next {
            self.cells.push(Cell { row, port, members: Vec::new() });
        }
        let slot = self.slots.len() as u32;
        self.cells[cell as usize].members.push(slot);
        let priority = priority::of_series(ALL[row].signal, labels).map(|of| of as u8);
        self.slots.push(Slot { cell, term: at as u32, over, priority, ..Slot::unused(same) });
        self.index.insert((number, same), slot);
        Some(slot)
    }

    fn divisor(&mut self, number: u32, same: u64) -> u32 {
        let next = self.slots.len() as u32;
        let slot = *self.index.entry((number, same)).or_insert(next);
        if slot == next {
            self.slots.push(Slot::unused(same));
        }
        slot
    }
}

/// New indices of list entries after removals.
struct NewIndices(Vec<u32>);

impl NewIndices {
    fn new(stay: &[bool]) -> Self {
        let mut next = 0..;
        Self(stay.iter().map(|stays| if *stays { next.next().unwrap_or(NONE) } else { NONE }).collect())
    }

    fn to(&self, at: u32) -> u32 {
        self.0.get(at as usize).copied().unwrap_or(NONE)
    }

    /// Updates an index; returns whether its entry stays.
    fn moves(&self, at: &mut u32) -> bool {
        *at = self.to(*at);
        *at != NONE
    }

    fn keep<T>(&self, list: &mut Vec<T>) {
        let mut at = 0..;
        list.retain(|_| at.next().is_some_and(|at: usize| self.0[at] != NONE));
        list.shrink_to_fit();
    }
}

fn frame_of(time_ms: i64, step_ms: i64) -> i64 {
    time_ms.saturating_sub(1).div_euclid(step_ms).saturating_add(1).saturating_mul(step_ms)
}

/// Hash of all labels but the name.
fn hash(labels: &Labels) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.iter().filter(|(name, _)| *name != "__name__").for_each(|pair| pair.hash(&mut hasher));
    hasher.finish()
}

/// Takes a sample; returns whether it gives its frame a value.
fn sample(slots: &mut [Slot], at: u32, terms: &[Reader], now: (i64, f64), (frame, step_ms): (i64, i64)) -> bool {
    let over = slots[at as usize].over;
    let divisor = slots.get(over as usize).map(|s| s.newest);
    let slot = &mut slots[at as usize];
    if now.0 <= slot.newest.0 {
        return false;
    }
    if slot.frame != frame {
        (slot.before, slot.frame) = (slot.newest, frame);
    }
    slot.newest = now;
    let Some(term) = terms.get(slot.term as usize) else { return false };
    let value = match slot.before {
        _ if !term.rate => now.1,
        (then, _) if then == i64::MIN || now.0 - then > LOOK_BACK * step_ms => f64::NAN,
        (_, past) if now.1 < past => f64::NAN,
        (then, past) => (now.1 - past) / (now.0 - then) as f64 * 1000.0,
    };
    slot.value = match divisor {
        None => value * term.scale,
        Some((then, by)) if now.0.saturating_sub(then) <= DIVISOR_VALID_MS => value * term.scale / by,
        Some(_) => f64::NAN,
    };
    true
}

fn write(cell: &Cell, slots: &[Slot], (frame, step_ms): (i64, i64), sink: &mut dyn FrameSink) {
    let row = &ALL[cell.row];
    let here = || cell.members.iter().map(|m| &slots[*m as usize]).filter(|s| s.frame == frame && !s.value.is_nan());
    // As with PromQL's `or`: of series that differ only in the name, that of the first term counts.
    let first = |slot: &&Slot| !here().any(|other| other.same == slot.same && other.term < slot.term);
    let first_terms = || here().filter(first);
    let Some(value) = first_terms().map(|s| s.value).reduce(|a, b| row.join.of(a, b)) else { return };
    let time_ns = frame.saturating_mul(1_000_000);
    if let Some(into) = sink.frame(time_ns) {
        into.set(row.signal, cell.port, value);
        // Hardly any port is paused.
        for one in first_terms().filter(|_| value > 0.0) {
            if let Some(of) = one.priority {
                into.set_priority(row.signal, of.into(), cell.port, one.value);
            }
        }
    }
    if row.is_rate() && here().any(|s| s.newest.0 - s.before.0 > 3 * step_ms / 2) {
        sink.fill(time_ns, row.signal, cell.port, value);
    }
}
