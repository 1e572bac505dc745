//! The signals' questions, answered from samples as they arrive: to ask a store each second for every series of a large
//! fabric would take longer than a second. What is too complicated for it says so and is asked in PromQL.
//!
//! `irate` is here the rate from the last sample of one frame to the newest of the next, which is what it is where a
//! frame has one sample; frames between the two that have none share it. A counter that falls is a gap, because nobody knows
//! what it lost.

use crate::model::priority;
use crate::model::topology::port_name;
use crate::signals::frame_sink::FrameSink;
use crate::signals::late_samples::LateSamples;
use crate::signals::table::{ALL, LOOK_BACK, SignalSpec};
use fabriclens_model::{Labels, Layout, LayoutId, Matcher, is_absent, is_stale};
use promql_parser::parser::token::{T_DIV, T_LOR, T_MUL};
use promql_parser::parser::{Expr, VectorSelector};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Weak;

/// Label lists that are known before those that are gone are looked for.
const PLANS: usize = 4096;
/// Series that are followed at most.
const SERIES: usize = 8_000_000;
/// Milliseconds for which a divisor holds.
const HOLDS_MS: i64 = 300_000;
/// One of so many is enough that series which are gone are forgotten.
const MANY: usize = 8;
const NONE: u32 = u32::MAX;

/// A part of a question: a selector, how its series become values, and what they are divided by.
struct Term {
    row: usize,
    series: Vec<Matcher>,
    rate: bool,
    scale: f64,
    over: Option<usize>,
}

/// Terms and divisors, by the metric's name.
#[derive(Default)]
struct Questions {
    terms: Vec<Term>,
    divisors: Vec<Vec<Matcher>>,
    by_name: HashMap<String, Vec<Use>>,
}

#[derive(Clone, Copy)]
enum Use {
    Term(usize),
    Divisor(usize),
}

impl Questions {
    /// Takes a row, if it can be answered here.
    fn add(&mut self, at: usize, row: &SignalSpec) -> Option<()> {
        let tree = promql_parser::parser::parse(&row.query.replace("$w", "5s")).ok()?;
        let mut parts = Vec::new();
        union(&tree, &mut parts);
        let before = (self.terms.len(), self.divisors.len());
        for part in parts {
            let Some(term) = self.term(at, part) else {
                self.terms.truncate(before.0);
                self.divisors.truncate(before.1);
                return None;
            };
            self.terms.push(term);
        }
        Some(())
    }

    fn term(&mut self, row: usize, part: &Expr) -> Option<Term> {
        match part {
            Expr::Paren(inner) => self.term(row, &inner.expr),
            Expr::VectorSelector(selector) => {
                Some(Term { row, series: matchers(selector)?, rate: false, scale: 1.0, over: None })
            }
            Expr::Call(call) if matches!(call.func.name, "irate" | "rate") => {
                let Expr::MatrixSelector(range) = &**call.args.args.first()? else { return None };
                Some(Term { row, series: matchers(&range.vs)?, rate: true, scale: 1.0, over: None })
            }
            Expr::Binary(binary) if binary.modifier.is_none() => {
                let left = self.term(row, &binary.lhs)?;
                match (binary.op.id(), &*binary.rhs) {
                    (T_DIV, Expr::NumberLiteral(n)) => Some(Term { scale: left.scale / n.val, ..left }),
                    (T_MUL, Expr::NumberLiteral(n)) => Some(Term { scale: left.scale * n.val, ..left }),
                    (T_DIV, Expr::VectorSelector(selector)) if left.over.is_none() => {
                        self.divisors.push(matchers(selector)?);
                        Some(Term { over: Some(self.divisors.len() - 1), ..left })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn index(&mut self) {
        let name = |matchers: &[Matcher]| matchers.iter().find(|m| m.name == "__name__").map(|m| m.value.clone());
        let terms = self.terms.iter().enumerate().map(|(at, term)| (name(&term.series), Use::Term(at)));
        let divisors = self.divisors.iter().enumerate().map(|(at, series)| (name(series), Use::Divisor(at)));
        for (name, one) in terms.chain(divisors) {
            self.by_name.entry(name.unwrap_or_default()).or_default().push(one);
        }
    }
}

/// The parts of `a or b or c`.
fn union<'a>(tree: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match tree {
        Expr::Binary(binary) if binary.op.id() == T_LOR => {
            union(&binary.lhs, parts);
            union(&binary.rhs, parts);
        }
        other => parts.push(other),
    }
}

/// Those of a plain selector: of one metric, without offset.
fn matchers(selector: &VectorSelector) -> Option<Vec<Matcher>> {
    let plain = selector.offset.is_none() && selector.at.is_none();
    let matchers = fabriclens_promql::selector(&selector.to_string()).ok()?;
    let named = matchers.iter().any(|m| m.name == "__name__" && m.op == fabriclens_model::MatchOp::Equal);
    (plain && named).then_some(matchers)
}

/// A series in one of its uses.
struct Slot {
    cell: u32,
    term: u32,
    over: u32,
    /// That it is of, where that counts.
    priority: Option<u8>,
    /// Of its labels but the name.
    same: u64,
    /// Unix ms and value: the last sample of an earlier frame, and the newest.
    before: (i64, f64),
    newest: (i64, f64),
    /// LinkEnd of the frame of `value`, Unix ms.
    frame: i64,
    value: f64,
}

impl Slot {
    /// A series that nobody has told of and that is no part of a signal.
    fn of_nothing(same: u64) -> Self {
        let never = (i64::MIN, 0.0);
        let (frame, value) = (i64::MIN, f64::NAN);
        Self { cell: NONE, term: NONE, over: NONE, priority: None, same, before: never, newest: never, frame, value }
    }
}

/// A signal of a port: series that become one value.
struct Cell {
    row: usize,
    port: usize,
    members: Vec<u32>,
}

/// A column of a list that is of use.
struct Column {
    at: u32,
    slot: u32,
    cell: u32,
}

/// All of them, by cell; divisors, which have none, come first.
struct Plan {
    /// For dropping the plan when the list is gone.
    list: Weak<[Labels]>,
    uses: Vec<Column>,
}

/// See the module.
pub struct StreamingEval {
    questions: Questions,
    plans: HashMap<LayoutId, Plan>,
    /// Plans at which those of lists that are gone are looked for.
    many: usize,
    slots: Vec<Slot>,
    cells: Vec<Cell>,
    index: HashMap<(u32, u64), u32>,
    of_port: HashMap<(usize, usize), u32>,
    step_ms: i64,
    full: bool,
    late: LateSamples,
}

impl StreamingEval {
    /// With frames so far apart; also gives the rows that it does not answer.
    pub fn new(step_ms: i64) -> (Self, Vec<&'static SignalSpec>) {
        let mut questions = Questions::default();
        let is_asked = |(at, row): &(usize, &SignalSpec)| row.slow || questions.add(*at, row).is_none();
        let rest = ALL.iter().enumerate().filter(is_asked).map(|r| r.1).collect();
        questions.index();
        let standing = Self {
            questions,
            plans: HashMap::new(),
            many: PLANS,
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

    /// LinkEnd of the frame in which an instant lies, Unix ms.
    pub fn frame_of(&self, time_ms: i64) -> i64 {
        frame_of(time_ms, self.step_ms)
    }

    /// Cables have changed: a port that nobody knew may be known now.
    pub fn rewired(&mut self) {
        self.plans.clear();
    }

    /// Ports of which a sample came since an instant (Unix ms).
    pub fn heard(&self, since_ms: i64) -> HashSet<usize> {
        let newer = self.slots.iter().filter(|slot| slot.newest.0 >= since_ms);
        newer.filter_map(|slot| Some(self.cells.get(slot.cell as usize)?.port)).collect()
    }

    /// Forgets series of which nothing has come since an instant (Unix ms), once they are many: hosts come and go for
    /// months. Those of ports that are `gone` are forgotten at once.
    pub fn forget(&mut self, before_ms: i64, gone: &HashSet<usize>) {
        let is_gone = |slot: &Slot| self.cells.get(slot.cell as usize).is_some_and(|cell| gone.contains(&cell.port));
        let mut stays: Vec<bool> = self.slots.iter().map(|slot| slot.newest.0 >= before_ms && !is_gone(slot)).collect();
        for (at, slot) in self.slots.iter().enumerate() {
            if stays[at] && slot.over != NONE {
                stays[slot.over as usize] = true;
            }
        }
        let few = stays.iter().filter(|stays| !**stays).count() < (self.slots.len() / MANY).max(1);
        if few && gone.is_empty() {
            return;
        }
        let mut cells_stay = vec![false; self.cells.len()];
        for (slot, _) in self.slots.iter().zip(&stays).filter(|(slot, stays)| **stays && slot.cell != NONE) {
            cells_stay[slot.cell as usize] = true;
        }
        let (slots, cells) = (Moved::new(&stays), Moved::new(&cells_stay));
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

    /// First and last instant (Unix ms) of each stretch of which samples came too late to be judged, since the last time.
    pub fn late(&mut self) -> Vec<[i64; 2]> {
        self.late.take()
    }

    /// Series that are followed.
    pub fn series(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are more series than it follows.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Takes rows of samples (as the store does: column-major) into the frames of a watch; what lies in none is left out.
    pub fn take(&mut self, series: &Layout, times: &[i64], values: &[f64], watch: &mut dyn FrameSink) {
        let id = series.id();
        if !self.plans.contains_key(&id) {
            if self.plans.len() >= self.many {
                self.plans.retain(|_, plan| plan.list.strong_count() > 0);
                self.many = PLANS.max(2 * self.plans.len());
            }
            let uses = self.plan(series, watch);
            self.plans.insert(id, Plan { list: series.downgrade(), uses });
        }
        let Self { questions, plans, slots, cells, step_ms, late, .. } = self;
        let Some(plan) = plans.get(&id).filter(|plan| !plan.uses.is_empty()) else { return };
        let (first, now_ms) = (plan.uses[0].slot as usize, watch.now_ns() / 1_000_000);
        for (row, time) in times.iter().enumerate() {
            let frame = frame_of(*time, *step_ms);
            late.note(slots[first].same, *time, slots[first].newest.0, now_ms);
            for of_cell in plan.uses.chunk_by(|a, b| a.cell == b.cell) {
                let mut any = false;
                for column in of_cell {
                    let value = values[column.at as usize * times.len() + row];
                    if !is_absent(value) && !is_stale(value) {
                        any |= sample(slots, column.slot, &questions.terms, (*time, value), (frame, *step_ms));
                    }
                }
                if let Some(cell) = cells.get(of_cell[0].cell as usize).filter(|_| any) {
                    write(cell, slots, (frame, *step_ms), watch);
                }
            }
        }
    }

    fn plan(&mut self, series: &Layout, watch: &mut dyn FrameSink) -> Vec<Column> {
        let mut uses = Vec::new();
        for (column, labels) in series.iter().enumerate() {
            let Some(found) = self.questions.by_name.get(labels.metric()) else { continue };
            for one in found.clone() {
                if let Some(slot) = self.slot(one, labels, watch) {
                    uses.push(Column { at: column as u32, slot, cell: self.slots[slot as usize].cell });
                }
            }
        }
        uses.sort_by_key(|column: &Column| column.cell.wrapping_add(1));
        uses
    }

    fn slot(&mut self, one: Use, labels: &Labels, watch: &mut dyn FrameSink) -> Option<u32> {
        let (matchers, number) = match one {
            Use::Term(at) => (&self.questions.terms[at].series, 2 * at as u32),
            Use::Divisor(at) => (&self.questions.divisors[at], 2 * at as u32 + 1),
        };
        if !matchers.iter().all(|m| m.matches(labels)) {
            return None;
        }
        let same = hash(labels);
        if let Some(slot) = self.index.get(&(number, same)) {
            return Some(*slot);
        }
        if self.slots.len() >= SERIES {
            self.full = true;
            return None;
        }
        let Use::Term(at) = one else { return Some(self.divisor(number, same)) };
        let port = watch.measured_port(labels.get("host"), &port_name(labels))?;
        let (row, over) = (self.questions.terms[at].row, self.questions.terms[at].over);
        let over = over.map_or(NONE, |divisor| self.divisor(2 * divisor as u32 + 1, same));
        let next = self.cells.len() as u32;
        let cell = *self.of_port.entry((row, port)).or_insert(next);
        if cell == next {
            self.cells.push(Cell { row, port, members: Vec::new() });
        }
        let slot = self.slots.len() as u32;
        self.cells[cell as usize].members.push(slot);
        let priority = priority::of_series(ALL[row].signal, labels).map(|of| of as u8);
        self.slots.push(Slot { cell, term: at as u32, over, priority, ..Slot::of_nothing(same) });
        self.index.insert((number, same), slot);
        Some(slot)
    }

    fn divisor(&mut self, number: u32, same: u64) -> u32 {
        let next = self.slots.len() as u32;
        let slot = *self.index.entry((number, same)).or_insert(next);
        if slot == next {
            self.slots.push(Slot::of_nothing(same));
        }
        slot
    }
}

/// Where things of a list are when those that do not stay are gone.
struct Moved(Vec<u32>);

impl Moved {
    fn new(stay: &[bool]) -> Self {
        let mut next = 0..;
        Self(stay.iter().map(|stays| if *stays { next.next().unwrap_or(NONE) } else { NONE }).collect())
    }

    fn to(&self, at: u32) -> u32 {
        self.0.get(at as usize).copied().unwrap_or(NONE)
    }

    /// Whether it stays.
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

/// Of all labels but the name.
fn hash(labels: &Labels) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.iter().filter(|(name, _)| *name != "__name__").for_each(|pair| pair.hash(&mut hasher));
    hasher.finish()
}

/// Takes a sample; whether it is a value of its frame.
fn sample(slots: &mut [Slot], at: u32, terms: &[Term], now: (i64, f64), (frame, step_ms): (i64, i64)) -> bool {
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
        Some((then, by)) if now.0.saturating_sub(then) <= HOLDS_MS => value * term.scale / by,
        Some(_) => f64::NAN,
    };
    true
}

fn write(cell: &Cell, slots: &[Slot], (frame, step_ms): (i64, i64), watch: &mut dyn FrameSink) {
    let row = &ALL[cell.row];
    let here = || cell.members.iter().map(|m| &slots[*m as usize]).filter(|s| s.frame == frame && !s.value.is_nan());
    // As `or` has it: of series that differ in nothing but the name, the first question's.
    let first = |slot: &&Slot| !here().any(|other| other.same == slot.same && other.term < slot.term);
    let told = || here().filter(first);
    let Some(value) = told().map(|s| s.value).reduce(|a, b| row.join.of(a, b)) else { return };
    let time_ns = frame.saturating_mul(1_000_000);
    if let Some(into) = watch.frame(time_ns) {
        into.set(row.signal, cell.port, value);
        // Hardly any port is paused.
        for one in told().filter(|_| value > 0.0) {
            if let Some(of) = one.priority {
                into.set_priority(row.signal, of.into(), cell.port, one.value);
            }
        }
    }
    if row.is_rate() && here().any(|s| s.newest.0 - s.before.0 > 3 * step_ms / 2) {
        watch.fill(time_ns, row.signal, cell.port, value);
    }
}
