//! Paths of the job's flows through the fabric. A flow is what one port sends to another one: on RoCE from one UDP source port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path through the fabric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Ports in the order in which packets leave by them, then the port that receives them.
    pub ports: Vec<PathPort>,
    /// How it is known: `traced`, `by the forwarding tables`, `by the cables` (one switch) or `one of several paths`.
    pub known: String,
}

/// A port of a path.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct PathPort {
    /// Host or switch.
    pub node: String,
    /// Port on that node; begins with `?` if unknown.
    pub port: String,
}

/// Paths of the flows of the job's connected queue pairs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Paths {
    /// Flows, both directions of each queue pair.
    pub flows: usize,
    /// Flows whose path is known.
    pub known: usize,
    /// Flows that take one of several paths.
    pub one_of: usize,
    /// How the paths are known, with the number of flows of each.
    pub sources: Vec<FlowCount>,
    /// Why other paths are not known, with the number of flows of each reason.
    pub unknown: Vec<FlowCount>,
    /// Hosts of the job whose queue pairs were not read, because there are too many.
    pub unread_hosts: usize,
    /// The same of other jobs.
    pub other_unread_hosts: usize,
    /// Seconds from the end of the job to the time as of which the paths are known.
    pub later_seconds: u64,
    /// Directions of links between switches that flows from several ports of the job, or of other jobs too, take for sure.
    pub shared: Vec<SharedLink>,
    /// Some flows: those over links that damaged, dropped or held back traffic first, then those over shared links.
    pub list: Vec<FlowPaths>,
}

/// A number of flows.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct FlowCount {
    /// What they have in common.
    pub text: String,
    /// Their number.
    pub flows: usize,
}

/// Flows over a link.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFlows {
    /// Flows that take it.
    pub flows: usize,
    /// Flows that may take it, because it is on one of their several paths.
    pub one_of: usize,
}

/// One direction of a link between switches that several ports or jobs share.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct SharedLink {
    /// Both ends, the sending one first: `leaf-1 swp12 - spine-3 Ethernet80`.
    pub link: String,
    /// Ports of the job that send over it for sure.
    pub senders: usize,
    /// Flows of the job.
    pub own: LinkFlows,
    /// Flows of other jobs that ran at the same time.
    pub others: Vec<OtherFlows>,
    /// Mean load of the busier direction, fraction of the rate.
    pub load: Option<f64>,
    /// Fraction of time in which an end could not send.
    pub held: Option<f64>,
}

/// Flows of another job over a link.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct OtherFlows {
    /// Cluster name; empty if there is only one cluster.
    pub cluster: String,
    /// Job id of the scheduler.
    pub id: String,
    /// Its flows.
    pub own: LinkFlows,
}

/// The paths of a flow.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct FlowPaths {
    /// Sending port.
    pub from: PathPort,
    /// Receiving port.
    pub to: PathPort,
    /// UDP source port; absent on InfiniBand.
    pub source_port: Option<u16>,
    /// Its path; several if it takes one of them.
    pub paths: Vec<Path>,
}
