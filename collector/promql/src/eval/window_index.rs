//! Finds the samples in the window of each step, once for all series with the same times.

use super::point::HistogramPoint;
use std::rc::Rc;
use std::sync::Arc;

/// Samples `low..high` of a series; empty if both are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub low: usize,
    pub high: usize,
}

/// The samples of one series in the window of one step; never empty.
pub(crate) struct Window<'a> {
    /// Times of the floats, Unix milliseconds, ascending.
    pub times: &'a [i64],
    pub values: &'a [f64],
    /// Ascending; only functions of both kinds of samples are given any.
    pub histograms: &'a [HistogramPoint],
    /// Time of the step, independent of `offset` and `@`.
    pub now: i64,
}

/// The samples of ascending `times` in each window (both ends inclusive); window ends must not decrease.
pub(crate) fn spans(times: &[i64], windows: impl Iterator<Item = (i64, i64)>) -> Vec<Span> {
    let (mut low, mut high) = (0, 0);
    let of_window = |(start, end)| {
        while high < times.len() && times[high] <= end {
            high += 1;
        }
        while low < high && times[low] < start {
            low += 1;
        }
        Span { low, high }
    };
    windows.map(of_window).collect()
}

/// Time lists to cache: a fleet shares few, and lists used by one series are not reused.
const MAX_CACHED: usize = 4;

/// Values derived from times alone, cached by the list that series share.
pub(crate) struct PerTimes<T> {
    known: Vec<(Arc<[i64]>, Rc<T>)>,
    oldest: usize,
}

impl<T> PerTimes<T> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { known: Vec::with_capacity(MAX_CACHED), oldest: 0 }
    }

    /// The value that `make` computes from the times, or computed recently for the same list.
    pub fn of(&mut self, times: &Arc<[i64]>, make: impl FnOnce(&[i64]) -> T) -> Rc<T> {
        if let Some((_, known)) = self.known.iter().find(|(t, _)| Arc::ptr_eq(t, times)) {
            return known.clone();
        }
        let new = (times.clone(), Rc::new(make(times)));
        let cached = new.1.clone();
        if self.known.len() < MAX_CACHED {
            self.known.push(new);
        } else {
            self.known[self.oldest] = new;
            self.oldest = (self.oldest + 1) % MAX_CACHED;
        }
        cached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_ends_are_inclusive() {
        let windows = [(-5, 5), (0, 10), (11, 19), (20, 30), (20, 30), (31, 99)];
        let span = |low, high| Span { low, high };
        let want = [span(0, 1), span(0, 2), span(2, 2), span(2, 4), span(2, 4), span(4, 4)];
        assert_eq!(spans(&[0, 10, 20, 30], windows.into_iter()), want);
    }

    #[test]
    fn shared_times_are_computed_once() {
        let lists: Vec<Arc<[i64]>> = (0..9).map(|i| Arc::from([i])).collect();
        let (mut cached, mut made) = (PerTimes::new(), 0);
        for list in lists.iter().chain(&lists[5..]) {
            let fact = cached.of(list, |t| {
                made += 1;
                t[0]
            });
            assert_eq!(*fact, list[0]);
        }
        assert_eq!((made, cached.known.len()), (9, MAX_CACHED));
    }
}
