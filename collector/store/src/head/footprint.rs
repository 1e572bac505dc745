//! Account of the head's memory by part, to see what a series costs and why: shared parts are counted once.

use super::generation::Generation;
use super::memory::{ARC, HeadMemory};
use fabriclens_model::Labels;
use foldhash::{HashSet, HashSetExt as _};
use std::sync::Arc;

/// Counts lists of labels and texts that several owners share once.
#[derive(Default)]
struct SharedLabels {
    lists: HashSet<usize>,
    texts: HashSet<usize>,
}

impl SharedLabels {
    /// Bytes of the list and the texts of a label set that were not counted before.
    fn bytes(&mut self, labels: &Labels) -> usize {
        let mut text = |text: &Arc<str>| if self.texts.insert(text.as_ptr() as usize) { ARC + text.len() } else { 0 };
        let (metric, others) = labels.parts();
        let metric = metric.map_or(0, &mut text);
        if !self.lists.insert(others.as_ptr() as usize) {
            return metric;
        }
        let texts: usize = others.iter().map(|(name, value)| text(name) + text(value)).sum();
        metric + ARC + size_of_val(&others[..]) + texts
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
        let [metric, label] = ["m", "c"].map(Arc::<str>::from);
        let labels = |c: &str| Labels::from_parts(Some(metric.clone()), Arc::from([(label.clone(), c.into())]));
        let series = Layout::new(["1", "2", "3"].map(&labels));
        let mut head = Generation::new(1, 4, &SeriesLimits::default());
        let mut append = |time: i64| {
            let group = RowGroup { series: series.clone(), times: vec![time], values: vec![time as f64; 3] };
            head.append(&group, Sender::Bound, &[], &mut Vec::new());
            of([&head].into_iter())
        };
        let one = append(100);
        // Three lists of one pair of two references to texts. Three texts are of one list only.
        assert_eq!(one.labels, 3 * (ARC + 2 * 16) + 5 * ARC + "mc123".len());
        assert!(one.open >= 8 + 3 * 8 && one.layouts > 0 && one.series > 0, "{one:?}");
        assert_eq!((one.late, one.sealed), (0, 0));
        let late = append(50);
        assert!(late.late > 0 && late.labels == one.labels, "{late:?}");
        append(101);
        append(102);
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
