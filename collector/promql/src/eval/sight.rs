//! Which samples each step sees: found once for all series that share their times.

use std::rc::Rc;
use std::sync::Arc;

/// Samples `low..high` of a series; none when both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub low: usize,
    pub high: usize,
}

/// What each window, both ends inclusive, sees of ascending times; ends must not go back from window to window.
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

/// Lists of times whose facts are kept: those of a fleet are few, and what each series has of its own is used once.
const KEPT: usize = 4;

/// What follows from times alone, by the list that series share.
pub(crate) struct PerTimes<T> {
    known: Vec<(Arc<[i64]>, Rc<T>)>,
    oldest: usize,
}

impl<T> PerTimes<T> {
    /// Nothing known.
    pub fn new() -> Self {
        Self { known: Vec::with_capacity(KEPT), oldest: 0 }
    }

    /// What `make` makes of the times, or made of the same list not long ago.
    pub fn of(&mut self, times: &Arc<[i64]>, make: impl FnOnce(&[i64]) -> T) -> Rc<T> {
        if let Some((_, known)) = self.known.iter().find(|(t, _)| Arc::ptr_eq(t, times)) {
            return known.clone();
        }
        let new = (times.clone(), Rc::new(make(times)));
        let facts = new.1.clone();
        if self.known.len() < KEPT {
            self.known.push(new);
        } else {
            self.known[self.oldest] = new;
            self.oldest = (self.oldest + 1) % KEPT;
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_both_of_their_ends() {
        let windows = [(-5, 5), (0, 10), (11, 19), (20, 30), (20, 30), (31, 99)];
        let span = |low, high| Span { low, high };
        let want = [span(0, 1), span(0, 2), span(2, 2), span(2, 4), span(2, 4), span(4, 4)];
        assert_eq!(spans(&[0, 10, 20, 30], windows.into_iter()), want);
    }

    #[test]
    fn facts_are_made_once_for_shared_times_and_few_are_kept() {
        let lists: Vec<Arc<[i64]>> = (0..9).map(|i| Arc::from([i])).collect();
        let (mut facts, mut made) = (PerTimes::new(), 0);
        for list in lists.iter().chain(&lists[5..]) {
            let fact = facts.of(list, |t| {
                made += 1;
                t[0]
            });
            assert_eq!(*fact, list[0]);
        }
        assert_eq!((made, facts.known.len()), (9, KEPT));
    }
}
