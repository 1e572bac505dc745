//! Evaluates signals over samples as they arrive, because querying a store for every series of a large fabric takes
//! longer than one second. Signals that need history or joins are left to PromQL.
//!
//! A rate is the growth from the last sample of one frame to the newest sample of the next, which equals `irate` if a
//! frame has one sample. Frames without samples in between share it. A falling counter gives no value, because the
//! growth before its reset is unknown.

use crate::model::priority;
use crate::model::topology::port_name;
use crate::signals::frame_sink::FrameSink;
use crate::signals::late_samples::LateSamples;
use crate::signals::stream_readers::{Readers, Use};
use crate::signals::stream_slots::{Cell, CellValue, NONE, NewIndices, Slot, Slots, Values};
use crate::signals::table::{ALL, SignalSpec};
use fabriclens_model::{Labels, Layout, LayoutId, WeakLayout, is_absent, is_stale};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use hashbrown::HashTable;
use smallvec::SmallVec;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher};

/// Known label lists before dropped lists are looked for.
const MAX_PLANS: usize = 4096;
/// Limit of series.
const MAX_SERIES: usize = 8_000_000;
/// Series are evicted once one in this many is silent.
const EVICT_ONE_IN: usize = 8;

/// A column of a label list that some term reads.
struct Column {
    at: u32,
    slot: u32,
    cell: u32,
}

/// What a label list is used for, by cell; divisors, which have no cell, come first.
struct Plan {
    /// Tells when the list is dropped.
    list: WeakLayout,
    uses: Vec<Column>,
}

/// The streaming evaluator.
pub struct StreamingEval {
    readers: Readers,
    plans: HashMap<LayoutId, Plan>,
    /// Number of plans at which dropped lists are looked for.
    plan_limit: usize,
    slots: Slots,
    cells: Vec<Cell>,
    /// Slots by use and hash of the labels.
    index: HashTable<u32>,
    hasher: RandomState,
    of_port: HashMap<(u16, u32), u32>,
    step_ms: i64,
    full: bool,
    late: LateSamples,
    /// Values of one row, kept for its room.
    values: Vec<CellValue>,
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
            slots: Slots::default(),
            cells: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::default(),
            of_port: HashMap::new(),
            step_ms: step_ms.max(1),
            full: false,
            late: LateSamples::default(),
            values: Vec::new(),
        };
        (standing, rest)
    }

    /// Names of the metrics that [`StreamingEval::take`] reads, sorted; samples of others have no effect on it.
    pub fn metrics(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.readers.by_metric.keys().copied().collect();
        names.sort_unstable();
        names
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
        let newer = self.slots.all.iter().filter(|slot| slot.newest.0 >= since_ms);
        newer.filter_map(|slot| Some(self.cells.get(slot.cell as usize)?.port as usize)).collect()
    }

    /// Evicts series without samples since an instant (Unix ms) once they are many, because hosts come and go for
    /// months. Series of ports in `gone` are evicted at once.
    pub fn forget(&mut self, before_ms: i64, gone: &HashSet<usize>) {
        let all = &mut self.slots.all;
        let port = |slot: &Slot| self.cells.get(slot.cell as usize).map(|cell| cell.port as usize);
        let is_gone = |slot: &Slot| port(slot).is_some_and(|port| gone.contains(&port));
        let mut stays: Vec<bool> = all.iter().map(|slot| slot.newest.0 >= before_ms && !is_gone(slot)).collect();
        for (slot, divisor) in &self.slots.divisors {
            stays[*divisor as usize] |= stays[*slot as usize];
        }
        let few = stays.iter().filter(|stays| !**stays).count() < (all.len() / EVICT_ONE_IN).max(1);
        if few && gone.is_empty() {
            return;
        }
        let mut cells_stay = vec![false; self.cells.len()];
        for (slot, _) in all.iter().zip(&stays).filter(|(slot, stays)| **stays && slot.cell != NONE) {
            cells_stay[slot.cell as usize] = true;
        }
        let (slots, cells) = (NewIndices::new(&stays), NewIndices::new(&cells_stay));
        slots.keep(all);
        cells.keep(&mut self.cells);
        for slot in all {
            slot.cell = cells.to(slot.cell);
        }
        let divisors = self.slots.divisors.drain().map(|(slot, divisor)| (slots.to(slot), slots.to(divisor)));
        self.slots.divisors = divisors.filter(|(slot, _)| *slot != NONE).collect();
        for cell in &mut self.cells {
            cell.members.retain(|member| slots.moves(member));
        }
        self.index.retain(|slot| slots.moves(slot));
        self.index.shrink_to_fit(|at| hash_of(&self.hasher, &self.slots.all, *at));
        self.of_port.retain(|_, cell| cells.moves(cell));
        self.plans.retain(|_, plan| {
            plan.list.is_alive()
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
        self.slots.all.len()
    }

    /// Whether series were ignored because of the limit.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Writes samples (column-major, as the store has them) into the frames of `sink`; drops samples that no frame
    /// covers.
    pub fn take(&mut self, series: &Layout, times: &[i64], samples: &[f64], sink: &mut dyn FrameSink) {
        let id = series.id();
        if !self.plans.contains_key(&id) {
            if self.plans.len() >= self.plan_limit {
                self.plans.retain(|_, plan| plan.list.is_alive());
                self.plan_limit = MAX_PLANS.max(2 * self.plans.len());
            }
            let uses = self.plan(series, sink);
            self.plans.insert(id, Plan { list: series.downgrade(), uses });
        }
        let Self { readers, plans, slots, cells, step_ms, late, values, .. } = self;
        let Some(plan) = plans.get(&id).filter(|plan| !plan.uses.is_empty()) else { return };
        let (first, now_ms) = (plan.uses[0].slot as usize, sink.now_ns() / 1_000_000);
        for (row, time) in times.iter().enumerate() {
            let frame = (frame_of(*time, *step_ms), *step_ms);
            late.record(slots.all[first].same, *time, slots.all[first].newest.0, now_ms);
            values.clear();
            for of_cell in plan.uses.chunk_by(|a, b| a.cell == b.cell) {
                let mut any = false;
                for column in of_cell {
                    let value = samples[column.at as usize * times.len() + row];
                    if !is_absent(value) && !is_stale(value) {
                        any |= slots.sample(column.slot, (*time, value), frame);
                    }
                }
                if any {
                    let all = Values { slots, cells, terms: &readers.terms, frame };
                    values.extend(all.of(of_cell[0].cell, of_cell[0].slot));
                }
            }
            if values.is_empty() {
                continue;
            }
            let all = Values { slots, cells, terms: &readers.terms, frame };
            let time_ns = frame.0.saturating_mul(1_000_000);
            if let Some(into) = sink.frame(time_ns) {
                values.iter().for_each(|value| all.write(value, into));
            }
            values.iter().filter(|value| value.covers_gap).for_each(|value| all.fill(value, time_ns, sink));
        }
    }

    fn plan(&mut self, series: &Layout, sink: &mut dyn FrameSink) -> Vec<Column> {
        let mut uses = Vec::new();
        for (column, labels) in series.iter().enumerate() {
            let Some(found) = self.readers.by_metric.get(labels.metric()) else { continue };
            for one in found.clone() {
                if let Some(slot) = self.slot(one, labels, sink) {
                    uses.push(Column { at: column as u32, slot, cell: self.slots.all[slot as usize].cell });
                }
            }
        }
        uses.sort_by_key(|column: &Column| column.cell.wrapping_add(1));
        uses.shrink_to_fit();
        uses
    }

    fn slot(&mut self, one: Use, labels: &Labels, sink: &mut dyn FrameSink) -> Option<u32> {
        let matchers = match one {
            Use::Term(at) => &self.readers.terms[usize::from(at)].series,
            Use::Divisor(at) => &self.readers.divisors[usize::from(at)],
        };
        if !matchers.iter().all(|m| m.matches(labels)) {
            return None;
        }
        let same = hash(labels);
        if let Some(slot) = self.known(one, same) {
            return Some(slot);
        }
        if self.slots.all.len() >= MAX_SERIES {
            self.full = true;
            return None;
        }
        let Use::Term(at) = one else { return Some(self.divisor(one, same)) };
        let port = sink.measured_port(labels.get("host"), &port_name(labels))? as u32;
        let (row, over) = (self.readers.terms[usize::from(at)].row, self.readers.terms[usize::from(at)].over);
        let divisor = over.map(|divisor| self.divisor(Use::Divisor(divisor), same));
        let next = self.cells.len() as u32;
        let cell = *self.of_port.entry((row, port)).or_insert(next);
        let spec = &ALL[usize::from(row)];
        if cell == next {
            self.cells.push(Cell { row, is_rate: spec.is_rate(), port, members: SmallVec::new() });
        }
        let priority = priority::of_series(spec.signal, labels).map(|of| of as u8);
        let slot = self.add(Slot::new(one, same, cell, priority));
        self.slots.divisors.extend(divisor.map(|divisor| (slot, divisor)));
        self.cells[cell as usize].members.push(slot);
        Some(slot)
    }

    fn divisor(&mut self, of: Use, same: u64) -> u32 {
        self.known(of, same).unwrap_or_else(|| self.add(Slot::new(of, same, NONE, None)))
    }

    fn known(&self, of: Use, same: u64) -> Option<u32> {
        let slot = |at: &u32| &self.slots.all[*at as usize];
        let is = |at: &u32| slot(at).of == of && slot(at).same == same;
        self.index.find(self.hasher.hash_one((of, same)), is).copied()
    }

    fn add(&mut self, slot: Slot) -> u32 {
        let Self { slots: Slots { all: slots, .. }, index, hasher, .. } = self;
        slots.push(slot);
        let at = (slots.len() - 1) as u32;
        index.insert_unique(hash_of(hasher, slots, at), at, |at| hash_of(hasher, slots, *at));
        at
    }
}

/// Hash of a slot in the index.
fn hash_of(hasher: &RandomState, slots: &[Slot], at: u32) -> u64 {
    let slot = &slots[at as usize];
    hasher.hash_one((slot.of, slot.same))
}

fn frame_of(time_ms: i64, step_ms: i64) -> i64 {
    time_ms.saturating_sub(1).div_euclid(step_ms).saturating_add(1).saturating_mul(step_ms)
}

/// Hash of all labels but the name.
pub(crate) fn hash(labels: &Labels) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.iter().filter(|(name, _)| *name != "__name__").for_each(|pair| pair.hash(&mut hasher));
    hasher.finish()
}
