//! Splits a read of many series into ranges of label sets, which threads read at the same time: reading series means
//! waiting for memory, which several cores do at once.

use crate::positions::first_not_before;
use fabriclens_model::{Labels, ReadError};
use std::ops::Range;
use std::sync::LazyLock;
use std::thread::available_parallelism;

/// Series for which a thread is worth starting.
const SERIES: usize = 8192;
/// Threads of one read, at most.
const THREADS: usize = 8;

/// Cores for this process.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// Series in label order.
pub(crate) trait LabelOrdered {
    /// Number of series.
    fn len(&self) -> usize;

    /// Labels of a series.
    fn labels(&self, at: usize) -> Labels;
}

/// Threads that a read of so many series is worth.
pub(crate) fn threads(series: usize) -> usize {
    (series / SERIES).clamp(1, THREADS.min(*CORES))
}

/// Divides lists into ranges of labels, from the first labels to the last.
pub(crate) struct LabelRanges<'l> {
    lists: Vec<&'l dyn LabelOrdered>,
    /// The longest list.
    longest: usize,
    /// First series of each list that is in no range yet.
    from: Vec<usize>,
}

impl<'l> LabelRanges<'l> {
    /// Of series after the `last` one of an earlier division, or of all.
    pub fn after(lists: &[&'l dyn LabelOrdered], last: Option<&Labels>) -> Self {
        let longest = (0..lists.len()).max_by_key(|list| lists[*list].len()).unwrap_or(0);
        let first = |list: &&dyn LabelOrdered| {
            last.map_or(0, |last| first_not_before(list.len(), |at| list.labels(at) <= *last))
        };
        Self { lists: lists.to_vec(), longest, from: lists.iter().map(first).collect() }
    }

    /// The next range in each list: as many series of the longest one, all of the others up to there. `None` at the end of all.
    pub fn next(&mut self, series: usize) -> Option<Vec<Range<usize>>> {
        if self.lists.iter().zip(&self.from).all(|(list, from)| *from == list.len()) {
            return None;
        }
        let (longest, end) = (self.lists[self.longest], self.from[self.longest].saturating_add(series.max(1)));
        let first = (end < longest.len()).then(|| longest.labels(end));
        let each = self.lists.iter().zip(&mut self.from).map(|(list, from)| {
            let until = |first: &Labels| first_not_before(list.len(), |at| list.labels(at) < *first);
            let to = first.as_ref().map_or(list.len(), until).max(*from);
            std::mem::replace(from, to)..to
        });
        Some(each.collect())
    }
}

/// Does the work of each part, on as many threads as there are parts; the results come in the order of the parts.
pub(crate) fn on_threads<P: Send, T: Send>(
    parts: Vec<P>,
    work: impl Fn(P) -> Result<T, ReadError> + Sync,
) -> Result<Vec<T>, ReadError> {
    let threads = parts.len();
    fabriclens_base::on_threads(parts, threads, work).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(Vec<usize>);

    impl LabelOrdered for Numbers {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn labels(&self, at: usize) -> Labels {
            Labels::new([("n", format!("{:08}", self.0[at]))])
        }
    }

    #[test]
    fn ranges_cover_each_list_in_the_same_order() {
        let [all, odd, late] =
            [(1, 0), (2, 1), (3, 60_000)].map(|(step, from)| Numbers((from..80_000).step_by(step).collect()));
        let lists: [&dyn LabelOrdered; 4] = [&odd, &all, &Numbers(Vec::new()), &late];
        let divide = |last: Option<&Labels>| -> Vec<_> {
            let mut left = LabelRanges::after(&lists, last);
            std::iter::from_fn(|| left.next(30_000)).collect()
        };
        let ranges = divide(None);
        assert_eq!(ranges.len(), 3);
        for (n, list) in [&odd.0, &all.0, &Vec::new(), &late.0].into_iter().enumerate() {
            let joined: Vec<usize> = ranges.iter().flat_map(|of| list[of[n].clone()].to_vec()).collect();
            assert_eq!(joined, *list);
        }
        let parts =
            ranges.iter().map(|of| [&odd.0[of[0].clone()], &all.0[of[1].clone()], &late.0[of[3].clone()]].concat());
        let ends: Vec<_> = parts.map(|part| (part.iter().min().copied(), part.iter().max().copied())).collect();
        assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ends:?}");
        let rest = divide(Some(&all.labels(34_999)));
        let firsts: Vec<_> = rest[0].iter().map(|of_list| of_list.start).collect();
        assert_eq!((firsts, rest.len()), (vec![17_500, 35_000, 0, 0], 1 + 45_000 / 30_000));
        assert!(LabelRanges::after(&[], None).next(1).is_none());
    }

    #[test]
    fn results_keep_their_order_and_errors_are_told() {
        assert_eq!(on_threads((0..5).collect(), |n: usize| Ok(n * n)).unwrap(), [0, 1, 4, 9, 16]);
        let some = on_threads((0..5).collect(), |n: usize| if n == 3 { Err(ReadError::Timeout) } else { Ok(n) });
        assert_eq!(some, Err(ReadError::Timeout));
    }
}
