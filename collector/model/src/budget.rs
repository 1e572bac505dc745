//! Memory budgets of reads and queries.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Asked before memory is allocated. Nothing is given back: a budget belongs to one query and ends with it.
pub trait Budget: std::fmt::Debug + Send + Sync {
    /// Requests about `bytes` more; `false` refuses them.
    fn take(&self, bytes: usize) -> bool;
}

/// A budget without a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Budget for Unlimited {
    fn take(&self, _: usize) -> bool {
        true
    }
}

/// A budget of a fixed number of bytes.
#[derive(Debug)]
pub struct FixedBudget(AtomicUsize);

impl FixedBudget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }
}

impl Budget for FixedBudget {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_budget_refuses_what_exceeds_it() {
        let budget = FixedBudget::new(10);
        assert_eq!([7, 4, 3, 1].map(|bytes| budget.take(bytes)), [true, false, true, false]);
    }
}
