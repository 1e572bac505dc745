//! What Slurm says of its jobs, in any of its forms: JSON of `squeue`, `sacct` and `slurmrestd` (numbers became objects
//! that may be unset, states lists), or the text of `scontrol show job`.

mod json;
mod text;

use crate::facts::{Facts, Key, Place};
use crate::hostlist::{self, HostlistError};
use crate::listed::{List, Listed};

/// States of a job that has its hosts.
const RUNS: [&str; 7] = ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"];
/// States of one that waits; all others are ends.
const WAITS: [&str; 10] = [
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
/// What stands for no hosts, no account and the like.
const NONE: [&str; 4] = ["", "(null)", "None assigned", "N/A"];

/// Why nothing can be learned of an answer.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// Neither JSON nor text of jobs.
    #[error(
        "Slurm's answer is no list of jobs: {0}; ask by `squeue --json --states=all` (Slurm 21.08 or later), \
         `scontrol show job` or slurmrestd's …/jobs"
    )]
    Form(String),
    /// Slurm says why.
    #[error("Slurm says: {0}")]
    Told(String),
}

/// Jobs of an answer, and single ones that are not understood. `cluster` is used where Slurm names none.
///
/// # Errors
/// [`SlurmError`].
pub fn jobs(answer: &[u8], cluster: &str) -> Result<List, SlurmError> {
    let rows = if answer.trim_ascii_start().starts_with(b"{") { json::rows(answer)? } else { text::rows(answer)? };
    let (mut listed, mut odd) = (Vec::new(), Vec::new());
    for row in rows {
        match row.listed(cluster) {
            Ok(some) => listed.extend(some),
            Err(e) => odd.push((row.number.to_string(), e.to_string())),
        }
    }
    Ok((listed, odd))
}

/// A job in any form.
#[derive(Default)]
struct Row {
    /// Its own, whatever it is a part of.
    number: i64,
    /// Array and task.
    array: Option<(i64, i64)>,
    /// First of the parts, and which part this is.
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

    fn listed(&self, cluster: &str) -> Result<Option<Listed>, HostlistError> {
        let told = |text: &str| Some(text.to_owned()).filter(|t| !NONE.contains(&t.as_str()));
        // Without hosts it was cancelled while it waited.
        let (Some(start), Some(nodes), false) = (self.start, told(&self.nodes), self.is_any(&WAITS)) else {
            return Ok(None);
        };
        // While it runs, its end is only the limit of its time.
        let end = if self.is_any(&RUNS) { None } else { Some(self.end.unwrap_or(start).max(start)) };
        let labels = [("partition", told(&self.partition)), ("account", told(&self.account))];
        let id = self.id();
        let own = self.number.to_string();
        let facts = Facts {
            user: told(&self.user),
            name: told(&self.name),
            labels: labels.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?))).collect(),
            // Control groups and SLURM_JOB_ID have the own number.
            aliases: if own == id { Vec::new() } else { vec![own] },
            start_ns: Some(start),
            end_ns: end,
            hosts: hostlist::expand(&nodes)?.into_iter().map(|h| (h, Place::default())).collect(),
        };
        let cluster = told(&self.cluster).unwrap_or_else(|| cluster.to_owned());
        Ok(Some(Listed { key: Key { cluster, id }, facts }))
    }

    /// As `squeue` prints it.
    fn id(&self) -> String {
        match (self.array, self.het) {
            (Some((array, task)), _) => format!("{array}_{task}"),
            (_, Some((first, offset))) => format!("{first}+{offset}"),
            _ => self.number.to_string(),
        }
    }
}
