//! The summary: main points, cost, cause, earlier jobs.

use super::{Cost, Figure, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Summary for readers who need the result only.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Summary {
    /// The main points, the most important first.
    pub points: Vec<Point>,
    /// Time that the network cost the job.
    pub cost: Cost,
    /// Most likely cause.
    pub cause: Cause,
    /// Earlier jobs of this user with as many hosts, the latest first.
    pub earlier: Vec<Earlier>,
}

/// One main point of the summary.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Severity.
    pub severity: Severity,
    /// The point as a sentence.
    pub text: String,
}

/// Severity of a point, finding or incident.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No problem.
    Good,
    /// For information.
    Info,
    /// Needs a look.
    Warning,
    /// Needs action.
    Critical,
}

impl Severity {
    /// Name, as in JSON.
    pub fn text(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The most likely cause of lost time.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Explanation with the evidence.
    pub text: String,
}

/// Kinds of causes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Nothing that was measured held the job back.
    None,
    /// An incident that the collector found, with the job as victim or culprit.
    Incident,
    /// The job waited for a rank that waited for its own GPU, CPU or data.
    Application,
    /// A host or port of the job does not drain its received data.
    SlowReceiver,
    /// A faulty link of the job.
    Link,
    /// Incast: several hosts of the job send to one host at once.
    Incast,
    /// The job communicates over sockets instead of RDMA.
    Sockets,
    /// Congestion in the fabric, by this job or by others.
    Fabric,
    /// Too little was measured to name a cause.
    Unknown,
}

/// An earlier job to compare with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Earlier {
    /// Job id of the scheduler.
    pub id: String,
    /// Run number under this id.
    pub run: u32,
    /// Job name; empty if unknown.
    pub name: String,
    /// Run time, seconds.
    pub seconds: f64,
    /// Bytes sent by its ports.
    pub transmitted: Figure,
    /// Fraction of time in which its ports could not send, mean over time and ports.
    pub paused: Figure,
    /// Upper bound of the fraction of its time that the network cost, from its rollups.
    #[serde(default = "share")]
    pub at_most_share: Figure,
    /// The first of the report's operations in this job; absent if it was not read, or the job has another name.
    #[serde(default)]
    pub operation: Option<EarlierOperation>,
}

/// A kind and size class of operations in an earlier job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct EarlierOperation {
    /// Mean time, seconds. It includes the wait for the last rank.
    pub mean_seconds: f64,
    /// Mean bus bandwidth, bytes per second, weighted by time; absent if unknown.
    pub bandwidth: Option<f64>,
}

fn share() -> Figure {
    Figure::none(Unit::Ratio)
}
