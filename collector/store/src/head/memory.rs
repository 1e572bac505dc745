//! Parts of the head's memory, and what allocations take.

use std::ops::AddAssign;

/// Memory of the head by part, bytes as asked of the allocator, spare capacity included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadMemory {
    /// Lists of labels and their texts, each counted once. The decoders of senders hold the same ones.
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
