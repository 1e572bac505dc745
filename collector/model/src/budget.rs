//! Budgets of reads and queries: memory, time, and whether the caller still waits.

use crate::ReadError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Asked before memory is allocated, and between pieces of work. A query gives nothing back: its budget ends with it. Who runs several
/// queries one after the other within one budget gives back what each has taken.
pub trait Budget: std::fmt::Debug + Send + Sync {
    /// Requests about `bytes` more; `false` refuses them.
    fn take(&self, bytes: usize) -> bool;

    /// Bytes that are taken, where somebody may give some back.
    fn taken(&self) -> usize {
        0
    }

    /// Gives back bytes that were taken.
    fn give_back(&self, _bytes: usize) {}

    /// Like [`Self::take`], for reads.
    ///
    /// # Errors
    /// [`ReadError::Memory`] if they are refused.
    fn request(&self, bytes: usize) -> Result<(), ReadError> {
        if self.take(bytes) { Ok(()) } else { Err(ReadError::Memory) }
    }

    /// Whether to go on; asked at least every few milliseconds of work.
    ///
    /// # Errors
    /// [`ReadError::Timeout`] or [`ReadError::Canceled`].
    fn check(&self) -> Result<(), ReadError> {
        Ok(())
    }

    /// Time until the deadline; `None` without one.
    fn time_left(&self) -> Option<Duration> {
        None
    }
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

/// Lets another thread cancel a running query; clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Makes the query end with an error soon.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::cancel`] was called.
    pub fn is_canceled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Another budget with a deadline and a token that cancels.
#[derive(Debug)]
pub struct TimedBudget<'a> {
    /// Memory.
    pub memory: &'a dyn Budget,
    /// Cancels.
    pub cancel: &'a CancelToken,
    /// When to stop; `None` for never.
    pub deadline: Option<Instant>,
}

impl Budget for TimedBudget<'_> {
    fn take(&self, bytes: usize) -> bool {
        self.memory.take(bytes)
    }

    fn taken(&self) -> usize {
        self.memory.taken()
    }

    fn give_back(&self, bytes: usize) {
        self.memory.give_back(bytes);
    }

    fn check(&self) -> Result<(), ReadError> {
        if self.cancel.is_canceled() {
            return Err(ReadError::Canceled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(ReadError::Timeout);
        }
        self.memory.check()
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
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

    #[test]
    fn timed_budget_ends_at_the_deadline_and_when_canceled() {
        let cancel = CancelToken::default();
        let until = |deadline| TimedBudget { memory: &Unlimited, cancel: &cancel, deadline };
        assert_eq!(until(None).check(), Ok(()));
        assert_eq!(until(Some(Instant::now() + Duration::from_secs(60))).check(), Ok(()));
        let past = until(Some(Instant::now() - Duration::from_millis(1)));
        assert_eq!((past.check(), past.time_left()), (Err(ReadError::Timeout), Some(Duration::ZERO)));
        cancel.cancel();
        assert_eq!(until(None).check(), Err(ReadError::Canceled));
    }
}
