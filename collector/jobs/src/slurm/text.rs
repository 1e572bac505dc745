//! Text of `scontrol show job`, one or several lines per job, for `squeue` without JSON. It prints local times, so it
//! must run with `TZ=UTC`.

use super::{Row, SlurmError};
use crate::SECOND;
use fabriclens_base::time::parse_utc;

/// Text that `scontrol` prints if there is no job.
const EMPTY: &str = "No jobs in the system";

/// Jobs of a response.
pub(super) fn rows(answer: &[u8]) -> Result<Vec<Row>, SlurmError> {
    let text = String::from_utf8_lossy(answer);
    let mut rows: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.starts_with("JobId="), rows.last_mut()) {
            (true, _) => rows.push((line, Vec::new())),
            (false, _) if line.trim().is_empty() || line.trim() == EMPTY => {}
            (false, Some((_, more))) => more.push(line),
            (false, None) => return Err(SlurmError::Format(line.chars().take(80).collect())),
        }
    }
    if rows.is_empty() && !text.contains(EMPTY) {
        return Err(SlurmError::Format("it is empty".to_owned()));
    }
    Ok(rows.into_iter().map(|(first, more)| row(first, &more)).collect())
}

/// A job name may contain anything, so it is cut out first: it extends to the end of its line, or to the user.
fn row(first: &str, more: &[&str]) -> Row {
    let (before, rest) = first.split_once(" JobName=").unwrap_or((first, ""));
    let (name, after) = match rest.split_once(" UserId=") {
        Some((name, _)) if more.is_empty() => (name, &rest[name.len()..]),
        _ => (rest, ""),
    };
    let all = || before.split_whitespace().chain(after.split_whitespace());
    let words = || all().chain(more.iter().flat_map(|line| line.split_whitespace()));
    // Text that users write (command, comment) comes last, so the first occurrence counts.
    let get = |key: &str| words().find_map(|w| w.split_once('=').filter(|(k, _)| *k == key)).map_or("", |(_, v)| v);
    let number = |key: &str| get(key).parse::<i64>().ok();
    let at = |key: &str| parse_utc(get(key)).or_else(|| number(key)?.checked_mul(SECOND)).filter(|ns| *ns > 0);
    Row {
        number: number("JobId").unwrap_or(0),
        array: number("ArrayJobId").zip(number("ArrayTaskId")),
        het: number("HetJobId").zip(number("HetJobOffset")),
        states: vec![get("JobState").to_owned()],
        start: at("StartTime"),
        end: at("EndTime"),
        nodes: get("NodeList").to_owned(),
        cluster: String::new(),
        user: get("UserId").split('(').next().unwrap_or_default().to_owned(),
        name: name.trim_end().to_owned(),
        partition: get("Partition").to_owned(),
        account: get("Account").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::slurm::{SlurmError, jobs};

    const LINES: &str = "JobId=12 ArrayJobId=10 ArrayTaskId=2 JobName=my job UserId=root(0)
   UserId=ann(1001) GroupId=x(1) Account=(null)
   JobState=RUNNING StartTime=2026-01-02T03:04:05 EndTime=Unknown
   Partition=gpu ReqNodeList=n9 ExcNodeList=(null)
   NodeList=n[1-2]
   Command=/x NodeList=evil

JobId=13 HetJobId=13 HetJobOffset=0 JobName=het
   UserId=bob(2) JobState=FAILED StartTime=1767323045 EndTime=2026-01-02T03:05:05 NodeList=n3
JobId=14 ArrayJobId=14 ArrayTaskId=1-4%1 JobName=waits
   UserId=bob(2) JobState=PENDING StartTime=Unknown NodeList=
";

    #[test]
    fn one_line_and_multi_line_are_equal() {
        let lines = jobs(LINES.as_bytes(), "lab").unwrap();
        let one: String = LINES.replace("\n   ", " ").replace("my job UserId=root(0)", "my job");
        let (listed, unparsed) = jobs(one.as_bytes(), "lab").unwrap();
        assert!(unparsed.is_empty() && lines.1.is_empty());
        assert_eq!(lines.0[1], listed[1]);
        let (named, plain) = (&lines.0[0], &listed[0]);
        assert_eq!(named.record.name.as_deref(), Some("my job UserId=root(0)"), "UserId= inside a name");
        assert_eq!((named.record.user.as_deref(), &named.record.hosts), (Some("ann"), &plain.record.hosts));
        assert_eq!((plain.key.cluster.as_str(), plain.key.id.as_str()), ("lab", "10_2"));
        assert_eq!((plain.record.aliases.as_slice(), plain.record.end_ns), (&["12".to_owned()][..], None));
        assert_eq!(plain.record.start_ns, Some(1_767_323_045_000_000_000));
        assert_eq!(plain.record.hosts.keys().collect::<Vec<_>>(), ["n1", "n2"]);
        assert_eq!(plain.record.labels.iter().collect::<Vec<_>>(), [(&"partition".to_owned(), &"gpu".to_owned())]);
        let het = &listed[1];
        assert_eq!((het.key.id.as_str(), het.record.aliases.as_slice()), ("13+0", &["13".to_owned()][..]));
        assert_eq!(het.record.end_ns.unwrap() - het.record.start_ns.unwrap(), 60_000_000_000);
        assert_eq!(listed.len(), 2, "waiting job is skipped");
    }

    #[test]
    fn no_jobs_differs_from_no_answer() {
        assert_eq!(jobs(b"No jobs in the system\n", "").unwrap().0, []);
        for none in ["", "\n", "slurm_load_jobs error: Unable to contact slurm controller", "123,RUNNING\n"] {
            assert!(matches!(jobs(none.as_bytes(), ""), Err(SlurmError::Format(_))), "{none:?}");
        }
    }
}
