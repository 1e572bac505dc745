//! Errors of the job registry.

use crate::record::{JobKey, RecordError};

/// Errors of the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The record is not valid.
    #[error("job {key}: {source}")]
    Refused {
        /// The job.
        key: JobKey,
        /// Reason.
        source: RecordError,
    },
    /// No such job is known.
    #[error("there is no job {0}; GET /api/v1/jobs lists the known jobs")]
    Unknown(JobKey),
    /// The request named no cluster, and several clusters have a job with this id.
    #[error("clusters {} each have a job {id}; name one (cluster)", .clusters.join(" and "))]
    Ambiguous {
        /// The requested id.
        id: String,
        /// Clusters that have it.
        clusters: Vec<String>,
    },
    /// The start lies in a run that has ended.
    #[error("job {key} has a run that ended after this start; use PATCH to correct that run, POST to begin a new one")]
    Overlap {
        /// The job.
        key: JobKey,
    },
    /// The database failed.
    #[error("cannot use the job registry in the data directory: {0}; check the disk and the permissions")]
    Disk(String),
}
