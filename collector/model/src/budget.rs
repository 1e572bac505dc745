//! What a read or a query may take of the memory that many share.

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
