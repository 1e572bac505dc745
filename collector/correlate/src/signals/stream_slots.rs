//! The series of the streaming evaluator: their last samples, and how these become values of a port.

use crate::model::frame::Frame;
use crate::model::priority;
use crate::signals::frame_sink::FrameSink;
use crate::signals::stream_readers::{Reader, Use};
use crate::signals::table::{ALL, LOOK_BACK, SignalSpec};
use foldhash::HashMap;
use smallvec::SmallVec;

/// How long the value of a divisor stays valid, ms.
const DIVISOR_VALID_MS: i64 = 300_000;
/// No slot or cell.
pub(super) const NONE: u32 = u32::MAX;
/// There is no earlier sample, or it is older than this many ms.
const NEVER: u32 = u32::MAX;

/// A series in one of its uses. There are millions, so that what can be worked out is not kept.
pub(super) struct Slot {
    /// Hash of its labels without the name.
    pub same: u64,
    /// Unix ms and value of the newest sample.
    pub newest: (i64, f64),
    /// Value of the last sample of an earlier frame.
    before: f64,
    /// How much older that is than the newest, ms, or [`NEVER`].
    gap_ms: u32,
    pub cell: u32,
    /// What it is used for.
    pub of: Use,
    /// Priority of the series, if the signal is kept per priority.
    pub priority: Option<u8>,
}

impl Slot {
    /// A slot without samples.
    pub(super) fn new(of: Use, same: u64, cell: u32, priority: Option<u8>) -> Self {
        Self { same, newest: (i64::MIN, 0.0), before: 0.0, gap_ms: NEVER, cell, of, priority }
    }

    /// Whether the sample before the newest is older than the frame before.
    fn covers_gap(&self, step_ms: i64) -> bool {
        i64::from(self.gap_ms) > 3 * step_ms / 2
    }

    /// Whether the newest sample is in a frame.
    fn is_in(&self, (frame, step_ms): (i64, i64)) -> bool {
        self.newest.0 <= frame && frame.saturating_sub(self.newest.0) < step_ms
    }

    /// Takes a sample; returns whether it is newer than the newest.
    fn sample(&mut self, now: (i64, f64), frame: (i64, i64)) -> bool {
        if now.0 <= self.newest.0 {
            return false;
        }
        let later = u32::try_from(now.0.saturating_sub(self.newest.0)).unwrap_or(NEVER);
        if self.is_in(frame) {
            self.gap_ms = self.gap_ms.saturating_add(later);
        } else {
            (self.before, self.gap_ms) = (self.newest.1, later);
        }
        self.newest = now;
        true
    }
}

/// All series with what is used of them.
#[derive(Default)]
pub(super) struct Slots {
    pub all: Vec<Slot>,
    /// Divisors of the series that have one.
    pub divisors: HashMap<u32, u32>,
}

impl Slots {
    /// Takes a sample; returns whether it gives its frame a value. Frames have their instant and their distance, ms.
    pub(super) fn sample(&mut self, at: u32, now: (i64, f64), frame: (i64, i64)) -> bool {
        let slot = &mut self.all[at as usize];
        slot.sample(now, frame) && matches!(slot.of, Use::Term(_))
    }

    /// The value that a series gives the frame of its newest sample; `NaN` if there is none.
    fn value(&self, at: u32, terms: &[Reader], step_ms: i64) -> f64 {
        let slot = &self.all[at as usize];
        let Use::Term(term) = slot.of else { return f64::NAN };
        let term = &terms[usize::from(term)];
        let (time, now) = slot.newest;
        let value = match i64::from(slot.gap_ms) {
            _ if !term.rate => now,
            gap_ms if slot.gap_ms == NEVER || gap_ms > LOOK_BACK * step_ms || now < slot.before => f64::NAN,
            gap_ms => (now - slot.before) / gap_ms as f64 * 1000.0,
        } * term.scale;
        let divisor = term.over.and_then(|_| self.divisors.get(&at));
        match divisor.and_then(|over| self.all.get(*over as usize)).map(|over| over.newest) {
            None => value,
            Some((then, by)) if time.saturating_sub(then) <= DIVISOR_VALID_MS => value / by,
            Some(_) => f64::NAN,
        }
    }
}

/// One signal at one port: series that become one value.
pub(super) struct Cell {
    /// Row of its signal.
    pub row: u16,
    /// Its signal is a rate.
    pub is_rate: bool,
    pub port: u32,
    pub members: SmallVec<[u32; 2]>,
}

impl Cell {
    /// Its signal.
    fn row(&self) -> &'static SignalSpec {
        &ALL[usize::from(self.row)]
    }
}

/// What cells give a frame.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub slots: &'a Slots,
    pub cells: &'a [Cell],
    pub terms: &'a [Reader],
    /// Instant of the frame, and the distance of two frames, ms.
    pub frame: (i64, i64),
}

/// What a cell gives a frame.
pub(super) struct CellValue {
    /// Index of the cell.
    cell: u32,
    value: f64,
    /// Its rate began before the frame before.
    pub covers_gap: bool,
}

impl<'a> Values<'a> {
    /// The value of a cell, if its series have any, of which `newest` is the last that was sampled.
    pub(super) fn of(self, at: u32, newest: u32) -> Option<CellValue> {
        let cell = self.cells.get(at as usize)?;
        let step_ms = self.frame.1;
        if cell.members.len() == 1 {
            let value = self.slots.value(newest, self.terms, step_ms);
            let covers_gap = cell.is_rate && self.slots.all[newest as usize].covers_gap(step_ms);
            return (!value.is_nan()).then_some(CellValue { cell: at, value, covers_gap });
        }
        let join = cell.row().join;
        let value = self.first_terms(cell).map(|(_, value)| value).reduce(|a, b| join.of(a, b))?;
        let covers_gap = cell.is_rate && self.here(cell).any(|(slot, _)| slot.covers_gap(step_ms));
        Some(CellValue { cell: at, value, covers_gap })
    }

    /// Writes the value of a cell into the frame.
    pub(super) fn write(self, of: &CellValue, into: &mut Frame) {
        let cell = &self.cells[of.cell as usize];
        let (signal, port) = (cell.row().signal, cell.port as usize);
        into.set(signal, port, of.value);
        // Hardly any port is paused.
        if of.value > 0.0 && priority::column(signal, 0).is_some() {
            for (one, value) in self.first_terms(cell) {
                if let Some(of) = one.priority {
                    into.set_priority(signal, of.into(), port, value);
                }
            }
        }
    }

    /// Copies the value of a cell to the frames just before that have none.
    pub(super) fn fill(self, of: &CellValue, time_ns: i64, sink: &mut dyn FrameSink) {
        let cell = &self.cells[of.cell as usize];
        sink.fill(time_ns, cell.row().signal, cell.port as usize, of.value);
    }

    /// Series of a cell with a value in the frame.
    fn here(self, cell: &'a Cell) -> impl Iterator<Item = (&'a Slot, f64)> {
        let sampled = cell.members.iter().filter(move |at| self.slots.all[**at as usize].is_in(self.frame));
        let valued =
            sampled.map(move |at| (&self.slots.all[*at as usize], self.slots.value(*at, self.terms, self.frame.1)));
        valued.filter(|(_, value)| !value.is_nan())
    }

    /// As with PromQL's `or`: of series that differ only in the name, that of the first term counts.
    fn first_terms(self, cell: &'a Cell) -> impl Iterator<Item = (&'a Slot, f64)> {
        let is_first =
            move |slot: &Slot| !self.here(cell).any(|(other, _)| other.same == slot.same && other.of < slot.of);
        self.here(cell).filter(move |(slot, _)| is_first(slot))
    }
}

/// New indices of list entries after removals.
pub(super) struct NewIndices(Vec<u32>);

impl NewIndices {
    pub(super) fn new(stay: &[bool]) -> Self {
        let mut next = 0..;
        Self(stay.iter().map(|stays| if *stays { next.next().unwrap_or(NONE) } else { NONE }).collect())
    }

    pub(super) fn to(&self, at: u32) -> u32 {
        self.0.get(at as usize).copied().unwrap_or(NONE)
    }

    /// Updates an index; returns whether its entry stays.
    pub(super) fn moves(&self, at: &mut u32) -> bool {
        *at = self.to(*at);
        *at != NONE
    }

    pub(super) fn keep<T>(&self, list: &mut Vec<T>) {
        let mut at = 0..;
        list.retain(|_| at.next().is_some_and(|at: usize| self.0[at] != NONE));
        list.shrink_to_fit();
    }
}
