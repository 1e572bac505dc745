//! State of one source as `/healthz`, `doctor` and the agent's own metrics show it.

use std::time::Duration;

/// Status of one source of one sampling target.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStatus {
    /// Name in `samplers::ALL`.
    pub sampler: &'static str,
    /// Device, netdev or `host`.
    pub target: String,
    /// Result of the last read.
    pub outcome: Outcome,
    /// Duration of the last successful read.
    pub last_read: Option<Duration>,
    /// Reads so far.
    pub reads: u64,
    /// Failed reads so far.
    pub errors: u64,
    /// Note on the cost of the source; mostly empty.
    pub note: String,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The read gave values.
    Data {
        /// Number of vendor counters and facts.
        counters: usize,
    },
    /// The host does not have this source; the reason.
    Absent(String),
    /// The read failed; the error with its remedy.
    Error(String),
    /// The read has exceeded its deadline; its duration so far.
    Stalled(Duration),
}
