//! What an audit finds: settings that differ, and groups that are split.

use fabriclens_correlate::Severity;
use serde::Serialize;

/// A setting that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// Host.
    pub host: String,
    /// Port (`mlx5_0/1`) or device (`mlx5_0`).
    pub port: String,
    /// Rail; `""` if unknown.
    pub rail: String,
    /// Name of the key, or of the rule for one host.
    pub key: String,
    /// What it is, for people.
    pub title: String,
    /// Severity.
    pub severity: Severity,
    /// Value; of maps, the entries that differ.
    pub value: String,
    /// Expected value, likewise; several are separated by ` or `.
    pub expected: String,
    /// Why that is expected.
    pub reason: Reason,
    /// What goes wrong.
    pub consequence: String,
    /// When the value changed, if it did while samples were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Changed>,
}

/// A change of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Time of the first sample with the value of today, Unix ms.
    pub since_ms: i64,
    /// The value before; of maps, the entries that differ.
    pub before: String,
}

/// Why a value is expected, in the order of trust.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reason {
    /// A baseline of the site.
    Baseline {
        /// Its name.
        name: String,
    },
    /// The other end of the link.
    FarEnd {
        /// Node.
        node: String,
        /// Port.
        port: String,
    },
    /// Most ports of the group have it.
    Majority {
        /// The group, for people.
        group: String,
        /// Members with the expected value.
        agree: usize,
        /// Members with any value.
        of: usize,
    },
    /// Other settings of the same host.
    Host,
}

/// A group without a majority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The group, for people.
    pub group: String,
    /// Name of the key.
    pub key: String,
    /// What it is, for people.
    pub title: String,
    /// Values with the number of members, the most frequent first; at most eight.
    pub values: Vec<SplitValue>,
}

/// A value of a split group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SplitValue {
    /// Value.
    pub value: String,
    /// Members that have it.
    pub members: usize,
    /// One of them, as `host port`.
    pub example: String,
}
