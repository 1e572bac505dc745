//! Memory of the paths that targets sent: a bound for all, and for each target, which may be hostile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Part of the memory for all targets that one may take: one in so many.
const TARGET_FRACTION: usize = 4;

/// Bytes that the paths of some streams take.
#[derive(Debug)]
struct Account {
    limit: usize,
    used: AtomicUsize,
}

impl Account {
    fn take(&self, bytes: usize) -> bool {
        let within = |used: usize| Some(used.saturating_add(bytes)).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, within).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// Memory for the paths of a target, shared by its streams.
#[derive(Clone, Debug)]
pub(crate) struct PathBudget {
    all: Arc<Account>,
    own: Arc<Account>,
}

impl PathBudget {
    /// So many bytes for all targets; for the first one.
    pub(crate) fn new(limit: usize) -> Self {
        let all = Arc::new(Account { limit, used: AtomicUsize::new(0) });
        Self { own: Self::part(&all), all }
    }

    /// For another target.
    pub(crate) fn of_target(&self) -> Self {
        Self { all: self.all.clone(), own: Self::part(&self.all) }
    }

    fn part(all: &Account) -> Arc<Account> {
        Arc::new(Account { limit: all.limit / TARGET_FRACTION, used: AtomicUsize::new(0) })
    }

    /// Memory of one stream's paths.
    pub(crate) fn stream(&self) -> StreamPaths {
        StreamPaths { budget: self.clone(), used: 0 }
    }
}

/// What the paths of one stream take; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPaths {
    budget: PathBudget,
    used: usize,
}

impl StreamPaths {
    /// Takes memory for a path; false if there is none.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let PathBudget { all, own } = &self.budget;
        if !own.take(bytes) {
            return false;
        }
        if !all.take(bytes) {
            own.give(bytes);
            return false;
        }
        self.used += bytes;
        true
    }

    /// Gives back memory of a path.
    pub(crate) fn give(&mut self, bytes: usize) {
        self.budget.own.give(bytes);
        self.budget.all.give(bytes);
        self.used -= bytes;
    }
}

impl Drop for StreamPaths {
    fn drop(&mut self) {
        self.give(self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_leaves_memory_to_others() {
        let first = PathBudget::new(100);
        let [mut a, mut b] = [first.stream(), first.stream()];
        assert!(a.take(20) && b.take(5) && !b.take(1) && !a.take(1), "its streams share a quarter");
        let others: Vec<_> = (0..4).map(|_| first.of_target().stream()).collect();
        let taken: Vec<bool> = others.into_iter().map(|mut other| other.take(25) && other.used == 25).collect();
        assert_eq!(taken, [true; 4], "each is dropped before the next");
        let mut others: Vec<_> = (0..3).map(|_| first.of_target().stream()).collect();
        assert!(others.iter_mut().all(|other| other.take(25)) && !first.of_target().stream().take(1));
        drop(a);
        b.give(5);
        assert!(first.of_target().stream().take(25));
    }
}
