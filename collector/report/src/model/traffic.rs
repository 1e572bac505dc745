//! Traffic of the job, and plots.

use super::{Figure, Grade, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes and rates.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Bytes sent by the job's ports.
    pub transmitted: Figure,
    /// Bytes received by the job's ports.
    pub received: Figure,
    /// Mean send rate of all ports together.
    pub mean_rate: Figure,
    /// Highest point of the plot.
    pub peak_rate: Figure,
    /// Traffic by rail.
    pub rails: Vec<Rail>,
    /// Traffic by host; all hosts of the job.
    pub hosts: Vec<Host>,
    /// Send rate by rail over time.
    pub plot: Plot,
    /// The host or port that stands out; absent if none does.
    pub straggler: Option<Straggler>,
}

/// The host or port that stands out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Straggler {
    /// Host name.
    pub host: String,
    /// Device name; absent if the host as a whole stands out.
    pub device: Option<String>,
    /// Rail name.
    pub rail: Option<String>,
    /// Reason why it stands out.
    pub by: StandsOut,
    /// Explanation with numbers.
    pub text: String,
}

/// Reason why a host or port stands out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum StandsOut {
    /// It pauses its switch far more than the others.
    Pausing,
    /// It has link errors.
    LinkErrors,
    /// It sends most of the job's congestion notifications: too much is sent to it at once.
    Incast,
    /// It sends far less than the others.
    Behind,
}

/// The ports of one rail.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Rail {
    /// Rail name as reported by agents; otherwise the device name.
    pub rail: String,
    /// Number of ports.
    pub ports: usize,
    /// Bytes sent.
    pub transmitted: Figure,
    /// Bytes received.
    pub received: Figure,
    /// Bytes sent per port relative to the mean of all rails; 1 is balanced.
    pub of_mean: Option<f64>,
    /// Fraction of time in which ports could not send, mean over ports.
    pub paused: Figure,
}

/// A host of the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Host {
    /// Host name as reported by the agent.
    pub host: String,
    /// Whether its ports were measured.
    pub measured: bool,
    /// Bytes sent.
    pub transmitted: Figure,
    /// Bytes received.
    pub received: Figure,
    /// Fraction of time in which its worst port could not send.
    pub paused: Figure,
    /// Fraction of time in which its worst port paused its switch.
    pub pausing: Figure,
    /// Congestion notifications (CNPs) sent.
    pub cnp_sent: Figure,
    /// Link errors.
    pub link_errors: Figure,
}

/// A plot of lines over time.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Time of the first point, Unix nanoseconds.
    pub start_ns: i64,
    /// Seconds between points.
    pub step_seconds: f64,
    /// Lines of the plot.
    pub lines: Vec<Line>,
}

/// A line of a plot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Line {
    /// Legend text.
    pub name: String,
    /// Confidence that the values belong to the job.
    pub grade: Grade,
    /// Values; null: not measured.
    pub points: Vec<Option<f64>>,
}
