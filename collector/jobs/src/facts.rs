//! What a source says of a job, and the limits of what it may say.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Hosts of one job.
const HOSTS: usize = 65_536;
/// Other names of one job: pods, of which a host may have some.
const ALIASES: usize = HOSTS;
/// Labels of one job; each may become a label of a series.
const LABELS: usize = 32;
/// Bytes of a name or value.
const TEXT: usize = 512;
/// Devices or processes of a job on one host.
const PER_HOST: usize = 4096;

/// Who says it. Of two that differ in a name the later row counts: schedulers know names best.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Agents, who see its processes and queue pairs: they know where and when it runs, and names hardly.
    Agent,
    /// A file in the directory of jobs.
    File,
    /// `POST /api/v1/jobs`.
    Http,
    /// `squeue`, `scontrol` or `slurmrestd`.
    Slurm,
    /// The list of pods.
    Kubernetes,
}

impl Source {
    /// As in JSON.
    pub fn text(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::File => "file",
            Self::Http => "http",
            Self::Slurm => "slurm",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// Whether it is asked again and again, so that a job of which it tells no end does run.
    pub(crate) fn is_asked(self) -> bool {
        matches!(self, Self::Slurm | Self::Kubernetes)
    }
}

/// A job's name in all sources: schedulers give the same number again, but not to two jobs of a cluster at one time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `""` where there is one.
    pub cluster: String,
    /// The scheduler's: `4711`, `4711_3` of an array, `4711+1` of a heterogeneous job, a pod's owner.
    pub id: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cluster.as_str() {
            "" => write!(f, "{}", self.id),
            cluster => write!(f, "{cluster}/{}", self.id),
        }
    }
}

/// What a job has of one host; empty lists: not known, or all of it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Place {
    /// RDMA devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
}

/// What one source says; what it does not know is `None` or empty.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// Whose job it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What its owner calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Partition, account, namespace and the like.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Other names of the same job, as hosts know it: the number of an array's task, the UIDs of its pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Unix nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<i64>,
    /// Unix nanoseconds; `None`: it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    /// By host, as agents name it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Place>,
}

/// Why something is not taken; names the field and the limit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FactsError {
    /// Empty, too long, or with control characters.
    #[error("{field} {value:?} is not a name: give 1 to {TEXT} bytes without control characters")]
    Text {
        /// Which.
        field: &'static str,
        /// The beginning of what it was.
        value: String,
    },
    /// Too many of something.
    #[error("{count} {what} are more than {most}")]
    Many {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// It ends before it starts.
    #[error("it would end {0} s before it starts")]
    Backwards(i64),
}

fn text(field: &'static str, value: &str) -> Result<(), FactsError> {
    if !value.is_empty() && value.len() <= TEXT && !value.chars().any(char::is_control) {
        return Ok(());
    }
    Err(FactsError::Text { field, value: value.chars().take(40).collect() })
}

fn many(what: &'static str, count: usize, most: usize) -> Result<(), FactsError> {
    if count <= most { Ok(()) } else { Err(FactsError::Many { what, count, most }) }
}

impl Key {
    /// # Errors
    /// [`FactsError`].
    pub fn check(&self) -> Result<(), FactsError> {
        text("id", &self.id)?;
        if self.cluster.is_empty() { Ok(()) } else { text("cluster", &self.cluster) }
    }
}

impl Facts {
    /// # Errors
    /// [`FactsError`].
    pub fn check(&self) -> Result<(), FactsError> {
        self.user.iter().try_for_each(|user| text("user", user))?;
        self.name.iter().try_for_each(|name| text("name", name))?;
        many("labels", self.labels.len(), LABELS)?;
        for (name, value) in &self.labels {
            text("label", name)?;
            text("value of a label", value)?;
        }
        many("aliases", self.aliases.len(), ALIASES)?;
        self.aliases.iter().try_for_each(|alias| text("alias", alias))?;
        many("hosts", self.hosts.len(), HOSTS)?;
        for (host, place) in &self.hosts {
            text("host", host)?;
            many("devices of a host", place.devices.len(), PER_HOST)?;
            many("pids of a host", place.pids.len(), PER_HOST)?;
            place.devices.iter().try_for_each(|device| text("device", device))?;
        }
        match (self.start_ns, self.end_ns) {
            (Some(start), Some(end)) if end < start => Err(FactsError::Backwards((start - end) / 1_000_000_000)),
            _ => Ok(()),
        }
    }

    /// Takes over what `later` says; a host it names has what it says of that host.
    pub fn amend(&mut self, later: Self) {
        let Self { user, name, labels, aliases, start_ns, end_ns, hosts } = later;
        self.user = user.or(self.user.take());
        self.name = name.or(self.name.take());
        self.labels.extend(labels);
        let known: HashSet<&String> = self.aliases.iter().collect();
        let new: Vec<String> = aliases.into_iter().filter(|alias| !known.contains(alias)).collect();
        self.aliases.extend(new);
        // A job whose pods fail for ever has ever new ones; the last are those that hosts still show.
        self.aliases.drain(..self.aliases.len().saturating_sub(ALIASES));
        self.start_ns = start_ns.or(self.start_ns);
        self.end_ns = end_ns.or(self.end_ns);
        self.hosts.extend(hosts);
    }
}
