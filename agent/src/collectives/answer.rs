//! Answer of a service.

use fabriclens_agent_collectives::progress::CommunicatorStatus;

/// An answer, with its progress.
pub struct Answer {
    /// Version of the library.
    pub version: String,
    /// State of each communicator.
    pub communicators: Vec<CommunicatorStatus>,
    /// Number of communicators without a state.
    pub omitted: u64,
}
