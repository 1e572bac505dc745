//! The memory that the caches of several decoders share.

use fabriclens_rows::Labels;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that all caches together may take. A cache may always take its even share, so that one sender's decoder does not
/// starve the others, and more while the others leave room.
#[derive(Debug)]
pub struct CacheBudget {
    limit: usize,
    share: usize,
    used: AtomicUsize,
}

impl CacheBudget {
    /// A budget of `limit` bytes for this many caches.
    pub fn new(limit: usize, caches: usize) -> Arc<Self> {
        Arc::new(Self { limit, share: limit / caches.max(1), used: AtomicUsize::new(0) })
    }

    /// Columns of the lists that one decoder remembers: a quarter of the budget. Their label sets are counted in it.
    pub fn list_columns(&self) -> usize {
        self.limit / 4 / size_of::<Labels>()
    }

    /// Bytes in use by all caches.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

/// One cache's part of a budget; returns it when dropped.
#[derive(Debug)]
pub struct CacheShare {
    budget: Arc<CacheBudget>,
    own: usize,
}

impl CacheShare {
    /// An empty part.
    pub fn new(budget: Arc<CacheBudget>) -> Self {
        Self { budget, own: 0 }
    }

    /// Bytes that this cache may take now.
    pub fn allowance(&self) -> usize {
        let others = self.budget.used().saturating_sub(self.own);
        self.budget.limit.saturating_sub(others).max(self.budget.share)
    }

    /// Records the bytes that this cache takes.
    pub fn set(&mut self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Relaxed);
        self.budget.used.fetch_sub(self.own, Relaxed);
        self.own = bytes;
    }
}

impl Drop for CacheShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_has_its_share_and_what_others_leave() {
        let budget = CacheBudget::new(100, 4);
        let mut caches = [(); 2].map(|()| CacheShare::new(budget.clone()));
        caches[0].set(60);
        assert_eq!(caches.each_ref().map(CacheShare::allowance), [100, 40]);
        caches[1].set(80);
        assert_eq!(caches.each_ref().map(CacheShare::allowance), [25, 40], "the first one must shrink");
        let [first, _second] = caches;
        drop(first);
        assert_eq!(budget.used(), 80);
    }
}
