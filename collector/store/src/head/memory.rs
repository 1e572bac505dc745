//! Account of the head's memory by part, to see what a series costs and why.

use super::generation::Generation;
use fabriclens_model::Labels;
use foldhash::{HashSet, HashSetExt as _};
use std::ops::AddAssign;
use std::sync::Arc;

/// Memory of the head by part, bytes as asked of the allocator, spare capacity included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadMemory {
    /// Label sets and their texts, each counted once. The decoders of senders hold the same ones.
    pub labels: usize,
    /// Index of the series: lookup by labels and by metric, locations of columns.
    pub series: usize,
    /// Column lists, their lookup, and all of a layout but its rows.
    pub layouts: usize,
    /// Rows that are not compressed yet.
    pub open: usize,
    /// Rows that arrived out of order and are not compressed yet.
    pub late: usize,
    /// Compressed rows.
    pub sealed: usize,
    /// Records that wait to be written to the log.
    pub log: usize,
}

impl HeadMemory {
    /// All parts.
    pub fn total(&self) -> usize {
        self.labels + self.series + self.layouts + self.open + self.late + self.sealed + self.log
    }
}

impl AddAssign for HeadMemory {
    fn add_assign(&mut self, o: Self) {
        self.labels += o.labels;
        self.series += o.series;
        self.layouts += o.layouts;
        self.open += o.open;
        self.late += o.late;
        self.sealed += o.sealed;
        self.log += o.log;
    }
}

/// Bytes of a vector's allocation.
pub fn vec<T>(v: &Vec<T>) -> usize {
    v.capacity() * size_of::<T>()
}

/// Bytes of a hash table's allocation for this many elements: a power of two of slots, at most seven eighths of them in
/// use, and a byte of control each.
pub fn table<T>(capacity: usize) -> usize {
    let slots = if capacity == 0 { 0 } else { (capacity * 8 / 7).next_power_of_two() };
    slots * (size_of::<T>() + 1)
}

/// The two counts in front of what an `Arc` holds.
pub const ARC: usize = 2 * size_of::<usize>();

/// Counts label sets and texts that several owners share once.
#[derive(Default)]
pub struct SharedLabels {
    sets: HashSet<usize>,
    texts: HashSet<usize>,
}

impl SharedLabels {
    /// Bytes of a label set and its texts that were not counted before.
    pub fn bytes(&mut self, labels: &Labels) -> usize {
        if !self.sets.insert(labels.pairs().as_ptr() as usize) {
            return 0;
        }
        let mut text = |text: &Arc<str>| if self.texts.insert(text.as_ptr() as usize) { ARC + text.len() } else { 0 };
        let texts: usize = labels.pairs().iter().map(|(name, value)| text(name) + text(value)).sum();
        ARC + size_of_val(labels.pairs()) + texts
    }
}

/// Bytes of all generations, each shared part once.
pub fn of<'a>(generations: impl Iterator<Item = &'a Generation>) -> HeadMemory {
    let (mut sum, mut shared, mut lists) = (HeadMemory::default(), SharedLabels::default(), HashSet::new());
    for generation in generations {
        sum += generation.memory();
        for layout in &generation.layouts {
            if lists.insert(layout.columns.id()) {
                sum.layouts += ARC + size_of::<Box<[Labels]>>() + size_of_val(&layout.columns[..]);
                sum.layouts += ARC + size_of_val(&layout.series[..]);
            }
            sum.labels += layout.columns.iter().map(|labels| shared.bytes(labels)).sum::<usize>();
        }
    }
    sum
}
