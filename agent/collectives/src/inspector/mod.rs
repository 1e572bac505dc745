//! Follows the files of NCCL's Inspector, a profiler plugin that a job may load: JSON objects that grow for ever
//! (`HOST-pidPID.log`), or Prometheus text that is rewritten each 30 s (`nccl_inspector_metrics_UUID.prom`).
//!
//! A [`Followed`] file gives the [`Observation`]s that are new; [`Totals`] adds them up by communicator, operation and class of
//! size. Files belong to the user of the job: each read is bounded, links and pipes are not opened.

mod file;
mod objects;
mod prom;
mod record;
mod size;
mod totals;

pub use file::Followed;
pub use prom::observations as parse_prometheus;
pub use size::{CLASSES, SizeClass};
pub use totals::{Late, Series, Totals};

use std::sync::Arc;

/// One operation of one rank, or the mean of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Communicator: its hash as 16 hexadecimal digits, or its name where the file has no hash.
    pub communicator: Arc<str>,
    /// Name of the host that wrote it; empty if unknown.
    pub host: Arc<str>,
    /// Process that wrote it, in its own PID namespace.
    pub pid: Option<u32>,
    /// Job of Slurm, where the file has it.
    pub slurm_job: Option<Arc<str>>,
    /// Rank, or the GPU (`GPU0`) where the file has no rank.
    pub member: Arc<str>,
    /// Name of the operation.
    pub operation: Arc<str>,
    /// Class of its message size.
    pub size: SizeClass,
    /// Duration, seconds.
    pub seconds: f64,
    /// Bus bandwidth, bytes per second; `None` if the file has none.
    pub bus_bandwidth: Option<f64>,
    /// Whether it is a mean over a window instead of one operation.
    pub is_mean: bool,
    /// Ranks of the communicator on each host, where the file has only a name of it: more members than that are of several
    /// communicators, because programs give one name to many. 1 if it has no name.
    pub most_members: Option<u32>,
}

/// Adds the observations of JSON objects that begin at the begin of a line; returns how many objects could not be read.
pub fn parse_json(bytes: &[u8], out: &mut Vec<Observation>) -> u64 {
    record::records(bytes, &mut None, out).1
}

/// A text of a file that becomes a label: without control characters, bounded.
fn label(text: &str) -> Option<Arc<str>> {
    let plain = !text.is_empty() && text.len() <= 64 && !text.chars().any(char::is_control);
    plain.then(|| text.into())
}
