//! The sections with further evidence: neighbors, health, transport, peers, and completeness of the measurements.

use super::{Figure, Grade, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Links, PCIe, configuration.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Health {
    /// Problems of links, PCIe and configuration.
    pub findings: Vec<Finding>,
    /// Symbol, CRC and receive errors.
    pub link_errors: Figure,
    /// Number of link failures.
    pub link_downs: Figure,
    /// Packets dropped at the job's ports.
    pub discards: Figure,
    /// Blocks that forward error correction could not repair.
    pub uncorrectable: Figure,
    /// Retransmitted RDMA packets; where adapters do not count them, sequence NAKs received from peers.
    pub retransmits: Figure,
}

/// A problem of a link, of PCIe or of the configuration.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Host and device, or a list of them.
    pub place: String,
    /// The problem.
    pub text: String,
    /// Recommended action.
    pub action: String,
}

/// RDMA against sockets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Transport {
    /// RDMA bytes, both directions.
    pub rdma: Figure,
    /// TCP bytes to and from other hosts, both directions.
    pub tcp: Figure,
    /// TCP's fraction of both; absent if one was not measured.
    pub tcp_share: Option<f64>,
    /// Median round-trip time of TCP.
    pub rtt_median: Figure,
    /// 99th percentile of the round-trip time of TCP.
    pub rtt_p99: Figure,
    /// Retransmitted TCP segments of the hosts.
    pub tcp_retransmits: Figure,
    /// Warning that the job ran over sockets, with the evidence.
    pub red_flag: Option<String>,
}

/// Communication between the hosts of the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Peers {
    /// Communication pattern.
    pub pattern: Pattern,
    /// The connections that the pattern is derived from, as text.
    pub text: String,
    /// Number of host pairs with connections.
    pub pairs: usize,
    /// Number of connections whose other end is not a host of the job.
    pub unmatched: usize,
    /// TCP pairs with an outlying round-trip time, as text, and the pairs of the straggler, as `a to b`. Adapters have
    /// no counters per connection.
    pub suspects: Vec<String>,
    /// Some of the pairs; for TCP those with most bytes.
    #[serde(default)]
    pub list: Vec<Pair>,
}

/// Two hosts that communicate.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Pair {
    /// The host whose name sorts first.
    pub a: String,
    /// The other host.
    pub b: String,
    /// Transport of the connections.
    pub over: Over,
    /// Confidence that the connections belong to the job.
    pub grade: Grade,
    /// Lower bound of the bytes in both directions, from the connections that agents saw; absent: not counted.
    pub bytes: Option<f64>,
    /// Smoothed round-trip time of the slowest connections at the end of the job, seconds.
    pub rtt_seconds: Option<f64>,
}

/// Transport of connections.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Queue pairs.
    Rdma,
    /// Sockets.
    Tcp,
}

impl Over {
    /// Text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Rdma => "RDMA",
            Self::Tcp => "TCP",
        }
    }
}

/// Communication pattern.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// No connections were seen.
    Unknown,
    /// Each host communicates with two others.
    Ring,
    /// Each host communicates with all others.
    AllToAll,
    /// All hosts communicate with a few.
    ParameterServer,
    /// Two hosts only.
    Pair,
    /// None of the other patterns.
    Irregular,
}

impl Pattern {
    /// Text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "not measured",
            Self::Ring => "ring",
            Self::AllToAll => "all-to-all",
            Self::ParameterServer => "parameter server",
            Self::Pair => "two hosts",
            Self::Irregular => "irregular",
        }
    }
}

/// Completeness of the measurements.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Number of measured hosts of the job.
    pub measured: usize,
    /// Hosts of the job that were not measured.
    pub missing: Vec<String>,
    /// Number of ports that only this job used.
    pub exclusive_ports: usize,
    /// Number of ports that several jobs shared.
    pub shared_ports: usize,
    /// Ports with gaps in their samples, each with its longest gap, as text.
    pub gaps: Vec<String>,
    /// Counters that are saturated.
    pub saturated: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// A job that shared devices, hosts or leaf switches with this one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Cluster name; empty if there is only one cluster.
    pub cluster: String,
    /// Job id of the scheduler.
    pub id: String,
    /// User; empty if unknown.
    pub user: String,
    /// Job name; empty if unknown.
    pub name: String,
    /// The shared resource.
    pub shares: Shares,
    /// Number of hosts concerned.
    pub hosts: usize,
    /// Overlap in time, seconds.
    pub seconds: u64,
}

/// The closest resource that two jobs share.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Shares {
    /// Network devices.
    Devices,
    /// Hosts, with other devices.
    Hosts,
    /// A leaf switch.
    Leaf,
}

impl Shares {
    /// Text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Devices => "network devices",
            Self::Hosts => "hosts",
            Self::Leaf => "leaf switch",
        }
    }
}
