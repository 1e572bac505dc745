//! Silences: matching incidents send no notifications for a time; the API and series still show them.

use serde::{Deserialize, Serialize};

use super::record::{OperatorNote, Record, kind_text};
use fabriclens_correlate::IncidentKind;

/// Longest value of a matcher, bytes.
const TEXT: usize = 512;

/// Matcher of a silence; all given fields must match, and at least one must be given.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct SilenceMatcher {
    /// An incident and its recurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// Kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<IncidentKind>,
    /// Host or switch that is cause or victim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Job that is culprit or victim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A silence.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// ID.
    pub id: String,
    /// Matcher of incidents.
    #[serde(rename = "match")]
    pub of: SilenceMatcher,
    /// End, Unix ns.
    pub until_ns: i64,
    /// Author, time and note.
    #[serde(flatten)]
    pub note: OperatorNote,
    /// Credential or address of the caller that added it; `""` if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
}

impl SilenceMatcher {
    /// Whether no field is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all texts are within the bound and free of control characters.
    pub(crate) fn is_bounded(&self) -> bool {
        let texts = [&self.incident, &self.node, &self.job];
        texts.into_iter().flatten().all(|text| text.len() <= TEXT && !text.chars().any(char::is_control))
    }

    /// Whether all given fields match a record.
    pub fn fits(&self, record: &Record) -> bool {
        self.incident.as_ref().is_none_or(|id| id == &record.incident.id || id == record.thread())
            && self.kind.is_none_or(|kind| record.kind() == Some(kind) || record.incident.kind == kind)
            && self.node.as_ref().is_none_or(|node| record.touches(node))
            && self.job.as_ref().is_none_or(|job| record.role(job).is_some())
    }

    /// Text for people: `kind=pfc_storm node=h3`.
    pub fn words(&self) -> String {
        let kind = self.kind.map(kind_text);
        let parts = [("incident", &self.incident), ("kind", &kind), ("node", &self.node), ("job", &self.job)];
        let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        parts.collect::<Vec<_>>().join(" ")
    }
}
