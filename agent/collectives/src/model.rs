//! Common model of collectives, whatever reports them: communicators, their ranks, and the operations of each rank.

use std::fmt;
use std::sync::Arc;

/// Identity of a communicator within a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommunicatorId {
    /// Hash that the library gives the communicator; the same on all of its ranks.
    pub hash: u64,
    /// Distinguishes communicators of equal hash; 0 if unknown.
    pub secondary: u64,
}

impl fmt::Display for CommunicatorId {
    /// The hash as 16 hexadecimal digits, as the text form of NCCL's RAS service prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}

/// State of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RankState {
    /// The communicator is being created.
    Initializing,
    /// The communicator is in use.
    Running,
    /// The communicator is being destroyed.
    Finalizing,
    /// The program aborted the communicator.
    Aborted,
    /// The library reports an error of the rank.
    Failed,
    /// The process answers, and does not have the communicator.
    WithoutCommunicator,
    /// The process did not answer in time: it may be stopped, or its host busy.
    Unresponsive,
    /// The library considers the process dead.
    Dead,
}

impl RankState {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Initializing,
        Self::Running,
        Self::Finalizing,
        Self::Aborted,
        Self::Failed,
        Self::WithoutCommunicator,
        Self::Unresponsive,
        Self::Dead,
    ];

    /// Value of the label `state`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Running => "running",
            Self::Finalizing => "finalizing",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::WithoutCommunicator => "without_communicator",
            Self::Unresponsive => "unresponsive",
            Self::Dead => "dead",
        }
    }
}

/// Process of a rank, as the library knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// Host: the address by which the library reaches it; empty if unknown.
    pub host: Arc<str>,
    /// Process id in the process's own PID namespace; `None` if unknown.
    pub pid: Option<u32>,
    /// GPU: index as the driver counts on this host (NVML), or as the process counts (CUDA) if that is unknown.
    pub gpu: Option<u32>,
}

/// A rank of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Number from 0; `None` for a rank that is only counted, not named.
    pub number: Option<u32>,
    /// Its process.
    pub process: Process,
    /// Its state.
    pub state: RankState,
    /// Operations launched so far, in the order of [`Communicator::operations`]; `None` where unknown.
    pub counts: Box<[Option<u64>]>,
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Communicator {
    /// Its identity.
    pub id: CommunicatorId,
    /// Number of ranks that it was created with.
    pub size: u32,
    /// Names of operations: `AllReduce`, `Broadcast` and so on; `all` where the library only has the sum.
    pub operations: Vec<Arc<str>>,
    /// Known ranks; may be fewer than `size`.
    pub ranks: Vec<Rank>,
}

/// All communicators of a job at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Version of the library.
    pub version: String,
    /// Communicators with an identity.
    pub communicators: Vec<Communicator>,
    /// Number of communicators that the answer only counts.
    pub unnamed: u64,
    /// Number of communicators that were left out because a limit was reached.
    pub communicators_omitted: u64,
    /// Number of ranks of these communicators.
    pub ranks_omitted: u64,
    /// Time-outs within the job while the answer was collected.
    pub timeouts: u64,
}
