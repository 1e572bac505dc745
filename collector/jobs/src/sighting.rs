//! Jobs as agents see them.

use crate::record::{HostAllocation, JobKey};
use std::collections::BTreeMap;

/// A job as agents see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenJob {
    /// Scheduler name, such as `slurm` or `kubernetes`.
    pub scheduler: String,
    /// `""` if its hosts do not know it.
    pub cluster: String,
    /// Id as hosts have it: the number in a control group, the UID of a pod.
    pub native: String,
    /// Id as the scheduler prints it, if the job's processes know it; else the same as `native`.
    pub task: String,
    /// Owner of its processes; `""` if unknown.
    pub user: String,
    /// Allocation by the agent's name of the host.
    pub hosts: BTreeMap<String, HostAllocation>,
    /// Start of the uninterrupted time in which its processes were seen, Unix nanoseconds.
    pub first_ns: i64,
    /// Last time a process was seen, Unix nanoseconds.
    pub last_ns: i64,
}

/// A job on one host, as its samples show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sighting {
    /// The job; its `hosts` has one entry.
    pub seen: SeenJob,
    /// Longest time between two samples, nanoseconds.
    pub gap_ns: i64,
}

/// A run that agents saw and whose end they have not seen.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    /// Key of the job.
    pub key: JobKey,
    /// Id and aliases.
    pub names: Vec<String>,
    /// Hosts on which agents saw it.
    pub hosts: Vec<String>,
    /// First time that agents saw it, Unix nanoseconds.
    pub start_ns: i64,
}
