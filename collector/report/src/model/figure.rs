//! Numbers of a report: figures, units, and the grade of each part.

use fabriclens_jobs::Attribution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Confidence that a number belongs to the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Measured on ports or hosts that only this job used.
    Exclusive,
    /// Counted for the job's own processes.
    PerProcess,
    /// Measured on ports or hosts that several jobs shared; the number is their total.
    Shared,
}

impl From<Attribution> for Grade {
    fn from(grade: Attribution) -> Self {
        match grade {
            Attribution::Exclusive => Self::Exclusive,
            Attribution::PerProcess => Self::PerProcess,
            Attribution::Shared => Self::Shared,
        }
    }
}

impl Grade {
    /// Name for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::PerProcess => "per process",
            Self::Shared => "shared",
        }
    }
}

/// A UCUM unit, as OpenTelemetry writes it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "By")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "By/s")]
    BytesPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// A fraction of one.
    #[serde(rename = "1")]
    Ratio,
    /// A count of packets, errors or events.
    #[serde(rename = "{count}")]
    Count,
    /// Counts per second.
    #[serde(rename = "{count}/s")]
    CountPerSecond,
}

/// A number with one part per grade. Parts of different grades are never added up. No part means not measured, which is
/// not zero.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Figure {
    /// Unit of all parts.
    pub unit: Unit,
    /// One part per grade.
    pub parts: Vec<Part>,
}

/// The part of a number that has one grade.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Part {
    /// Confidence that the number belongs to the job.
    pub grade: Grade,
    /// The number.
    pub value: f64,
    /// Number of ports or hosts that it was computed from.
    pub of: usize,
}

impl Figure {
    /// A figure that was not measured.
    pub fn none(unit: Unit) -> Self {
        Self { unit, parts: Vec::new() }
    }

    /// The value of a grade; `None`: not measured.
    pub fn part(&self, grade: Grade) -> Option<f64> {
        self.parts.iter().find(|p| p.grade == grade).map(|p| p.value)
    }

    /// The largest of the parts; `None`: not measured.
    pub fn largest(&self) -> Option<f64> {
        self.parts.iter().map(|p| p.value).max_by(f64::total_cmp)
    }
}
