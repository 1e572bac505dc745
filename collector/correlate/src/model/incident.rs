//! An incident as the API and a back-test return it.

use crate::model::finding::Evidence;
use crate::model::kind::{IncidentKind, Severity};
use crate::model::location::Location;
use crate::model::priority::Priorities;
use crate::model::routes::path::PathSource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A port that sends to an overloaded receiver.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The port.
    #[serde(flatten)]
    pub port: Location,
    /// The only job that uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The path of the flows that show an incident.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct IncidentPath {
    /// Ports in the order in which packets leave by them, then the port that receives them.
    pub ports: Vec<Location>,
    /// How it is known.
    pub known: PathSource,
}

/// A cause that detectors found for an incident, and that it does not accuse.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Considered {
    /// Kind.
    pub kind: IncidentKind,
    /// Location.
    pub root: Location,
    /// Highest confidence with which it was found, 0 to 1.
    pub confidence: f64,
    /// Share of the incident's evaluations that found it, 0 to 1.
    pub found_in: f64,
    /// Explanation of that finding.
    pub explanation: String,
}

/// An incident. Times are Unix nanoseconds.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Incident {
    /// Unique and stable id.
    pub id: String,
    /// Kind, by the majority of its findings.
    pub kind: IncidentKind,
    /// Start.
    pub start_ns: i64,
    /// When it was detected.
    pub detected_ns: i64,
    /// End; `None` while it is open.
    pub end_ns: Option<i64>,
    /// Id of the incident that this one, now ended, turned out to be part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
    /// Id of the incident that this one was attributed to before it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_from: Option<String>,
    /// Severity.
    pub severity: Severity,
    /// Probability that the verdict is right, 0 to 1.
    pub confidence: f64,
    /// Location of the cause.
    pub root: Location,
    /// Priorities that are paused because of it; empty if drivers do not count by priority.
    #[serde(default, skip_serializing_if = "Priorities::is_unknown")]
    pub priorities: Priorities,
    /// Jobs that cause it.
    pub culprit_jobs: Vec<String>,
    /// Jobs that lose throughput.
    pub victim_jobs: Vec<String>,
    /// Jobs that were below their baseline already before it began, with the share they moved. Only what they lose
    /// beyond that counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub low_before: BTreeMap<String, f64>,
    /// Ports that are kept from sending.
    pub victim_ports: Vec<Location>,
    /// Ports that send to an overloaded receiver, the largest sender first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<Sender>,
    /// Path of the flows that show it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<IncidentPath>,
    /// Causes that were considered and not accused, the most certain first; at most eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub considered: Vec<Considered>,
    /// Values that support it.
    pub evidence: Vec<Evidence>,
    /// Explanation for an operator.
    pub explanation: String,
    /// What the operator should do next.
    pub action: String,
}
