//! Answer of a service.

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

/// A rank of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankProcess {
    /// Its number.
    pub rank: u32,
    /// Process id on the host.
    pub pid: u32,
    /// GPU of its host.
    pub gpu: Option<u32>,
}
