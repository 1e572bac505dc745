//! Parses Slurm's job lists: JSON of `squeue`, `sacct` and `slurmrestd` (whose numbers became objects that may be
//! unset, and whose states became lists), or the text of `scontrol show job`.

mod json;
mod text;

use crate::hostlist::{self, HostlistError};
use crate::job_list::{JobList, ListedJob};
use crate::record::{HostAllocation, JobKey, JobRecord};

/// States of a job that holds its hosts.
const RUNNING: [&str; 7] = ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"];
/// States of a waiting job; all other states are final.
const WAITING: [&str; 10] = [
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
    "REVOKED",
    "LAUNCH_FAILED",
    "RECONFIG_FAIL",
];
/// Values that mean none.
const NONE: [&str; 4] = ["", "(null)", "None assigned", "N/A"];

/// A response that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// Neither JSON nor text of jobs.
    #[error(
        "Slurm's answer is no list of jobs: {0}; ask by `squeue --json --states=all` (Slurm 21.08 or later), \
         `scontrol show job` or slurmrestd's …/jobs"
    )]
    Format(String),
    /// Slurm reported an error.
    #[error("Slurm says: {0}")]
    Reported(String),
}

/// Jobs of a response, and jobs that cannot be parsed. `cluster` is used if Slurm names none.
///
/// # Errors
/// [`SlurmError`].
pub fn jobs(answer: &[u8], cluster: &str) -> Result<JobList, SlurmError> {
    let rows = if answer.trim_ascii_start().starts_with(b"{") { json::rows(answer)? } else { text::rows(answer)? };
    let (mut listed, mut unparsed) = (Vec::new(), Vec::new());
    for row in rows {
        match row.listed(cluster) {
            Ok(some) => listed.extend(some),
            Err(e) => unparsed.push((row.number.to_string(), e.to_string())),
        }
    }
    Ok((listed, unparsed))
}

/// A job in any of the formats.
#[derive(Default)]
struct Row {
    /// Its own job id, also for array tasks and parts of heterogeneous jobs.
    number: i64,
    /// Array job id and task id.
    array: Option<(i64, i64)>,
    /// Id of the first part, and offset of this part.
    het: Option<(i64, i64)>,
    states: Vec<String>,
    /// Unix nanoseconds.
    start: Option<i64>,
    end: Option<i64>,
    nodes: String,
    cluster: String,
    user: String,
    name: String,
    partition: String,
    account: String,
}

impl Row {
    fn is_any(&self, of: &[&str]) -> bool {
        self.states.iter().any(|s| of.contains(&s.as_str()))
    }

    fn listed(&self, cluster: &str) -> Result<Option<ListedJob>, HostlistError> {
        let present = |text: &str| Some(text.to_owned()).filter(|t| !NONE.contains(&t.as_str()));
        // A job without hosts was canceled while it waited.
        let (Some(start), Some(nodes), false) = (self.start, present(&self.nodes), self.is_any(&WAITING)) else {
            return Ok(None);
        };
        // While a job runs, its end time is only its time limit.
        let end = if self.is_any(&RUNNING) { None } else { Some(self.end.unwrap_or(start).max(start)) };
        let labels = [("partition", present(&self.partition)), ("account", present(&self.account))];
        let id = self.id();
        let own = self.number.to_string();
        let record = JobRecord {
            user: present(&self.user),
            name: present(&self.name),
            labels: labels.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?))).collect(),
            // Control groups and SLURM_JOB_ID carry the job's own number.
            aliases: if own == id { Vec::new() } else { vec![own] },
            start_ns: Some(start),
            end_ns: end,
            hosts: hostlist::expand(&nodes)?.into_iter().map(|h| (h, HostAllocation::default())).collect(),
        };
        let cluster = present(&self.cluster).unwrap_or_else(|| cluster.to_owned());
        Ok(Some(ListedJob { key: JobKey { cluster, id }, record }))
    }

    /// The id as `squeue` prints it.
    fn id(&self) -> String {
        match (self.array, self.het) {
            (Some((array, task)), _) => format!("{array}_{task}"),
            (_, Some((first, offset))) => format!("{first}+{offset}"),
            _ => self.number.to_string(),
        }
    }
}
