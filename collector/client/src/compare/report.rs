//! The fields of a report's JSON (`docs/report.schema.json`) that a comparison reads.

use serde::{Deserialize, Serialize};

/// Version of the report's JSON that is understood.
pub(super) const VERSION: u32 = 1;

/// Version alone, read before anything else.
#[derive(Deserialize)]
pub(super) struct Version {
    pub(super) version: u32,
}

/// The communication report of one run.
#[derive(Deserialize)]
pub(super) struct Report {
    pub(super) job: Job,
    pub(super) range: Range,
    pub(super) summary: Summary,
    pub(super) traffic: Traffic,
    pub(super) congestion: Congestion,
    #[serde(default)]
    pub(super) collectives: Collectives,
    pub(super) incidents: Vec<Incident>,
    pub(super) health: Health,
    pub(super) transport: Transport,
    pub(super) quality: Quality,
}

#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) cluster: String,
    pub(super) id: String,
    pub(super) run: u32,
    pub(super) name: String,
    pub(super) end_ns: Option<i64>,
    pub(super) hosts: usize,
}

#[derive(Deserialize)]
pub(super) struct Range {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) method: String,
}

#[derive(Deserialize)]
pub(super) struct Summary {
    pub(super) cost: Cost,
    pub(super) cause: Cause,
}

#[derive(Deserialize)]
pub(super) struct Cost {
    #[serde(default)]
    pub(super) at_least: Figure,
    pub(super) at_most: Figure,
    pub(super) at_most_share: Figure,
    pub(super) timeouts: Figure,
}

#[derive(Deserialize)]
pub(super) struct Cause {
    pub(super) kind: String,
    pub(super) text: String,
}

#[derive(Deserialize)]
pub(super) struct Traffic {
    pub(super) transmitted: Figure,
    pub(super) mean_rate: Figure,
    pub(super) rails: Vec<Rail>,
    pub(super) hosts: Vec<Host>,
    pub(super) straggler: Option<Straggler>,
}

#[derive(Deserialize)]
pub(super) struct Rail {
    pub(super) rail: String,
    pub(super) transmitted: Figure,
    /// Bytes sent per port relative to the mean of all rails.
    pub(super) of_mean: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Host {
    pub(super) host: String,
    /// Fraction of time in which its worst port could not send.
    pub(super) paused: Figure,
}

#[derive(Deserialize)]
pub(super) struct Straggler {
    pub(super) host: String,
    pub(super) device: Option<String>,
    pub(super) text: String,
}

#[derive(Deserialize)]
pub(super) struct Congestion {
    pub(super) paused: Figure,
    pub(super) pausing: Figure,
    pub(super) xmit_wait: Figure,
    pub(super) cnp_received: Figure,
}

/// What the communication library reported; empty if no agent read it.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Collectives {
    /// Those with the most time first.
    pub(super) operations: Vec<Operation>,
    pub(super) conclusion: Option<Conclusion>,
}

#[derive(Deserialize)]
pub(super) struct Operation {
    pub(super) operation: String,
    /// Smallest message of the class.
    pub(super) size: String,
    pub(super) mean_seconds: Option<f64>,
    pub(super) bandwidth: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Conclusion {
    pub(super) waits_for: String,
}

#[derive(Deserialize)]
pub(super) struct Incident {
    pub(super) kind: String,
    pub(super) role: String,
}

#[derive(Deserialize)]
pub(super) struct Health {
    pub(super) link_errors: Figure,
    pub(super) discards: Figure,
    pub(super) retransmits: Figure,
}

#[derive(Deserialize)]
pub(super) struct Transport {
    pub(super) tcp_share: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Quality {
    pub(super) measured: usize,
}

/// A number with one part per grade; no part means not measured, which is not zero.
#[derive(Deserialize, Default)]
pub(super) struct Figure {
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    grade: Grade,
    /// Null if the number is not finite.
    value: Option<f64>,
    of: usize,
}

/// Confidence that a number belongs to the job, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grade {
    Exclusive,
    PerProcess,
    Shared,
}

/// All grades, the highest confidence first.
pub(super) const GRADES: [Grade; 3] = [Grade::Exclusive, Grade::PerProcess, Grade::Shared];

impl Grade {
    /// Name for people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::PerProcess => "per process",
            Self::Shared => "shared",
        }
    }
}

/// A number, and of how many ports (or hosts, per process) it was computed.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) value: f64,
    pub(super) of: usize,
}

impl Figure {
    /// The part of a grade; `None`: not measured.
    pub(super) fn at(&self, grade: Grade) -> Option<Measured> {
        let part = self.parts.iter().find(|part| part.grade == grade)?;
        Some(Measured { value: part.value.filter(|value| value.is_finite())?, of: part.of })
    }

    /// The largest part; `None`: not measured.
    pub(super) fn largest(&self) -> Option<f64> {
        GRADES.into_iter().filter_map(|grade| self.at(grade)).map(|part| part.value).max_by(f64::total_cmp)
    }

    /// Grades that were measured, the highest confidence first.
    pub(super) fn grades(&self) -> Vec<Grade> {
        GRADES.into_iter().filter(|grade| self.at(*grade).is_some()).collect()
    }
}

impl Report {
    /// Seconds that the report covers.
    pub(super) fn seconds(&self) -> f64 {
        (self.range.end_ns - self.range.start_ns) as f64 / 1e9
    }

    /// Whether the job has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.job.end_ns.is_some()
    }
}
