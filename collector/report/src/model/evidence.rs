//! The sections that say what else was found: neighbours, health, transport, peers, and what the numbers are worth.

use super::{Figure, Grade, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Links, PCIe, configuration.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Health {
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Symbol, CRC and receive errors.
    pub link_errors: Figure,
    /// Times that links went down.
    pub link_downs: Figure,
    /// Packets dropped at the job's ports.
    pub discards: Figure,
    /// Blocks that forward error correction could not repair.
    pub uncorrectable: Figure,
    /// RDMA packets sent again, where adapters count them; lost packets that the peers told of elsewhere.
    pub retransmits: Figure,
}

/// Something that is not as it should be.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Host and device, or several.
    pub place: String,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub action: String,
}

/// RDMA against sockets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Transport {
    /// RDMA bytes, both directions.
    pub rdma: Figure,
    /// TCP bytes to and from other hosts, both directions.
    pub tcp: Figure,
    /// TCP's share of both; absent where one was not measured.
    pub tcp_share: Option<f64>,
    /// Median round trip of TCP.
    pub rtt_median: Figure,
    /// Its 99th percentile.
    pub rtt_p99: Figure,
    /// TCP segments sent again, host-wide.
    pub tcp_retransmits: Figure,
    /// "This job ran over sockets": why it looks like that.
    pub red_flag: Option<String>,
}

/// Who talks to whom.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Peers {
    /// The shape.
    pub pattern: Pattern,
    /// What it was told by, in words.
    pub text: String,
    /// Pairs of hosts with connections.
    pub pairs: usize,
    /// Connections whose other end was not found among the job's hosts.
    pub unmatched: usize,
    /// Pairs over TCP whose round trip stands out, in words, and those that the straggler has part in, as `a to b`:
    /// adapters have no counters of single connections to tell more.
    pub suspects: Vec<String>,
    /// Some of the pairs; over TCP those with most bytes.
    #[serde(default)]
    pub list: Vec<Pair>,
}

/// Two hosts that talk to each other.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Pair {
    /// The one whose name is first.
    pub a: String,
    /// The other.
    pub b: String,
    /// How.
    pub over: Over,
    /// How surely these connections are the job's.
    pub grade: Grade,
    /// Bytes, both directions, at least: of the connections that agents saw. Absent: not counted.
    pub bytes: Option<f64>,
    /// Smoothed round trip at the end of the job, of its slowest connections.
    pub rtt_seconds: Option<f64>,
}

/// What connections are made of.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Queue pairs.
    Rdma,
    /// Sockets.
    Tcp,
}

impl Over {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Rdma => "RDMA",
            Self::Tcp => "TCP",
        }
    }
}

/// The shape of who talks to whom.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Not seen.
    Unknown,
    /// Each host with two others.
    Ring,
    /// Each with all.
    AllToAll,
    /// All with a few.
    ParameterServer,
    /// Two hosts.
    Pair,
    /// None of these.
    Irregular,
}

impl Pattern {
    /// For people.
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

/// What the numbers are worth.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Hosts of the job that were measured.
    pub measured: usize,
    /// Those that were not.
    pub missing: Vec<String>,
    /// Ports that served the job alone.
    pub exclusive_ports: usize,
    /// Ports that several jobs had.
    pub shared_ports: usize,
    /// Ports with holes in what was measured, the largest hole in words.
    pub gaps: Vec<String>,
    /// Counters that stuck at their end.
    pub saturated: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// A job that shared something with this one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// `""` where there is one.
    pub cluster: String,
    /// The scheduler's.
    pub id: String,
    /// `""` if nobody says.
    pub user: String,
    /// `""` if nobody says.
    pub name: String,
    /// What.
    pub shares: Shares,
    /// On how many hosts.
    pub hosts: usize,
    /// For how long, seconds.
    pub seconds: u64,
}

/// What two jobs have in common.
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
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Devices => "network devices",
            Self::Hosts => "hosts",
            Self::Leaf => "leaf switch",
        }
    }
}
