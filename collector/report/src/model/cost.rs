//! The time that the network cost the job.

use super::{Figure, Grade};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds of the time that the network cost, in seconds unless stated otherwise. Counters do not allow more than
/// bounds.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Cost {
    /// Lower bound: throughput below the job's baseline while the network held it back, beyond the noise of its rate.
    /// No part: there is no baseline.
    #[serde(default = "seconds")]
    pub at_least: Figure,
    /// Upper bound: at each time the larger of the time in `held` and the loss against the best rate of the baseline.
    pub at_most: Figure,
    /// The upper bound as a fraction of the job's time.
    pub at_most_share: Figure,
    /// Time in which ports could not send (paused or without credits); at each time the worst port counts for the whole
    /// job.
    #[serde(default = "seconds")]
    pub held: Figure,
    /// Time in which a port could not send, mean over ports.
    pub mean: Figure,
    /// Expired retransmission timers. Each stops one connection for a time that only the application knows.
    pub timeouts: Figure,
    /// The most expensive periods in which the network slowed the job down, in order of time.
    #[serde(default)]
    pub slowed: Vec<Slowed>,
    /// Explanation of the method.
    pub basis: String,
}

/// Default for reports that older versions wrote without the field.
fn seconds() -> Figure {
    Figure::none(super::Unit::Seconds)
}

/// A period in which the network slowed the job down.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Slowed {
    /// Start, Unix nanoseconds.
    pub start_ns: i64,
    /// End, Unix nanoseconds.
    pub end_ns: i64,
    /// Confidence that the measurements belong to the job.
    pub grade: Grade,
    /// Evidence that the network slowed the job down.
    pub why: Vec<Why>,
    /// Throughput, bytes per second sent and received.
    pub moved: f64,
    /// Baseline throughput near that time, bytes per second; absent if too little undisturbed time is near.
    pub usual: Option<f64>,
    /// Lower bound of lost time, seconds; absent without a baseline.
    pub at_least: Option<f64>,
    /// Upper bound of lost time, seconds.
    pub at_most: f64,
}

/// Evidence that the network slowed a job down.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The switch paused ports of the job.
    Paused,
    /// Ports waited for credits (XmitWait).
    NoCredits,
    /// Senders handled congestion notifications (CNPs).
    ToldToSlowDown,
    /// Packets were lost and retransmitted.
    SentAgain,
    /// The job is the victim of an incident.
    Incident,
}

impl Why {
    /// Text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Paused => "paused by the switch",
            Self::NoCredits => "no credits",
            Self::ToldToSlowDown => "congestion notifications (CNPs)",
            Self::SentAgain => "packets retransmitted",
            Self::Incident => "victim of an incident",
        }
    }
}
