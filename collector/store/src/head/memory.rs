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
    let (mut sum, mut shared) = (HeadMemory::default(), SharedLabels::default());
    let (mut lists, mut indexes) = (HashSet::new(), HashSet::new());
    for generation in generations {
        sum += generation.memory();
        if indexes.insert(Arc::as_ptr(&generation.series)) {
            sum.series += generation.series.memory();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SeriesLimits;
    use fabriclens_base::Sender;
    use fabriclens_model::{Layout, RowGroup};

    #[test]
    fn each_part_is_counted_and_shared_ones_once() {
        let [name, metric, label] = ["__name__", "m", "c"].map(Arc::<str>::from);
        let labels = |c: &str| Labels::new([(name.clone(), metric.clone()), (label.clone(), c.into())]);
        let series = Layout::new(["1", "2", "3"].map(&labels));
        let mut head = Generation::new(1, 4, &SeriesLimits::default());
        let mut append = |time: i64| {
            let group = RowGroup { series: series.clone(), times: vec![time], values: vec![time as f64; 3] };
            head.append(&group, Sender::Bound, &[], &mut Vec::new());
            of([&head].into_iter())
        };
        let one = append(100);
        // Three sets of two pairs of two references to texts. Three texts are of one set only.
        assert_eq!(one.labels, 3 * (ARC + 2 * 2 * 16) + 6 * ARC + "__name__m".len() + "c123".len());
        assert!(one.open >= 8 + 3 * 8 && one.layouts > 0 && one.series > 0, "{one:?}");
        assert_eq!((one.late, one.sealed), (0, 0));
        let late = append(50);
        assert!(late.late > 0 && late.labels == one.labels, "{late:?}");
        [101, 102].map(&mut append);
        let sealed = append(103);
        assert!(sealed.sealed > 0 && sealed.open == 0, "{sealed:?}");
        let mut next = head.successor(2);
        let both = of([&head, &next].into_iter());
        assert_eq!((both.labels, both.series), (sealed.labels, sealed.series));
        assert_eq!((both.sealed, both.open), (sealed.sealed, 0));
        assert!(both.layouts > sealed.layouts, "rows are separate");
        let other = RowGroup { series: Layout::new([labels("4")]), times: vec![200], values: vec![1.0] };
        next.append(&other, Sender::Bound, &[], &mut Vec::new());
        let three = of([&head, &next].into_iter());
        assert!(three.series > both.series, "a new series needs an index of its own");
        assert_eq!((head.series.len(), next.series.len()), (3, 4));
        assert_eq!(both.total(), both.labels + both.series + both.layouts + both.late + both.sealed);
    }
}
