//! `fabriclens jobs`: lists jobs, one per line, and deletes them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::layout::{printable, rows};
use super::{ClientError, Form, ask, pairs, parse, print, print_json, report::segment, seconds, time_of, url};
use crate::args::{JobsAction, JobsArgs, State};
use fabriclens_base::duration;
use fabriclens_core::time::{format_time, now_ms};

/// Most hosts that are named.
const NAMED: usize = 3;

/// A page of the list.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) data: Vec<Job>,
    pub(super) next: Option<String>,
}

/// The answer to a deletion.
#[derive(Deserialize)]
struct Deleted {
    data: DeletedRuns,
}

#[derive(Deserialize)]
struct DeletedRuns {
    deleted: usize,
}

/// The fields of a job that are shown.
#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) cluster: String,
    pub(super) id: String,
    run: u32,
    pub(super) user: String,
    pub(super) name: String,
    pub(super) start_ns: i64,
    end_ns: Option<i64>,
    pub(super) hosts: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default)]
    sources: Vec<String>,
    disagreements: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn jobs(args: &JobsArgs) -> Result<(), ClientError> {
    if let Some(action) = &args.action {
        return act(action);
    }
    let mut form = request(args)?;
    let mut out = std::io::stdout().lock();
    let mut jobs = Vec::new();
    loop {
        let get = |agent: &ureq::Agent| agent.get(url(&args.server, "api/v1/jobs")).query_pairs(pairs(&form)).call();
        let body = ask(&args.server, get)?;
        let page: Answer = parse(&args.server, &body)?;
        if args.json {
            print_json(&mut out, &body)?;
        } else {
            jobs.extend(page.data);
        }
        let Some(next) = page.next else { break };
        form.retain(|(name, _)| *name != "cursor");
        form.push(("cursor", next));
    }
    if args.json { Ok(()) } else { print(&mut out, &table(&jobs, now_ms())) }
}

fn act(action: &JobsAction) -> Result<(), ClientError> {
    let JobsAction::Delete { id, cluster, sender, server } = action;
    let path = id.as_ref().map_or_else(|| "api/v1/jobs".to_owned(), |id| format!("api/v1/jobs/{}", segment(id)));
    let of = [("cluster", cluster), ("sender", sender)];
    let form: Form = of.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect();
    let body = ask(server, |agent| agent.delete(url(server, &path)).query_pairs(pairs(&form)).call())?;
    let Deleted { data } = parse(server, &body)?;
    print(&mut std::io::stdout().lock(), &format!("deleted; runs: {}\n", data.deleted))
}

fn request(args: &JobsArgs) -> Result<Form, ClientError> {
    let state = args.state.map(|s| if s == State::Running { "running" } else { "ended" }.to_owned());
    let time = |flag, text: &Option<String>| text.as_ref().map(|t| time_of(flag, t).map(seconds)).transpose();
    let all = [
        ("state", state),
        ("user", args.user.clone()),
        ("host", args.host.clone()),
        ("cluster", args.cluster.clone()),
        ("sender", args.sender.clone()),
        ("start", time("start", &args.start)?),
        ("end", time("end", &args.end)?),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Formats jobs, one per line, followed by disagreements of its sources.
fn table(jobs: &[Job], now_ms: i64) -> String {
    if jobs.is_empty() {
        return "no jobs; they are reported by agents, schedulers and POST /api/v1/jobs (docs/jobs.md)\n".to_owned();
    }
    let head = ["JOB", "USER", "NAME", "HOSTS", "START", "TOOK", "SOURCES"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(jobs.iter().map(|job| row(job, now_ms).to_vec()));
    let mut out = String::new();
    for (n, line) in rows(&lines).iter().enumerate() {
        out.push_str(line);
        out.push('\n');
        for line in n.checked_sub(1).iter().flat_map(|job| &jobs[*job].disagreements) {
            out.push_str(&format!("    sources differ: {}\n", printable(line)));
        }
    }
    out
}

/// Cluster, ID and run.
pub(super) fn title(job: &Job) -> String {
    let id =
        [job.cluster.as_str(), job.id.as_str()].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("/");
    if job.run > 1 { format!("{id} (run {})", job.run) } else { id }
}

fn row(job: &Job, now_ms: i64) -> [String; 7] {
    let id = title(job);
    let named: Vec<&str> = job.hosts.keys().take(NAMED).map(String::as_str).collect();
    let hosts = match job.hosts.len() {
        n if n > NAMED => format!("{} and {} more", named.join(" "), n - NAMED),
        _ => named.join(" "),
    };
    let start = job.start_ns / 1_000_000;
    let seconds = (job.end_ns.map_or(now_ms, |end| end / 1_000_000) - start).max(0) / 1000;
    let took = duration::format(Duration::from_secs(seconds.unsigned_abs()));
    let took = if job.end_ns.is_none() { format!("{took}, runs") } else { took };
    // Whole seconds, the precision of hooks.
    let start = format!("{}Z", format_time(start).split('.').next().unwrap_or_default());
    [id, job.user.clone(), job.name.clone(), hosts, start, took, job.sources.join(" ")].map(|cell| printable(&cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_listed_with_disagreements() {
        let json = r#"[
            {"cluster": "", "id": "4711", "run": 2, "user": "ann", "name": "bert\u001b[31m", "start_ns": 1000000000, "end_ns": null,
             "hosts": {"n1": {}, "n2": {}, "n3": {}, "n4": {}, "n5": {}}, "sources": ["file", "http"],
             "disagreements": ["user: file says bob, http says ann"]},
            {"cluster": "west", "id": "12_3", "run": 1, "user": "", "name": "", "start_ns": 0, "end_ns": 90061000000000,
             "hosts": {"n1": {"devices": ["mlx5_0"]}}, "disagreements": []}]"#;
        let jobs: Vec<Job> = serde_json::from_str(json).unwrap();
        let table = table(&jobs, 66_000);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "JOB           USER  NAME       HOSTS                START                 TOOK        SOURCES"
        );
        assert_eq!(
            lines[1],
            "4711 (run 2)  ann   bert\u{fffd}[31m  n1 n2 n3 and 2 more  1970-01-01T00:00:01Z  1m5s, runs  file http"
        );
        assert_eq!(lines[2], "    sources differ: user: file says bob, http says ann");
        assert_eq!(lines[3], "west/12_3                      n1                   1970-01-01T00:00:00Z  1d1h1m1s");
    }
}
