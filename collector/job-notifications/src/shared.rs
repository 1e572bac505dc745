//! What all receivers share: jobs, and the one way to read a report.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fabriclens_core::telemetry::Telemetry;
use fabriclens_job_sources::Jobs;
use fabriclens_jobs::JobKey;
use tokio::sync::{Mutex, watch};

/// The report of a run in three sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// What the network cost.
    pub cost: String,
    /// The most likely cause.
    pub cause: String,
    /// Comparison with earlier jobs.
    pub earlier: String,
    /// Whether the network cost a noticeable part of its time; `None`: not measured.
    pub has_lost: Option<bool>,
    /// Whether all hosts were measured without gaps.
    pub is_complete: bool,
    /// Number of hosts.
    pub hosts: usize,
}

/// The answer of [`ReadDigest`].
pub type DigestAnswer = Pin<Box<dyn Future<Output = Result<Digest, String>> + Send>>;
/// Builds the digest of a run; an error says why that is not possible.
pub type ReadDigest = Arc<dyn Fn(JobKey, u32) -> DigestAnswer + Send + Sync>;

/// What all receivers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) jobs: Arc<Jobs>,
    /// One report at a time, whichever receiver needs it: they must not take the permits of queries.
    pub(crate) read: Arc<Mutex<ReadDigest>>,
    pub(crate) telemetry: Telemetry,
    /// URL of this collector.
    pub(crate) base: String,
    pub(crate) stop: watch::Receiver<bool>,
}
