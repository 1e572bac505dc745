//! Communicators of a job and their ranks.

use std::collections::BTreeMap;

/// Name of the communicator of all ranks of an MPI program.
pub const MPI_COMM_WORLD: &str = "MPI_COMM_WORLD";
/// How long an answer counts, ms: agents ask every 30 s, and less often where a job answers badly.
pub const FRESH_MS: i64 = 180_000;
/// Most stragglers of a communicator.
pub(crate) const STRAGGLERS: usize = 16;
/// Metric of ranks that hold back others or cannot work.
pub(crate) const STRAGGLER: &str = "fabric_collective_straggler_info";

/// A job as agents name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobName {
    /// Cluster; empty in a single-cluster setup.
    pub cluster: String,
    /// Id that the job has on its hosts, which may be an alias of the scheduler's.
    pub id: String,
}

/// Communicators of a job, by the newest answer of its communication library.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobCollectives {
    /// The job.
    pub job: JobName,
    /// Host whose agent asked; empty if the ranks are of MPI, which none asks.
    pub asked_by: String,
    /// Time of the answer, Unix ms.
    pub answered_ms: i64,
    /// Communicators, by their id; at most 64, those with stragglers first.
    pub communicators: Vec<Communicator>,
}

/// A communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Communicator {
    /// Its hash in the library, 16 hexadecimal digits; `MPI_COMM_WORLD` for all ranks of MPI.
    pub id: String,
    /// Ranks that it was created with; `None` if unknown.
    pub size: Option<u32>,
    /// Ranks by state, as `fabric_collective_ranks` names the states.
    pub ranks: BTreeMap<String, u32>,
    /// Ranks that stay behind; more than are named.
    pub behind: u32,
    /// How many operations the rank with the fewest had launched less than the one with the most, in one answer, by operation; more
    /// than 0. For ranks of MPI one number, by the operation that others wait in: operations on all ranks that it has not entered.
    pub lags: BTreeMap<String, u64>,
    /// Time in which no rank was seen to launch another operation, seconds. At least that long: it begins at 0 when an agent begins
    /// to ask.
    pub idle_s: f64,
    /// Begin of that time, Unix ms.
    pub idle_since_ms: i64,
    /// Ranks that hold back others or cannot work, by number; at most 16.
    pub stragglers: Vec<Straggler>,
}

impl Communicator {
    /// Whether this is `MPI_COMM_WORLD`, put together from what the agent of each host reports of its own ranks.
    pub fn is_mpi(&self) -> bool {
        self.id == MPI_COMM_WORLD
    }

    /// How far ranks are behind in an operation: `400 AllReduce operations`, and `up to` that of several. `None` if it is unknown.
    pub fn distance(&self, operation: &str) -> Option<String> {
        let lag = self.lags.get(operation)?;
        let up_to = if self.behind > 1 { "up to " } else { "" };
        // MPI's ranks are counted over all kinds of operations.
        let kind = if self.is_mpi() { String::new() } else { format!("{operation} ") };
        Some(format!("{up_to}{lag} {kind}{}", if *lag == 1 { "operation" } else { "operations" }))
    }

    /// Sorts stragglers by rank and keeps the first 16 of them.
    pub(crate) fn bound_stragglers(&mut self) {
        self.stragglers.sort_by_key(|one| (one.rank, one.reason));
        self.stragglers.truncate(STRAGGLERS);
    }

    /// Ranks in a state.
    pub fn in_state(&self, state: &str) -> u32 {
        self.ranks.get(state).copied().unwrap_or(0)
    }
}

/// Why a rank is named, the most telling reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StragglerReason {
    /// The library considers its process dead.
    Dead,
    /// The process did not answer in time, twice.
    Unresponsive,
    /// The process answers, and does not have the communicator.
    WithoutCommunicator,
    /// The library reports an error of the rank: often that another rank is gone.
    Failed,
    /// The program aborted the communicator: often because another rank is gone.
    Aborted,
    /// It has not launched what others had launched.
    Behind,
}

impl StragglerReason {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Dead, Self::Unresponsive, Self::WithoutCommunicator, Self::Failed, Self::Aborted, Self::Behind];

    /// Value of the label `reason`, and of `state` where it is a state.
    pub fn label(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Unresponsive => "unresponsive",
            Self::WithoutCommunicator => "without_communicator",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Behind => "behind",
        }
    }

    /// The reason with this label.
    pub fn by_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.label() == label)
    }
}

/// A rank that holds back others or cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Straggler {
    /// Its number.
    pub rank: u32,
    /// Address or name of its host, as the library knows it; may be empty.
    pub rank_host: String,
    /// Host of the job that has this address; `None` if that is unknown ([`crate::HostAddresses`]).
    pub host: Option<String>,
    /// Process id in the process's own namespace; empty if unknown.
    pub pid: String,
    /// GPU of its host; empty if unknown.
    pub gpu: String,
    /// Why it is named.
    pub reason: StragglerReason,
    /// Operation in which it is behind; empty for other reasons.
    pub operation: String,
    /// Answers in a row that named it for this reason.
    pub answers: u32,
}

impl Straggler {
    /// Its process, with what is known: `host gpu-07, GPU 5, process 1234`.
    pub fn process(&self) -> String {
        let host = self.host.as_deref().unwrap_or(&self.rank_host);
        let known = [("host", host), ("GPU", &*self.gpu), ("process", &*self.pid)];
        let known = known.iter().filter(|(_, value)| !value.is_empty()).map(|(what, value)| format!("{what} {value}"));
        known.collect::<Vec<_>>().join(", ")
    }
}
