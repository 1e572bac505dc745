//! How much time the network cost the job.

use super::{Figure, Grade};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds of the time that the network cost; counters tell no more. Seconds, unless said otherwise.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Cost {
    /// At least: what the job moved less than usual while the network is known to have held it, beyond what it differs by
    /// by chance. No part: nothing of its own to compare with.
    #[serde(default = "seconds")]
    pub at_least: Figure,
    /// At most: at each time the longer of what `held` has and what it moved less than its usual best.
    pub at_most: Figure,
    /// The same as a share of the job's time.
    pub at_most_share: Figure,
    /// What ports alone tell, that could not send (paused, without credits): at each time the port that was held back most
    /// counts for the whole job.
    #[serde(default = "seconds")]
    pub held: Figure,
    /// Time that a port was held back, mean over ports.
    pub mean: Figure,
    /// Retransmission timers that expired: each stops one connection for a time that only the application knows.
    pub timeouts: Figure,
    /// When the job moved less than usual while the network held it: what cost most, in the order of time.
    #[serde(default)]
    pub slowed: Vec<Slowed>,
    /// What was counted and what was not, in words.
    pub basis: String,
}

/// Of reports that did not have it yet.
fn seconds() -> Figure {
    Figure::none(super::Unit::Seconds)
}

/// A stretch of time in which the network held the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Slowed {
    /// Unix nanoseconds.
    pub start_ns: i64,
    /// Unix nanoseconds.
    pub end_ns: i64,
    /// How surely what was measured is the job's.
    pub grade: Grade,
    /// By what it is known.
    pub why: Vec<Why>,
    /// Bytes a second, sent and received.
    pub moved: f64,
    /// The same when nothing held it, near that time; absent: there was too little of such time.
    pub usual: Option<f64>,
    /// Seconds lost at least; absent: nothing to compare with.
    pub at_least: Option<f64>,
    /// Seconds lost at most.
    pub at_most: f64,
}

/// By what it is known that the network held a job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Ports were paused by their switch.
    Paused,
    /// Ports waited for credits (XmitWait).
    NoCredits,
    /// Senders were told to slow down (CNPs handled).
    ToldToSlowDown,
    /// Packets were lost and sent again.
    SentAgain,
    /// An incident has the job as its victim.
    Incident,
}

impl Why {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Paused => "paused by the switch",
            Self::NoCredits => "no credits",
            Self::ToldToSlowDown => "told to slow down (CNPs)",
            Self::SentAgain => "packets sent again",
            Self::Incident => "victim of an incident",
        }
    }
}
