//! What one source reports of a job, and the limits of a report.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Hosts of one job.
const HOSTS: usize = 65_536;
/// Aliases of one job: a host may have several pods.
const ALIASES: usize = HOSTS;
/// Labels of one job; each may become a label of a series.
const LABELS: usize = 32;
/// Bytes of a name or value.
const TEXT: usize = 512;
/// Devices or processes of a job on one host.
const PER_HOST: usize = 4096;
/// Most memory of one record, bytes: the most hosts, each with a name of 64 bytes and a few devices.
pub(crate) const RECORD_BYTES: usize = 16 << 20;
/// Memory of a record without entries: the nodes of the maps that hold it and its names.
const RECORD: usize = 2048;
/// Memory of a label, alias or host besides its text, index included.
const ENTRY: usize = 128;

/// Source of a record. If names differ, the later variant wins: schedulers know names best.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Agents, which see processes and queue pairs: reliable for place and time, hardly for names.
    Agent,
    /// A file in the job directory.
    File,
    /// `POST /api/v1/jobs`.
    Http,
    /// `squeue`, `scontrol` or `slurmrestd`.
    Slurm,
    /// The pod list.
    Kubernetes,
}

impl Source {
    /// Name in JSON.
    pub fn text(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::File => "file",
            Self::Http => "http",
            Self::Slurm => "slurm",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// Whether the source is polled, so that a job without an end is running.
    pub(crate) fn is_polled(self) -> bool {
        matches!(self, Self::Slurm | Self::Kubernetes)
    }
}

/// Identity of a job in all sources. Schedulers reuse ids, but never for two jobs of a cluster at one time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// Cluster name; empty in a single-cluster setup.
    pub cluster: String,
    /// The scheduler's id: `4711`, `4711_3` (array task), `4711+1` (part of a heterogeneous job), or a pod's owner.
    pub id: String,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cluster.as_str() {
            "" => write!(f, "{}", self.id),
            cluster => write!(f, "{cluster}/{}", self.id),
        }
    }
}

/// Devices and processes of a job on one host; an empty list means unknown, or all.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct HostAllocation {
    /// RDMA devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
}

/// One source's report of a job; unknown fields are `None` or empty.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct JobRecord {
    /// Owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels, such as partition, account and namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Other ids of the job, as hosts have them: the number of an array task, the UIDs of pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Start, Unix nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<i64>,
    /// End, Unix nanoseconds; `None` while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    /// Allocation by host name, as this source names the host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostAllocation>,
}

/// A record that is refused, with the field and the limit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// Empty, too long, or with control characters.
    #[error("{field} {value:?} is not a name: give 1 to {TEXT} bytes without control characters")]
    Text {
        /// Field name.
        field: &'static str,
        /// The first 40 characters.
        value: String,
    },
    /// Too many entries.
    #[error("{count} {what} are more than {limit}")]
    TooMany {
        /// Entries of what.
        what: &'static str,
        /// Actual number.
        count: usize,
        /// Limit.
        limit: usize,
    },
    /// The end is before the start; the difference in seconds.
    #[error("it would end {0} s before it starts")]
    Backwards(i64),
    /// Too much text.
    #[error("it takes {0} bytes of memory, more than {RECORD_BYTES} for one job; report fewer hosts or shorter names")]
    Large(usize),
    /// A credential that is bound to a host names another one.
    #[error("the credential is bound to {own} and cannot report a job on {host}; use one without a host")]
    OtherHost {
        /// Named host.
        host: String,
        /// Hosts of the credential.
        own: String,
    },
    /// A credential that is bound to a host gives aliases.
    #[error("the credential is bound to {own} and cannot give aliases of a job; use one without a host")]
    Aliases {
        /// Hosts of the credential.
        own: String,
    },
}

fn check_text(field: &'static str, value: &str) -> Result<(), RecordError> {
    if !value.is_empty() && value.len() <= TEXT && !value.chars().any(char::is_control) {
        return Ok(());
    }
    Err(RecordError::Text { field, value: value.chars().take(40).collect() })
}

fn check_count(what: &'static str, count: usize, limit: usize) -> Result<(), RecordError> {
    if count <= limit { Ok(()) } else { Err(RecordError::TooMany { what, count, limit }) }
}

impl JobKey {
    /// Checks length and characters of cluster and id.
    /// # Errors
    /// [`RecordError`].
    pub fn check(&self) -> Result<(), RecordError> {
        check_text("id", &self.id)?;
        if self.cluster.is_empty() { Ok(()) } else { check_text("cluster", &self.cluster) }
    }
}

impl JobRecord {
    /// Checks all limits.
    /// # Errors
    /// [`RecordError`].
    pub fn check(&self) -> Result<(), RecordError> {
        self.user.iter().try_for_each(|user| check_text("user", user))?;
        self.name.iter().try_for_each(|name| check_text("name", name))?;
        check_count("labels", self.labels.len(), LABELS)?;
        for (name, value) in &self.labels {
            check_text("label", name)?;
            check_text("value of a label", value)?;
        }
        check_count("aliases", self.aliases.len(), ALIASES)?;
        self.aliases.iter().try_for_each(|alias| check_text("alias", alias))?;
        check_count("hosts", self.hosts.len(), HOSTS)?;
        for (host, allocation) in &self.hosts {
            check_text("host", host)?;
            check_count("devices of a host", allocation.devices.len(), PER_HOST)?;
            check_count("pids of a host", allocation.pids.len(), PER_HOST)?;
            allocation.devices.iter().try_for_each(|device| check_text("device", device))?;
        }
        match self.weight() {
            large if large > RECORD_BYTES => return Err(RecordError::Large(large)),
            _ => {}
        }
        match (self.start_ns, self.end_ns) {
            (Some(start), Some(end)) if end < start => Err(RecordError::Backwards((start - end) / 1_000_000_000)),
            _ => Ok(()),
        }
    }

    /// Estimated memory of the record in the registry, bytes.
    pub(crate) fn weight(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let labels: usize = self.labels.iter().map(|(name, value)| ENTRY + name.len() + value.len()).sum();
        // The index of names has a copy of each alias.
        let aliases: usize = self.aliases.iter().map(|alias| 2 * (ENTRY + alias.len())).sum();
        let host = |(name, at): (&String, &HostAllocation)| {
            let devices: usize = at.devices.iter().map(|device| 32 + device.len()).sum();
            ENTRY + name.len() + devices + 4 * at.pids.len()
        };
        RECORD + text(&self.user) + text(&self.name) + labels + aliases + self.hosts.iter().map(host).sum::<usize>()
    }

    /// Merges a later record: its fields win, and a host that it has replaces the known one.
    pub fn amend(&mut self, later: Self) {
        let Self { user, name, labels, aliases, start_ns, end_ns, hosts } = later;
        self.user = user.or(self.user.take());
        self.name = name.or(self.name.take());
        self.labels.extend(labels);
        let known: HashSet<&String> = self.aliases.iter().collect();
        let new: Vec<String> = aliases.into_iter().filter(|alias| !known.contains(alias)).collect();
        self.aliases.extend(new);
        // A job whose pods keep failing gets new pods without end; hosts still show the last ones.
        self.aliases.drain(..self.aliases.len().saturating_sub(ALIASES));
        self.start_ns = start_ns.or(self.start_ns);
        self.end_ns = end_ns.or(self.end_ns);
        self.hosts.extend(hosts);
    }
}
