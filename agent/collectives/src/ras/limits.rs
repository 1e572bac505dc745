//! Bounds of an answer.

use std::time::Duration;

/// Bounds of one exchange with a RAS service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest time until the connection is accepted.
    pub connect: Duration,
    /// Longest time of the first answer, by which another service is recognized.
    pub first: Duration,
    /// Longest time of the whole exchange.
    pub whole: Duration,
    /// Longest answer, bytes.
    pub bytes: u64,
    /// Most communicators of a snapshot.
    pub communicators: usize,
    /// Most ranks of a snapshot, over all communicators.
    pub ranks: usize,
}

impl Default for Limits {
    /// Fits a job of 10,000 ranks with several communicators of that size in a few ten megabytes of memory.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            first: Duration::from_secs(2),
            whole: Duration::from_secs(15),
            bytes: 96 << 20,
            communicators: 2048,
            ranks: 100_000,
        }
    }
}
