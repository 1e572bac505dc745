//! Silences: for a while nobody is told of the incidents that they fit. They stay on the API and in series.

use serde::{Deserialize, Serialize};

use super::record::{Record, Said, kind_text};
use fabriclens_correlate::IncidentKind;

/// Which incidents; all that is given must fit, and something must be given.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// One, and those that recur from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// Of a kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<IncidentKind>,
    /// That begin or suffer at a host or switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// That a job causes or suffers from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// One of them.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Names it.
    pub id: String,
    /// Which incidents.
    #[serde(rename = "match")]
    pub of: Match,
    /// How long, Unix nanoseconds.
    pub until_ns: i64,
    /// Who, when, why.
    #[serde(flatten)]
    pub said: Said,
}

impl Match {
    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all of it fits.
    pub fn fits(&self, record: &Record) -> bool {
        self.incident.as_ref().is_none_or(|id| id == &record.incident.id || id == record.thread())
            && self.kind.is_none_or(|kind| record.kind() == Some(kind) || record.incident.kind == kind)
            && self.node.as_ref().is_none_or(|node| record.touches(node))
            && self.job.as_ref().is_none_or(|job| record.role(job).is_some())
    }

    /// `kind=pfc_storm node=h3`
    pub fn words(&self) -> String {
        let kind = self.kind.map(kind_text);
        let parts = [("incident", &self.incident), ("kind", &kind), ("node", &self.node), ("job", &self.job)];
        let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        parts.collect::<Vec<_>>().join(" ")
    }
}
