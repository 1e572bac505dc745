//! The section about collectives: what the job's communication library reports, joined with the counters of its hosts.

use super::Plot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Collectives of the job. All lists are empty if no agent read them.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Collectives {
    /// Communicators, the largest first.
    pub communicators: Vec<Communicator>,
    /// Operations by kind and class of message size, those with the most time first.
    pub operations: Vec<Operation>,
    /// Time in operations for each rank, as a fraction of the job's time. More than 1 if operations of several communicators
    /// overlap; absent if the number of ranks is unknown.
    pub share: Option<f64>,
    /// Bus bandwidth of the operation with the most time; absent if no file of NCCL's Inspector was read.
    pub bandwidth: Option<Bandwidth>,
    /// Ranks that held others back, those that did so for the longest time first.
    pub stragglers: Vec<RankStraggler>,
    /// Queue pairs of slow and failed work requests, by the library's log; failed ones first.
    pub work_requests: Vec<WorkRequest>,
    /// What the ranks waited for, and whether the counters of the network agree; absent if nothing was read.
    pub conclusion: Option<Conclusion>,
}

impl Collectives {
    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.communicators.is_empty()
            && self.operations.is_empty()
            && self.stragglers.is_empty()
            && self.work_requests.is_empty()
    }
}

/// A communicator: a group of ranks that do operations together.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Communicator {
    /// Name in the library: NCCL's hash.
    pub id: String,
    /// Version of the library; empty if unknown.
    pub library_version: String,
    /// Number of ranks.
    pub size: u64,
    /// Operations that its fastest rank launched in the job's time; absent if unknown.
    pub launched: Option<f64>,
    /// Longest time in which no rank launched an operation, seconds; absent if unknown.
    pub idle_seconds: Option<f64>,
}

/// Operations of one kind and class of message size, over all communicators and ranks.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Operation {
    /// Kind, such as `AllReduce`.
    pub operation: String,
    /// Smallest message of the class, such as `32MiB`.
    pub size: String,
    /// Completed operations; each rank's counts.
    pub executions: f64,
    /// Mean time, seconds. It includes the wait for the last rank.
    pub mean_seconds: f64,
    /// Fraction of the time in all operations.
    pub share: f64,
    /// Mean bus bandwidth, bytes per second, weighted by time; absent if unknown.
    pub bandwidth: Option<f64>,
    /// Mean wait for the last rank of the same host, seconds; absent if unknown.
    pub wait_seconds: Option<f64>,
}

/// Bus bandwidth over time.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Bandwidth {
    /// Kind of the operation.
    pub operation: String,
    /// Class of message size.
    pub size: String,
    /// Median while the network did not slow the job down, bytes per second; absent if there was no such time.
    pub usual: Option<f64>,
    /// Mean while counters show that the network slowed the job down, bytes per second; absent if there was no such time.
    pub slowed: Option<f64>,
    /// The longest time in which it was far below the usual and no counter shows a reason; absent if there was none.
    pub unexplained: Option<Dip>,
    /// Line rate of the job's ports on one host, bytes per second; absent if unknown.
    pub line_rate: Option<f64>,
    /// Bus bandwidth over time, with the line rate.
    pub plot: Plot,
}

/// A time of low bus bandwidth.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Dip {
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// Length, seconds.
    pub seconds: f64,
    /// Mean bus bandwidth, bytes per second.
    pub mean: f64,
}

/// A rank that held others back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct RankStraggler {
    /// Host; the address that the library reported if it is not known of which host it is; empty if that is unknown too.
    pub host: String,
    /// The rank, with GPU and process where they are known.
    pub rank: String,
    /// Why: `behind`, `unresponsive`, `dead`, `failed`, `aborted`, `without_communicator`, or `late` (others waited for it).
    pub reason: String,
    /// Operation; empty for a reason of the process.
    pub operation: String,
    /// Most operations that it had launched less than another rank of its communicator; absent if unknown, or for another reason
    /// than `behind`. Of several ranks that are behind at once, this is known of the farthest one only.
    #[serde(default)]
    pub operations_behind: Option<f64>,
    /// When it was first seen, Unix nanoseconds.
    pub start_ns: i64,
    /// When it was last seen, Unix nanoseconds.
    pub end_ns: i64,
    /// Time in which it was seen, seconds.
    pub seconds: f64,
    /// What the counters of its host's ports say of that time.
    pub network: RankNetwork,
    /// Ports of its host with queue pairs of its process; empty if they are unknown.
    #[serde(default)]
    pub ports: Vec<String>,
    /// That in words.
    pub text: String,
}

/// A queue pair whose work requests were slow or failed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct WorkRequest {
    /// `failed` or `slow`.
    pub kind: String,
    /// Port of the queue pair, such as `gpu-03 mlx5_1/1`; host and device, or the host, if no agent lists it.
    pub from: String,
    /// Port of the peer; its address if no agent lists it; empty if unknown.
    pub to: String,
    /// Number of the queue pair.
    pub local: String,
    /// Number of the peer's queue pair; empty if unknown.
    pub remote: String,
    /// What the counters of the port say of the job's time.
    pub network: RankNetwork,
    /// That in words.
    pub text: String,
}

/// What the counters of a host's ports say of the time in which a rank held others back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RankNetwork {
    /// No port was held back, held others back, or lost packets: the rank waited for its own GPU, CPU or data.
    Clean,
    /// A port was held back, held others back, or lost packets, far more than those of the job's other hosts.
    Troubled,
    /// Its ports were as the ports of the other hosts, which were held back too.
    LikeOthers,
    /// Its ports were not read, or it is not known of which host it is.
    Unknown,
}

/// What the ranks of a job waited for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// Nothing in particular.
    Nothing,
    /// A rank that waited for its own GPU, CPU or data.
    OwnWork,
    /// A rank whose network was in trouble.
    OnePeer,
    /// All ranks waited alike: the fabric.
    Fabric,
    /// It cannot be told.
    Unknown,
}

/// What the ranks waited for, and whether library and counters agree.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// What they waited for.
    pub waits_for: WaitsFor,
    /// Whether the library's view and the counters of the network agree; absent if only one of both says something.
    pub agree: Option<bool>,
    /// Explanation.
    pub text: String,
}
