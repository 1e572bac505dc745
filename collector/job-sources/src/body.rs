//! A job in JSON, as people and scheduler hooks write it in a request or a file: lenient in form, strict in names.

use std::collections::BTreeMap;

use fabriclens_jobs::hostlist::{self, HostlistError};
use fabriclens_jobs::{HostAllocation, JobKey, JobRecord};
use serde::Deserialize;

use fabriclens_core::time;

/// Largest time in ms that fits into nanoseconds.
const MAX_MS: i64 = i64::MAX / 1_000_000;

/// A complete job.
///
/// ```
/// let body = fabriclens_job_sources::Body::read(br#"{"id": 4711, "user": "ann", "hosts": "gpu-[01-02]"}"#)?;
/// let (key, job) = body.record()?;
/// assert_eq!((key.id.as_str(), job.hosts.len()), ("4711", 2));
/// # Ok::<(), fabriclens_job_sources::BodyError>(())
/// ```
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Body {
    id: Id,
    #[serde(default)]
    cluster: String,
    user: Option<String>,
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    aliases: Vec<Id>,
    start: Option<Time>,
    end: Option<Time>,
    #[serde(default)]
    hosts: Hosts,
}

/// Changes of a known job.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    user: Option<String>,
    name: Option<String>,
    labels: BTreeMap<String, String>,
    aliases: Vec<Id>,
    start: Option<Time>,
    end: Option<Time>,
    hosts: Hosts,
}

/// Slurm's IDs are numbers.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
}

impl Id {
    fn text(self) -> String {
        match self {
            Self::Number(id) => id.to_string(),
            Self::Text(id) => id,
        }
    }
}

/// Unix seconds, or RFC 3339.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Time {
    Seconds(f64),
    Text(String),
}

/// `["a", "b"]`, Slurm's notation (`"n[1-2]"`), or `{"a": {"devices": ["mlx5_0"], "pids": [17]}}`.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Hosts {
    Text(String),
    List(Vec<String>),
    Places(BTreeMap<String, HostAllocation>),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

/// The body is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// Not JSON, or not of this form.
    #[error("{0}; a job is written as {{\"id\": \"4711\", \"user\": \"…\", \"name\": \"…\", \"hosts\": [\"node1\"]}}")]
    Form(String),
    /// Invalid host list.
    #[error("hosts: {0}")]
    Hosts(#[from] HostlistError),
    /// Invalid time.
    #[error("{field} {value:?} is not a time; write Unix seconds or RFC 3339 (2026-01-31T12:00:00Z)")]
    Time {
        /// `start` or `end`.
        field: &'static str,
        /// Value as written.
        value: String,
    },
}

impl Time {
    fn ns(self, field: &'static str) -> Result<i64, BodyError> {
        let text = match self {
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Text(text) => text,
        };
        let ms = time::parse_time(&text).filter(|ms| ms.abs() <= MAX_MS);
        ms.map(|ms| ms * 1_000_000).ok_or(BodyError::Time { field, value: text })
    }
}

impl Change {
    /// Parses JSON; an empty body changes nothing.
    ///
    /// # Errors
    /// [`BodyError::Form`].
    pub fn read(json: &[u8]) -> Result<Self, BodyError> {
        if json.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(json).map_err(|e| BodyError::Form(e.to_string()))
    }

    /// Converts the changes to facts.
    ///
    /// # Errors
    /// [`BodyError::Time`], [`BodyError::Hosts`].
    pub fn record(self) -> Result<JobRecord, BodyError> {
        let Self { user, name, labels, aliases, start, end, hosts } = self;
        let hosts = match hosts {
            Hosts::Text(text) => {
                hostlist::expand(&text)?.into_iter().map(|host| (host, HostAllocation::default())).collect()
            }
            Hosts::List(list) => list.into_iter().map(|host| (host, HostAllocation::default())).collect(),
            Hosts::Places(places) => places,
        };
        Ok(JobRecord {
            // A hook without a value sends an empty variable.
            user: user.filter(|u| !u.is_empty()),
            name: name.filter(|n| !n.is_empty()),
            labels: labels.into_iter().filter(|(_, v)| !v.is_empty()).collect(),
            aliases: aliases.into_iter().map(Id::text).filter(|alias| !alias.is_empty()).collect(),
            start_ns: start.map(|t| t.ns("start")).transpose()?,
            end_ns: end.map(|t| t.ns("end")).transpose()?,
            hosts,
        })
    }
}

impl Body {
    /// Parses JSON.
    ///
    /// # Errors
    /// [`BodyError::Form`].
    pub fn read(json: &[u8]) -> Result<Self, BodyError> {
        serde_json::from_slice(json).map_err(|e| BodyError::Form(e.to_string()))
    }

    /// Converts the job to its key and facts.
    ///
    /// # Errors
    /// [`BodyError::Time`], [`BodyError::Hosts`].
    pub fn record(self) -> Result<(JobKey, JobRecord), BodyError> {
        let Self { id, cluster, user, name, labels, aliases, start, end, hosts } = self;
        let change = Change { user, name, labels, aliases, start, end, hosts };
        Ok((JobKey { cluster, id: id.text() }, change.record()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_hooks_parse() {
        let of = |json: &str| Body::read(json.as_bytes()).unwrap().record().unwrap();
        let (key, record) =
            of(r#"{"id": 4711, "user": "", "start": 1.5, "end": "1970-01-01T00:01:00Z", "hosts": ["b", "a"]}"#);
        assert_eq!((key.cluster.as_str(), key.id.as_str(), record.user), ("", "4711", None));
        assert_eq!((record.start_ns, record.end_ns), (Some(1_500_000_000), Some(60_000_000_000)));
        assert_eq!(record.hosts.keys().collect::<Vec<_>>(), ["a", "b"]);
        let (key, record) = of(
            r#"{"id": "12_3", "aliases": [15, ""], "cluster": "c", "hosts": {"a": {"devices": ["mlx5_0"], "pids": [17]}}}"#,
        );
        assert_eq!((key.cluster.as_str(), key.id.as_str(), &record.aliases[..]), ("c", "12_3", &["15".to_owned()][..]));
        assert_eq!(record.hosts["a"], HostAllocation { devices: vec!["mlx5_0".into()], pids: vec![17] });
        let (_, record) = of(r#"{"id": 1, "hosts": "n[1-2],x"}"#);
        assert_eq!(record.hosts.keys().collect::<Vec<_>>(), ["n1", "n2", "x"]);
        assert_eq!(Change::read(b" ").unwrap().record().unwrap(), JobRecord::default());
    }

    #[test]
    fn invalid_bodies_are_named() {
        let why = |json: &str| match Body::read(json.as_bytes()) {
            Ok(body) => body.record().unwrap_err().to_string(),
            Err(e) => e.to_string(),
        };
        assert!(why(r#"{"id": "1", "host": ["a"]}"#).starts_with("unknown field `host`, expected one of"));
        assert!(why(r#"{"hosts": ["a"]}"#).starts_with("missing field `id`"));
        assert!(why("id=1").contains("a job is written as {\"id\": \"4711\""));
        assert!(why(r#"{"id": "1", "start": "noon"}"#).starts_with("start \"noon\" is not a time; write Unix seconds"));
        assert!(why(r#"{"id": "1", "hosts": "n[1"}"#).starts_with("hosts: \"n[1\" is not a host list"));
        assert!(why(r#"{"id": "1", "end": 1e300}"#).starts_with("end "));
    }
}
