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
    /// A credential that is bound to a host would change a job that others reported.
    #[error(
        "job {key} was reported by others; a credential that is bound to a host changes only jobs that it reported itself"
    )]
    Foreign {
        /// The job.
        key: JobKey,
    },
    /// No room: what is kept are running jobs.
    #[error(
        "job {key} is not kept: {who} may take {limit} bytes of the job registry, and running jobs take them; end or \
         delete jobs, or raise limits.memory"
    )]
    Full {
        /// The job.
        key: JobKey,
        /// The sender, or the senders together.
        who: String,
        /// Bytes.
        limit: usize,
    },
    /// The database failed. The change is shown, and is stored with the next one that succeeds.
    #[error("cannot use the job registry in the data directory: {0}; check the disk and the permissions")]
    Disk(String),
}
