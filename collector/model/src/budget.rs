//! What a read or a query may take of the memory that many share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Asked before memory is taken. Only what is taken counts: a budget is for one query and ends with it.
pub trait Budget: std::fmt::Debug + Send + Sync {
    /// About so many bytes more are about to be taken; `false`: they may not.
    fn take(&self, bytes: usize) -> bool;
}

/// As much as there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Budget for Unlimited {
    fn take(&self, _: usize) -> bool {
        true
    }
}

/// So many bytes.
#[derive(Debug)]
pub struct Purse(AtomicUsize);

impl Purse {
    /// With so many bytes in it.
    pub fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }
}

impl Budget for Purse {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purse_gives_what_is_in_it_and_no_more() {
        let purse = Purse::new(10);
        assert_eq!([7, 4, 3, 1].map(|bytes| purse.take(bytes)), [true, false, true, false]);
    }
}
