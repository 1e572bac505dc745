//! JSON of `squeue`, `sacct` and `slurmrestd`, Slurm 21.08 and later.

use super::{Row, SlurmError};
use crate::SECOND;
use serde::Deserialize;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    errors: Vec<serde_json::Value>,
    jobs: Vec<Job>,
}

/// Fields of the controller's form; fields of the accounting form are in [`Account`].
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
    nodes: Option<String>,
    cluster: Option<String>,
    user_name: Option<String>,
    name: Option<String>,
    partition: Option<String>,
    account: Option<String>,
    #[serde(flatten)]
    accounting: Account,
}

/// Fields of the form of `sacct` and `slurmdb`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Account {
    array: Array,
    het: Het,
    time: Time,
    state: Current,
    user: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Array {
    job_id: Number,
    task_id: Number,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Het {
    job_id: Number,
    job_offset: Number,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Time {
    start: Number,
    end: Number,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Current {
    current: States,
}

/// A number in the form of any version.
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

/// States in the form of any version.
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
    fn all(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// Jobs of a response.
pub(super) fn rows(json: &[u8]) -> Result<Vec<Row>, SlurmError> {
    let answer: Answer = serde_json::from_slice(json).map_err(|e| SlurmError::Format(e.to_string()))?;
    if let (true, Some(first)) = (answer.jobs.is_empty(), answer.errors.first()) {
        let texts: Vec<&str> = ["description", "error"].iter().filter_map(|field| first[field].as_str()).collect();
        return Err(SlurmError::Reported(if texts.is_empty() { first.to_string() } else { texts.join(": ") }));
    }
    Ok(answer.jobs.into_iter().map(Job::row).collect())
}

impl Job {
    fn row(self) -> Row {
        let Account { array, het, time, state, user } = self.accounting;
        let pair = |whole: [&Number; 2], part: [&Number; 2]| {
            whole.iter().zip(part).find_map(|(whole, part)| Some((whole.positive()?, part.get())))
        };
        let array = pair([&self.array_job_id, &array.job_id], [&self.array_task_id, &array.task_id]);
        let het = pair([&self.het_job_id, &het.job_id], [&self.het_job_offset, &het.job_offset]);
        let at = |a: Number, b: Number| a.positive().or(b.positive()).map(|s| s.saturating_mul(SECOND));
        let mut states = self.job_state.all();
        states.extend(state.current.all());
        Row {
            number: self.job_id,
            array: array.and_then(|(array, task)| Some((array, task?))),
            het: het.map(|(first, offset)| (first, offset.unwrap_or(0))),
            states,
            start: at(self.start_time, time.start),
            end: at(self.end_time, time.end),
            nodes: self.nodes.unwrap_or_default(),
            cluster: self.cluster.unwrap_or_default(),
            user: self.user_name.or(user).unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            partition: self.partition.unwrap_or_default(),
            account: self.account.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_list::ListedJob;
    use crate::slurm::jobs;

    fn of(json: &str) -> Vec<ListedJob> {
        let (jobs, unparsed) = jobs(json.as_bytes(), "").unwrap();
        assert_eq!(unparsed, [] as [(String, String); 0]);
        jobs
    }

    #[test]
    fn old_and_new_json_are_equal() {
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
        let record = &old[0].record;
        assert_eq!((record.start_ns, record.end_ns, record.user.as_deref()), (Some(100 * SECOND), None, Some("ann")));
        assert_eq!(record.hosts.keys().collect::<Vec<_>>(), ["n1", "n2"]);
        assert_eq!(record.labels.iter().collect::<Vec<_>>(), [(&"partition".to_owned(), &"p".to_owned())]);
    }

    #[test]
    fn waiting_jobs_are_skipped_and_ended_jobs_end() {
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
        let ends: Vec<_> = listed.iter().map(|l| (l.key.id.as_str(), l.record.end_ns.map(|e| e / SECOND))).collect();
        assert_eq!(ends, [("2", Some(160)), ("3", None), ("5+0", Some(160)), ("5+1", Some(160)), ("7", Some(160))]);
    }

    #[test]
    fn errors_show_and_bad_job_spoils_no_other() {
        let why = |json: &str| jobs(json.as_bytes(), "").unwrap_err().to_string();
        assert!(why("slurm_load_jobs error").contains("ask by `squeue --json"));
        assert_eq!(
            why(
                r#"{"jobs": [], "errors": [{"description": "Failed while looking for jobs", "error": "Unspecified error"}]}"#
            ),
            "Slurm says: Failed while looking for jobs: Unspecified error"
        );
        let json = r#"{"jobs": [{"job_id": 1, "job_state": "RUNNING", "nodes": "n[1", "start_time": 1},
            {"job_id": 2, "job_state": "RUNNING", "nodes": "n1", "start_time": 1}]}"#;
        let (listed, unparsed) = jobs(json.as_bytes(), "here").unwrap();
        assert_eq!((listed.len(), listed[0].key.cluster.as_str(), unparsed[0].0.as_str()), (1, "here", "1"));
    }
}
