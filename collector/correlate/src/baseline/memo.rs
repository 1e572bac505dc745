//! What detectors derive from a baseline. It does not change, so each answer is worked out once, although an incident asks for it
//! at each tick.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Values that were computed before, by key.
#[derive(Debug)]
pub(crate) struct Memo<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Copy> Memo<K, V> {
    /// The answer to `key`, worked out if it is asked for the first time.
    pub fn get(&self, key: K, answer: impl FnOnce() -> V) -> V {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(key).or_insert_with(answer)
    }
}

/// What is derived from the frames of a baseline, with the thresholds of one tracker.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    /// Whether links carried the same, by links and the bits of their line rate.
    pub sprayed: Memo<(Vec<usize>, u64), bool>,
    /// Length of the queues that are marked, bytes, by switch ports.
    pub marked_queue: Memo<Vec<usize>, Option<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_worked_out_once() {
        let memo = Memo::default();
        assert_eq!([memo.get(7, || 1), memo.get(8, || 2), memo.get(7, || 3)], [1, 2, 1]);
    }
}
