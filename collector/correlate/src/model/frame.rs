//! All signals of all ports at one instant.

use crate::model::fabric::Fabric;
use crate::model::priority::{COLUMNS, PRIORITIES, column};
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Assumed size of a retransmitted packet, bytes: most fabrics have this MTU, and the packets that matter are full.
pub const FULL_PACKET_BYTES: f64 = 4096.0;
/// Rates above this multiple of the line rate are counter glitches: the counters stood still before, or jumped.
const BEYOND: f64 = 2.0;

/// Signals of which the load of a job is made.
const LOADS: [Signal; 4] = [Signal::Rx, Signal::OutOfSequence, Signal::Tx, Signal::Retransmits];

/// Ports in one block of a column.
pub(crate) const BLOCK: usize = 128;

/// One signal by port, in blocks of ports. Blocks without values are not allocated.
#[derive(Clone, Debug, Default)]
pub struct Column(Vec<Option<Block>>);

/// One signal of some ports.
#[derive(Clone, Debug)]
pub struct Block {
    /// By port; `NaN` where it was not measured. Shared with the frames before while nothing changes.
    pub values: Arc<[f32; BLOCK]>,
    /// Some value is or was not zero.
    pub moves: bool,
    /// Ports with a value.
    measured: u8,
}

impl Block {
    fn new() -> Self {
        Self { values: Arc::new([f32::NAN; BLOCK]), moves: false, measured: 0 }
    }

    fn set(&mut self, at: usize, value: f32) {
        let old = std::mem::replace(&mut Arc::make_mut(&mut self.values)[at], value);
        self.moves |= value != 0.0 && !value.is_nan();
        self.measured = self.measured + u8::from(old.is_nan()) - u8::from(value.is_nan());
    }

    /// Shares the memory of another block if the values are the same.
    fn share(&mut self, other: &Self) {
        let different = |any: u32, (a, b): (&f32, &f32)| any | (a.to_bits() ^ b.to_bits());
        if self.values.iter().zip(&*other.values).fold(0, different) == 0 {
            self.values = other.values.clone();
        }
    }

    /// Whether each port has a value.
    pub fn is_full(&self) -> bool {
        usize::from(self.measured) == BLOCK
    }
}

impl Column {
    fn set(&mut self, port: usize, value: f32) {
        let at = port / BLOCK;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(Block::new).set(port % BLOCK, value);
    }

    /// The value of a port; `NaN` if it was not measured.
    fn get(&self, port: usize) -> f32 {
        let block = self.0.get(port / BLOCK).and_then(Option::as_ref);
        block.map_or(f32::NAN, |block| block.values[port % BLOCK])
    }

    /// Ports that fit into the allocated blocks.
    fn ports(&self) -> usize {
        self.0.len() * BLOCK
    }

    /// Number of blocks, empty ones included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All blocks from one on; `None` where there are no values.
    pub fn blocks_from(&self, first: usize) -> impl Iterator<Item = Option<&Block>> {
        self.0.iter().skip(first).map(Option::as_ref)
    }

    /// Blocks with values, and the number of each.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, &Block)> {
        self.0.iter().enumerate().filter_map(|(at, block)| Some((at, block.as_ref()?)))
    }
}

/// All signals of all ports at one instant.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Unix nanoseconds.
    pub time_ns: i64,
    /// By signal, then by signal and priority.
    pub(crate) columns: Vec<Column>,
    /// Cached load of each job, with the revision of the jobs.
    loads: Loads,
    /// Some values arrived after the frame had been evaluated.
    pub(crate) late: bool,
}

type Loads = Arc<Mutex<Option<(u64, Arc<[f64]>)>>>;

impl Frame {
    /// An empty frame.
    pub fn new(time_ns: i64) -> Self {
        Self { time_ns, columns: vec![Column::default(); COLUMNS], loads: Loads::default(), late: false }
    }

    /// Whether nothing was measured, because no collector ran.
    pub fn is_empty(&self) -> bool {
        self.columns.iter().all(|column| column.0.is_empty())
    }

    /// Shares the memory of values that are as in another frame.
    pub(crate) fn share(&mut self, other: &Self) {
        for (own, other) in self.columns.iter_mut().zip(&other.columns) {
            for (own, other) in own.0.iter_mut().zip(&other.0) {
                if let (Some(own), Some(other)) = (own, other) {
                    own.share(other);
                }
            }
        }
    }

    /// Drops cached loads before a value changes.
    pub(crate) fn clear_cache(&mut self) {
        match Arc::get_mut(&mut self.loads) {
            Some(own) => *own.get_mut().unwrap_or_else(PoisonError::into_inner) = None,
            // Other holders of the frame keep their cache.
            None => self.loads = Loads::default(),
        }
    }

    /// Drops cached loads before a value of a signal changes, if they are made of it.
    pub(crate) fn clear_cache_of(&mut self, signal: Signal) {
        if LOADS.contains(&signal) {
            self.clear_cache();
        }
    }

    /// Sets the value of a signal at a port.
    pub fn set(&mut self, signal: Signal, port: usize, value: f64) {
        self.columns[signal as usize].set(port, value as f32);
    }

    /// Sets the part of a value that belongs to one priority. Zero parts are not stored, because most ports are never
    /// paused.
    pub fn set_priority(&mut self, signal: Signal, priority: usize, port: usize, value: f64) {
        let Some(column) = column(signal, priority) else { return };
        let column = &mut self.columns[column];
        if value > 0.0 || !column.get(port).is_nan() {
            column.set(port, value as f32);
        }
    }

    /// Parts of a value by priority.
    pub fn priority_values(&self, signal: Signal, port: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let part = move |priority| Some((priority, f64::from(self.columns[column(signal, priority)?].get(port))));
        (0..PRIORITIES).filter_map(part).filter(|(_, value)| !value.is_nan())
    }

    /// The largest part of a value, or the whole value if the driver does not count by priority.
    pub fn largest_priority(&self, signal: Signal, port: usize) -> Option<f64> {
        let all = self.get(signal, port)?;
        Some(self.priority_values(signal, port).map(|(_, value)| value).reduce(f64::max).unwrap_or(all))
    }

    /// The part of a value that may belong to a priority, or the whole value if the driver does not count by priority.
    pub fn in_priority(&self, signal: Signal, port: usize, priority: Option<usize>) -> Option<f64> {
        let all = self.get(signal, port)?;
        let Some(column) = priority.and_then(|of| column(signal, of)).filter(|_| all > 0.0) else { return Some(all) };
        let own = self.columns[column].get(port);
        let another = || self.priority_values(signal, port).next().is_some();
        Some(if !own.is_nan() {
            own.into()
        } else if another() {
            0.0
        } else {
            all
        })
    }

    /// Bytes per second that each job sends and receives; `NaN` where nothing was measured.
    pub(crate) fn job_loads(&self, fabric: &Fabric) -> Arc<[f64]> {
        let mut known = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loads)) = known.as_ref().filter(|(of, _)| *of == fabric.revision()) {
            return loads.clone();
        }
        let loads: Arc<[f64]> = fabric.jobs.iter().map(|job| self.load_of_ports(&job.ports)).collect();
        *known = Some((fabric.revision(), loads.clone()));
        loads
    }

    /// Bytes per second that these ports send and receive; `NaN` if nothing was measured.
    pub(crate) fn load_of_ports(&self, ports: &[usize]) -> f64 {
        let wasted = |signal, port| self.get(signal, port).filter(|n| *n > 0.0).map_or(0.0, |n| n * FULL_PACKET_BYTES);
        let moved = |p: &usize| {
            let useful = |all, lost| Some((self.get(all, *p)? - wasted(lost, *p)).max(0.0));
            let [received, again, sent, resent] = LOADS;
            [useful(received, again), useful(sent, resent)]
        };
        // A port without values in this frame counts as the mean of the others.
        mean(ports.iter().flat_map(moved).flatten()).map_or(f64::NAN, |m| m * ports.len() as f64 * 2.0)
    }

    /// Ports that moved more than their links can carry (`rates`, by port), and by how many times the limit.
    pub(crate) fn implausible_rates(&self, rates: &[f64]) -> BTreeMap<usize, f64> {
        let mut leapt = BTreeMap::new();
        for (_, port, moved) in [Signal::Tx, Signal::Rx].into_iter().flat_map(|signal| self.values_of(signal)) {
            let times = rates.get(port).map_or(0.0, |rate| moved / (BEYOND * rate));
            if times > 1.0 && times.is_finite() {
                leapt.entry(port).and_modify(|most: &mut f64| *most = most.max(times)).or_insert(times);
            }
        }
        leapt
    }

    /// A copy with the values of these ports only.
    pub(crate) fn only_ports(&self, ports: &[usize]) -> Self {
        let mut few = Self::new(self.time_ns);
        for (from, to) in self.columns.iter().zip(&mut few.columns) {
            let told = ports.iter().map(|port| (*port, from.get(*port))).filter(|(_, value)| !value.is_nan());
            told.for_each(|(port, value)| to.set(port, value));
        }
        few
    }

    /// Whether any of these ports has a value.
    pub fn has_any_of(&self, ports: &[usize]) -> bool {
        let told = |column: &Column| ports.iter().any(|port| !column.get(*port).is_nan());
        self.columns.iter().any(told)
    }

    /// A copy without the values of these ports.
    #[must_use]
    pub fn without_ports(&self, ports: &[usize]) -> Self {
        let mut others = Self { loads: Loads::default(), ..self.clone() };
        for column in &mut others.columns {
            let room = column.ports();
            ports.iter().filter(|port| **port < room).for_each(|port| column.set(*port, f32::NAN));
            for block in &mut column.0 {
                *block = block.take().filter(|block| block.values.iter().any(|value| !value.is_nan()));
            }
        }
        others
    }

    /// Values of one signal, by port.
    pub(crate) fn values_of(&self, signal: Signal) -> impl Iterator<Item = (Signal, usize, f64)> + '_ {
        let blocks = self.columns[signal as usize].blocks();
        let each = blocks.flat_map(|(at, block)| (at * BLOCK..).zip(&*block.values));
        each.filter(|(_, value)| !value.is_nan()).map(move |(port, value)| (signal, port, f64::from(*value)))
    }

    /// Ports at which a signal is at least a value.
    pub(crate) fn ports_from(&self, signal: Signal, least: f64) -> impl Iterator<Item = usize> + '_ {
        let reaches = move |value: f32| f64::from(value) >= least;
        // Most blocks have no such port, and one pass over a block tells.
        let highest = |block: &Block| block.values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let blocks = self.columns[signal as usize].blocks().filter(move |(_, block)| reaches(highest(block)));
        let each = blocks.flat_map(|(at, block)| (at * BLOCK..).zip(&*block.values));
        each.filter(move |(_, value)| reaches(**value)).map(|(port, _)| port)
    }

    /// The value of a signal at a port, if it was measured.
    pub fn get(&self, signal: Signal, port: usize) -> Option<f64> {
        let value = self.columns[signal as usize].get(port);
        (!value.is_nan()).then(|| f64::from(value))
    }
}
