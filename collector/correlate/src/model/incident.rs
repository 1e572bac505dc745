//! An incident as the API and a back-test tell it.

use crate::model::finding::Evidence;
use crate::model::kind::{IncidentKind, Severity};
use crate::model::location::Location;
use crate::model::priority::Priorities;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A port that sends, and whose it is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Where.
    #[serde(flatten)]
    pub port: Location,
    /// Its job, if it has one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// See the module. Times are Unix nanoseconds.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Incident {
    /// Unique, and the same as long as it lives.
    pub id: String,
    /// What.
    pub kind: IncidentKind,
    /// When it began.
    pub start_ns: i64,
    /// When it was seen.
    pub detected_ns: i64,
    /// When it was over; `None`: it is not.
    pub end_ns: Option<i64>,
    /// The id of another that it proved to be a part of; it ended then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
    /// The id of another that it was taken for a part of until it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_from: Option<String>,
    /// How bad.
    pub severity: Severity,
    /// 0 to 1.
    pub confidence: f64,
    /// Where.
    pub root: Location,
    /// Priorities that are paused because of it; none where counters do not say.
    #[serde(default, skip_serializing_if = "Priorities::is_unknown")]
    pub priorities: Priorities,
    /// Jobs that cause it.
    pub culprit_jobs: Vec<String>,
    /// Jobs that suffer.
    pub victim_jobs: Vec<String>,
    /// Jobs that moved less than usual already before it began, and the share of it: only what they lose beyond that counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub low_before: BTreeMap<String, f64>,
    /// Ports that are kept from sending.
    pub victim_ports: Vec<Location>,
    /// Ports that send what is too much for a receiver, the loudest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<Sender>,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// In plain words.
    pub explanation: String,
    /// What to do next.
    pub action: String,
}
