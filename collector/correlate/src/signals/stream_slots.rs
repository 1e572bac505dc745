//! The series of the streaming evaluator: their last samples, and how these become values of a port.

use crate::model::frame::Frame;
use crate::model::priority;
use crate::signals::frame_sink::FrameSink;
use crate::signals::stream_readers::{Reader, Use};
use crate::signals::table::{ALL, LOOK_BACK};

/// How long the value of a divisor stays valid, ms.
const DIVISOR_VALID_MS: i64 = 300_000;
/// No slot or cell.
pub(super) const NONE: u32 = u32::MAX;

/// A series in one of its uses.
pub(super) struct Slot {
    pub cell: u32,
    /// What it is used for.
    pub of: Use,
    pub over: u32,
    /// Priority of the series, if the signal is kept per priority.
    pub priority: Option<u8>,
    /// Hash of its labels without the name.
    pub same: u64,
    /// Unix ms and value: the last sample of an earlier frame, and the newest sample.
    pub before: (i64, f64),
    pub newest: (i64, f64),
    /// Instant of the frame of `value`, Unix ms.
    pub frame: i64,
    pub value: f64,
}

impl Slot {
    /// A slot without samples that belongs to no signal.
    pub(super) fn unused(of: Use, same: u64) -> Self {
        let never = (i64::MIN, 0.0);
        let (frame, value) = (i64::MIN, f64::NAN);
        Self { cell: NONE, of, over: NONE, priority: None, same, before: never, newest: never, frame, value }
    }

    /// Whether the sample before the newest is older than the frame before.
    fn covers_gap(&self, step_ms: i64) -> bool {
        self.newest.0 - self.before.0 > 3 * step_ms / 2
    }
}

/// One signal at one port: series that become one value.
pub(super) struct Cell {
    pub row: usize,
    /// Its signal is a rate.
    pub is_rate: bool,
    pub port: usize,
    pub members: Vec<u32>,
}

/// Takes a sample; returns whether it gives its frame a value.
pub(super) fn sample(
    slots: &mut [Slot],
    at: u32,
    terms: &[Reader],
    now: (i64, f64),
    (frame, step_ms): (i64, i64),
) -> bool {
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
    let Use::Term(term) = slot.of else { return false };
    let term = &terms[usize::from(term)];
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

/// What a cell gives a frame.
pub(super) struct CellValue {
    /// Index of the cell.
    cell: u32,
    value: f64,
    /// Its rate began before the frame before.
    pub covers_gap: bool,
}

impl CellValue {
    /// The value of a cell in a frame, if its series have any, of which `newest` is the last that was sampled.
    pub(super) fn of(
        (at, cell): (u32, &Cell),
        slots: &[Slot],
        newest: u32,
        (frame, step_ms): (i64, i64),
    ) -> Option<Self> {
        if cell.members.len() == 1 {
            let slot = &slots[newest as usize];
            let one = || Self { cell: at, value: slot.value, covers_gap: cell.is_rate && slot.covers_gap(step_ms) };
            return (!slot.value.is_nan()).then(one);
        }
        let join = ALL[cell.row].join;
        let value = first_terms(cell, slots, frame).map(|s| s.value).reduce(|a, b| join.of(a, b))?;
        let covers_gap = cell.is_rate && here(cell, slots, frame).any(|slot| slot.covers_gap(step_ms));
        Some(Self { cell: at, value, covers_gap })
    }

    /// Writes it into the frame.
    pub(super) fn write(&self, (cells, slots): (&[Cell], &[Slot]), frame: i64, into: &mut Frame) {
        let (cell, value) = (&cells[self.cell as usize], &self.value);
        let signal = ALL[cell.row].signal;
        into.set(signal, cell.port, *value);
        // Hardly any port is paused.
        if *value > 0.0 && priority::column(signal, 0).is_some() {
            for one in first_terms(cell, slots, frame) {
                if let Some(of) = one.priority {
                    into.set_priority(signal, of.into(), cell.port, one.value);
                }
            }
        }
    }

    /// Copies it to the frames just before that have none.
    pub(super) fn fill(&self, cells: &[Cell], time_ns: i64, sink: &mut dyn FrameSink) {
        let cell = &cells[self.cell as usize];
        sink.fill(time_ns, ALL[cell.row].signal, cell.port, self.value);
    }
}

/// Series of a cell with a value in a frame.
fn here<'a>(cell: &'a Cell, slots: &'a [Slot], frame: i64) -> impl Iterator<Item = &'a Slot> {
    cell.members.iter().map(|m| &slots[*m as usize]).filter(move |s| s.frame == frame && !s.value.is_nan())
}

/// As with PromQL's `or`: of series that differ only in the name, that of the first term counts.
fn first_terms<'a>(cell: &'a Cell, slots: &'a [Slot], frame: i64) -> impl Iterator<Item = &'a Slot> {
    let first =
        move |slot: &&Slot| !here(cell, slots, frame).any(|other| other.same == slot.same && other.of < slot.of);
    here(cell, slots, frame).filter(first)
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
