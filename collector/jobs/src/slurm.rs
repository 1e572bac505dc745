//! What `squeue --json` says, of Slurm 22.05 and later: numbers became objects that may be unset, states lists.

use crate::facts::{Facts, Key, Place};
use crate::hostlist::{self, HostlistError};
use serde::Deserialize;

/// Seconds to nanoseconds; times are no later than the year 2262.
const SECOND: i64 = 1_000_000_000;
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

/// A job that `squeue` lists and that has or had hosts.
#[derive(Debug, PartialEq)]
pub struct Listed {
    /// As `squeue` names it: `4711`, `4700_3` of an array, `4710+1` of a heterogeneous job.
    pub key: Key,
    /// What it says; an end only when it is over.
    pub facts: Facts,
}

/// Why nothing can be learned of an answer.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// No JSON, or other JSON.
    #[error("squeue printed no JSON of jobs: {0}; it must be called with --json (Slurm 22.05 or later)")]
    Form(#[from] serde_json::Error),
    /// `squeue` says why.
    #[error("squeue says: {0}")]
    Told(String),
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    errors: Vec<serde_json::Value>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    job_id: i64,
    #[serde(default)]
    array_job_id: Number,
    #[serde(default)]
    array_task_id: Number,
    #[serde(default)]
    het_job_id: Number,
    #[serde(default)]
    het_job_offset: Number,
    #[serde(default)]
    job_state: States,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    #[serde(default)]
    nodes: Option<String>,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    user_name: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    partition: Option<String>,
    #[serde(default)]
    account: Option<String>,
}

/// A number of any version.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Number {
    #[default]
    None,
    Plain(i64),
    Object {
        set: bool,
        #[serde(default)]
        infinite: bool,
        number: f64,
    },
    Other(serde::de::IgnoredAny),
}

/// States of any version.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum States {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Number {
    fn get(&self) -> Option<i64> {
        match self {
            Self::Plain(n) => Some(*n),
            Self::Object { set: true, infinite: false, number } => Some(*number as i64),
            _ => None,
        }
    }

    fn positive(&self) -> Option<i64> {
        self.get().filter(|n| *n > 0)
    }
}

impl States {
    fn is_any(&self, of: &[&str]) -> bool {
        let all = match self {
            Self::None => &[][..],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        };
        all.iter().any(|s| of.contains(&s.as_str()))
    }
}

/// Number of a job that is not understood, and why.
pub type Odd = (i64, HostlistError);

/// Jobs of an answer, and single ones that are not understood. `cluster` is used where Slurm names none.
///
/// # Errors
/// [`SlurmError`].
pub fn jobs(json: &[u8], cluster: &str) -> Result<(Vec<Listed>, Vec<Odd>), SlurmError> {
    let answer: Answer = serde_json::from_slice(json)?;
    if let (true, Some(first)) = (answer.jobs.is_empty(), answer.errors.first()) {
        let said: Vec<&str> = ["description", "error"].iter().filter_map(|field| first[field].as_str()).collect();
        return Err(SlurmError::Told(if said.is_empty() { first.to_string() } else { said.join(": ") }));
    }
    let (mut listed, mut odd) = (Vec::new(), Vec::new());
    for job in &answer.jobs {
        match job.listed(cluster) {
            Ok(some) => listed.extend(some),
            Err(e) => odd.push((job.job_id, e)),
        }
    }
    Ok((listed, odd))
}

impl Job {
    fn listed(&self, cluster: &str) -> Result<Option<Listed>, HostlistError> {
        let waits = self.job_state.is_any(&WAITS);
        let (Some(start), false) = (self.start_time.positive(), waits) else {
            return Ok(None);
        };
        let hosts = hostlist::expand(self.nodes.as_deref().unwrap_or_default())?;
        let runs = self.job_state.is_any(&RUNS);
        // While it runs, its end is only the limit of its time.
        let end = if runs { None } else { Some(self.end_time.positive().unwrap_or(start).max(start)) };
        let text = |t: &Option<String>| t.clone().filter(|t| !t.is_empty());
        let labels = [("partition", text(&self.partition)), ("account", text(&self.account))];
        let facts = Facts {
            user: text(&self.user_name),
            name: text(&self.name),
            labels: labels.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?))).collect(),
            start_ns: Some(start.saturating_mul(SECOND)),
            end_ns: end.map(|e| e.saturating_mul(SECOND)),
            hosts: hosts.into_iter().map(|h| (h, Place::default())).collect(),
        };
        let cluster = text(&self.cluster).unwrap_or_else(|| cluster.to_owned());
        Ok(Some(Listed { key: Key { cluster, id: self.id() }, facts }))
    }

    /// As `squeue` prints it.
    fn id(&self) -> String {
        match (self.array_job_id.positive(), self.array_task_id.get(), self.het_job_id.positive()) {
            (Some(array), Some(task), _) => format!("{array}_{task}"),
            (_, _, Some(het)) => format!("{het}+{}", self.het_job_offset.get().unwrap_or(0)),
            _ => self.job_id.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Vec<Listed> {
        let (jobs, odd) = jobs(json.as_bytes(), "").unwrap();
        assert_eq!(odd, []);
        jobs
    }

    #[test]
    fn both_forms_of_numbers_and_states_mean_the_same() {
        let old = r#"{"job_id": 5, "array_job_id": 4, "array_task_id": 1, "het_job_id": 0, "job_state": "RUNNING", "cluster": "lab",
            "start_time": 100, "end_time": 9999, "nodes": "n[1-2]", "user_name": "ann", "name": "sweep", "partition": "p", "account": ""}"#;
        let new = r#"{"job_id": 5, "array_job_id": {"set": true, "infinite": false, "number": 4},
            "array_task_id": {"set": true, "infinite": false, "number": 1}, "het_job_id": {"set": true, "infinite": false, "number": 0},
            "job_state": ["RUNNING"], "cluster": "lab", "start_time": {"set": true, "infinite": false, "number": 100},
            "end_time": {"set": true, "infinite": true, "number": 0}, "nodes": "n[1-2]", "user_name": "ann", "name": "sweep",
            "partition": "p", "account": ""}"#;
        let (old, new) = (of(&format!("{{\"jobs\": [{old}]}}")), of(&format!("{{\"jobs\": [{new}], \"errors\": []}}")));
        assert_eq!(old, new);
        assert_eq!((old[0].key.cluster.as_str(), old[0].key.id.as_str()), ("lab", "4_1"));
        let facts = &old[0].facts;
        assert_eq!((facts.start_ns, facts.end_ns, facts.user.as_deref()), (Some(100 * SECOND), None, Some("ann")));
        assert_eq!(facts.hosts.keys().collect::<Vec<_>>(), ["n1", "n2"]);
        assert_eq!(facts.labels.iter().collect::<Vec<_>>(), [(&"partition".to_owned(), &"p".to_owned())]);
    }

    #[test]
    fn jobs_that_wait_are_none_and_those_that_are_over_have_an_end() {
        let job = |id: i64, state: &str, more: &str| {
            format!(
                r#"{{"job_id": {id}, "job_state": {state}, "nodes": "n1", "start_time": 100, "end_time": 160 {more}}}"#
            )
        };
        let all = [
            job(1, r#""PENDING""#, ""),
            job(2, r#"["COMPLETED"]"#, ""),
            job(3, r#"["RUNNING", "COMPLETING"]"#, ""),
            job(4, r#"["PENDING", "REQUEUED"]"#, ""),
            job(5, r#""FAILED""#, r#", "het_job_id": 5, "het_job_offset": 0"#),
            job(
                6,
                r#""NODE_FAIL""#,
                r#", "het_job_id": {"set": true, "number": 5}, "het_job_offset": {"set": true, "number": 1}"#,
            ),
            job(7, r#""CANCELLED""#, r#", "array_job_id": 0, "array_task_id": null"#),
        ];
        let listed = of(&format!("{{\"jobs\": [{}]}}", all.join(",")));
        let ends: Vec<_> = listed.iter().map(|l| (l.key.id.as_str(), l.facts.end_ns.map(|e| e / SECOND))).collect();
        assert_eq!(ends, [("2", Some(160)), ("3", None), ("5+0", Some(160)), ("5+1", Some(160)), ("7", Some(160))]);
    }

    #[test]
    fn an_error_is_said_and_one_odd_job_spoils_no_other() {
        let why = |json: &str| jobs(json.as_bytes(), "").unwrap_err().to_string();
        assert!(why("slurm_load_jobs error").contains("it must be called with --json"));
        assert_eq!(
            why(
                r#"{"jobs": [], "errors": [{"description": "Failed while looking for jobs", "error": "Unspecified error"}]}"#
            ),
            "squeue says: Failed while looking for jobs: Unspecified error"
        );
        let json = r#"{"jobs": [{"job_id": 1, "job_state": "RUNNING", "nodes": "n[1", "start_time": 1},
            {"job_id": 2, "job_state": "RUNNING", "nodes": "n1", "start_time": 1}]}"#;
        let (listed, odd) = jobs(json.as_bytes(), "here").unwrap();
        assert_eq!((listed.len(), listed[0].key.cluster.as_str(), odd[0].0), (1, "here", 1));
    }
}
