//! The contents of a report. Its JSON is the response of the API; `docs/report.schema.json` is its published schema.

mod collectives;
mod congestion;
mod cost;
mod evidence;
mod figure;
mod inside;
mod links;
mod paths;
mod summary;
mod traffic;

pub use collectives::{
    Bandwidth, Collectives, Communicator, Conclusion, Dip, Operation, RankNetwork, RankStraggler, WaitsFor, WorkRequest,
};
pub use congestion::{CongestedPort, Congestion};
pub use cost::{Cost, Slowed, Why};
pub use evidence::{Finding, Health, Neighbour, Over, Pair, Pattern, Peers, Quality, Shares, Transport};
pub use figure::{Figure, Grade, Part, Unit};
pub use inside::Inside;
pub use links::{Links, WorstLink};
pub use paths::{FlowCount, FlowPaths, LinkFlows, OtherFlows, Path, PathPort, Paths, SharedLink};
pub use summary::{Cause, CauseKind, Earlier, EarlierOperation, Point, Severity, Summary};
pub use traffic::{Host, Line, Plot, Rail, StandsOut, Straggler, Traffic};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`Report::version`]; changes when a field is removed or its meaning changes.
pub const VERSION: u32 = 1;

/// The communication report of one job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// Time of creation, Unix nanoseconds.
    pub generated_ns: i64,
    /// The job.
    pub job: About,
    /// Time range and resolution.
    pub range: Range,
    /// Main points, cost and cause.
    pub summary: Summary,
    /// Collectives, as the communication library reports them.
    #[serde(default)]
    pub collectives: Collectives,
    /// Bytes and rates.
    pub traffic: Traffic,
    /// Congestion suffered and caused.
    pub congestion: Congestion,
    /// Incidents at that time that concern the job.
    pub incidents: Vec<Incident>,
    /// Links of the fabric that its traffic may take, as the ports of switches counted them.
    pub links: Links,
    /// Jobs that shared devices, hosts or leaf switches with this one.
    pub neighbours: Vec<Neighbour>,
    /// Links, PCIe, configuration.
    pub health: Health,
    /// GPUs and their ways to the network.
    #[serde(default)]
    pub inside: Inside,
    /// RDMA against sockets.
    pub transport: Transport,
    /// Communication pattern between hosts.
    pub peers: Peers,
    /// Completeness of the measurements.
    pub quality: Quality,
}

/// Identity and size of the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct About {
    /// Cluster name; empty if there is only one cluster.
    pub cluster: String,
    /// Job id of the scheduler.
    pub id: String,
    /// Run number under this id, from 1.
    pub run: u32,
    /// User; empty if unknown.
    pub user: String,
    /// Job name; empty if unknown.
    pub name: String,
    /// Labels of the scheduler, such as partition and account.
    pub labels: BTreeMap<String, String>,
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// End, Unix nanoseconds; absent while the job runs.
    pub end_ns: Option<i64>,
    /// Number of hosts.
    pub hosts: usize,
    /// Contradictions between job sources, as sentences.
    pub disagreements: Vec<String>,
}

/// Time range of the report.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Range {
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// End, Unix nanoseconds.
    pub end_ns: i64,
    /// Seconds between two points of a plot.
    pub step_seconds: f64,
    /// How port counters were read.
    pub method: Method,
}

/// How port counters were read.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every sample was read.
    Samples,
    /// For many ports over a long time: counters were read at a few instants, and plots come from the job's rollups.
    Checkpoints,
}

/// An incident that concerns the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Incident {
    /// Incident id.
    pub id: String,
    /// Kind, such as `pfc_storm`.
    pub kind: String,
    /// Severity.
    pub severity: Severity,
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// End, Unix nanoseconds; absent while it is open.
    pub end_ns: Option<i64>,
    /// Explanation of the incident.
    pub explanation: String,
    /// Recommended action.
    pub action: String,
    /// Role of this job: `culprit`, `victim` or `bystander`.
    pub role: String,
    /// Path of the flows that show it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}
