//! Answer of a service.

use super::series::RankProcess;
use fabriclens_agent_collectives::model::CommunicatorId;
use fabriclens_agent_collectives::progress::CommunicatorStatus;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An answer, with its progress.
pub struct Answer {
    /// Version of the library.
    pub version: String,
    /// State of each communicator.
    pub communicators: Vec<CommunicatorStatus>,
    /// Number of communicators without a state.
    pub omitted: u64,
    /// Addresses by which ranks name this host; at most those that it has.
    pub own_names: BTreeSet<Arc<str>>,
    /// The largest communicator, and its ranks on this host.
    pub own_ranks: (CommunicatorId, BTreeSet<RankProcess>),
}
