//! Congestion suffered and caused by the job.

use super::{Figure, Grade, Plot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Congestion suffered and caused by the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Congestion {
    /// Suffered: fraction of time in which ports were paused, mean over ports.
    pub paused: Figure,
    /// Caused: fraction of time in which ports paused their switch, mean over ports.
    pub pausing: Figure,
    /// Suffered: fraction of the line rate lost to waiting for credits (XmitWait), mean over ports.
    pub xmit_wait: Figure,
    /// Suffered: congestion notifications (CNPs) handled.
    pub cnp_received: Figure,
    /// Caused: congestion notifications (CNPs) sent for marked packets.
    pub cnp_sent: Figure,
    /// Packets received with an ECN mark.
    pub ecn_marked: Figure,
    /// Plots of congestion suffered.
    pub suffered: Vec<Plot>,
    /// Plots of congestion caused.
    pub caused: Vec<Plot>,
    /// The most congested ports, the worst first.
    pub ports: Vec<CongestedPort>,
}

/// A port that was paused or paused its switch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct CongestedPort {
    /// Host name.
    pub host: String,
    /// Device name.
    pub device: String,
    /// Fraction of time in which it could not send.
    pub paused: Option<f64>,
    /// Fraction of time in which it paused its switch.
    pub pausing: Option<f64>,
    /// Congestion notifications (CNPs) sent.
    pub cnp_sent: Option<f64>,
    /// Confidence that the numbers belong to the job.
    pub grade: Grade,
}
