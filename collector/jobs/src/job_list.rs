//! The answer of a scheduler that lists all of its jobs.

use crate::record::{JobKey, JobRecord};

/// A job in a scheduler's list. It has or had hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedJob {
    /// The scheduler's id.
    pub key: JobKey,
    /// The scheduler's record; an end only if the job is over.
    pub record: JobRecord,
}

/// A job that cannot be parsed, and why.
pub type Unparsed = (String, String);

/// The parsed jobs of a list, and the jobs that cannot be parsed.
pub type JobList = (Vec<ListedJob>, Vec<Unparsed>);
