//! Series of answers.

use super::answer::{Answer, RankProcess};
use super::job_log::JobLog;
use fabriclens_agent_collectives::inspector::Series;
use fabriclens_agent_collectives::model::{Process, RankState};
use fabriclens_agent_collectives::progress::{CommunicatorStatus, Reason, Straggler};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Key;
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::collective::*;
use fabriclens_wire::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most communicators of a job with series of their own, and most operations of one.
const COMMUNICATORS: usize = 64;
const OPERATIONS: usize = 12;
/// Most ranks of a job on this host with a series of their own.
pub(super) const RANKS: usize = 64;
/// States whose series exist at 0 too, so that an alert ends.
const ALWAYS: [RankState; 3] = [RankState::Running, RankState::Unresponsive, RankState::Dead];

/// Labels that all series of a job have.
pub(super) type JobLabels<'a> = [(&'static str, &'a str); 3];

/// Those of a job, or of files of which nothing tells the job.
pub(super) fn of_job<'a>(job: Option<(&'a Key, &'a str)>) -> JobLabels<'a> {
    let (key, cluster) = job.unzip();
    let (scheduler, job) = key.map_or(("", ""), |key| (key.scheduler, &*key.job));
    [("cluster", cluster.unwrap_or_default()), ("job", job), ("scheduler", scheduler)]
}

/// Writes a value with the labels of a job and more.
pub(super) fn fact(
    out: &mut Batch,
    metric: &'static Metric,
    job: JobLabels<'_>,
    more: &[(&'static str, &str)],
    value: Value,
) {
    let labels: Vec<(&str, &str)> = job.iter().chain(more).copied().collect();
    out.fact(metric, &labels, value);
}

/// The agent's own series: services by role, questions by result, the longest question.
pub fn own(out: &mut Batch, services: [u64; 3], questions: &BTreeMap<&'static str, u64>, longest: Duration) {
    for (role, count) in ["asked", "followed", "foreign"].into_iter().zip(services) {
        out.fact(&COLLECTIVE_SERVICES, &[("role", role)], Value::Int(count));
    }
    for (result, count) in questions {
        out.fact(&COLLECTIVE_QUESTIONS, &[("result", result)], Value::Int(*count));
    }
    out.fact(&COLLECTIVE_DURATION, &[], Value::Float(longest.as_secs_f64()));
}

/// A job without an answer.
pub fn unreadable(out: &mut Batch, key: &Key, cluster: &str, reason: &str) {
    fact(out, &COLLECTIVE_READABLE, of_job(Some((key, cluster))), &[("reason", reason)], Value::Int(0));
}

/// An address by which the ranks of a job name this host.
pub fn own_name(out: &mut Batch, key: &Key, cluster: &str, name: &str) {
    fact(out, &COLLECTIVE_HOST_INFO, of_job(Some((key, cluster))), &[("rank_host", name)], Value::Int(1));
}

/// A job with its communicators.
pub fn job(out: &mut Batch, key: &Key, cluster: &str, answer: &Answer) {
    let job = of_job(Some((key, cluster)));
    out.fact(&COLLECTIVE_READABLE, &job, Value::Int(1));
    let mut all: Vec<&CommunicatorStatus> = answer.communicators.iter().collect();
    all.sort_by_key(|c| (c.stragglers.is_empty(), std::cmp::Reverse(c.size), c.id));
    // Communicators of equal hash would have equal series: the first one stands for them.
    let mut named = Vec::new();
    for communicator in all {
        let name = communicator.id.to_string();
        if named.len() < COMMUNICATORS && named.iter().all(|(other, _)| *other != name) {
            named.push((name, communicator));
        }
    }
    let omitted = answer.omitted + (answer.communicators.len() - named.len()) as u64;
    out.fact(&COLLECTIVE_OMITTED, &job, Value::Int(omitted));
    // In the order of their names, so that each answer has the same order.
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, status) in named {
        communicator(out, job, &name, status, &answer.version);
    }
}

fn communicator(out: &mut Batch, job: JobLabels<'_>, name: &str, status: &CommunicatorStatus, version: &str) {
    let with = |more: &[(&'static str, &str)], out: &mut Batch, metric, value| {
        fact(out, metric, job, &[&[("communicator", name)], more].concat(), value);
    };
    let size = status.size.to_string();
    let version = if is_version(version) { version } else { "" };
    with(&[("library_version", version), ("size", &size)], out, &COLLECTIVE_COMMUNICATOR_INFO, Value::Int(1));
    for (state, count) in RankState::ALL.into_iter().zip(status.states) {
        if count > 0 || ALWAYS.contains(&state) {
            with(&[("state", state.label())], out, &COLLECTIVE_RANKS, Value::Int(count.into()));
        }
    }
    for operation in status.operations.iter().take(OPERATIONS) {
        for (bound, count) in [("highest", operation.highest), ("lowest", operation.lowest)] {
            let labels = [("bound", bound), ("operation", &*operation.name)];
            with(&labels, out, &COLLECTIVE_OPERATIONS, Value::Int(count));
        }
        let lag = operation.highest.saturating_sub(operation.lowest);
        with(&[("operation", &operation.name)], out, &COLLECTIVE_LAG, Value::Int(lag));
    }
    with(&[], out, &COLLECTIVE_BEHIND, Value::Int(status.behind.into()));
    with(&[], out, &COLLECTIVE_IDLE, Value::Float(status.idle.as_secs_f64()));
    status.stragglers.iter().for_each(|one| straggler(out, job, name, one));
}

/// A rank of a communicator that holds back others or cannot work.
pub(super) fn straggler(out: &mut Batch, job: JobLabels<'_>, communicator: &str, straggler: &Straggler) {
    let text = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let (reason, operation) = match &straggler.reason {
        Reason::Behind { operation, .. } => ("behind", &**operation),
        Reason::State(state) => (state.label(), ""),
    };
    let Process { host, pid, gpu } = &straggler.process;
    let labels = [
        ("communicator", communicator),
        ("gpu", &*text(*gpu)),
        ("operation", operation),
        ("pid", &*text(*pid)),
        ("rank", &*straggler.rank.to_string()),
        ("rank_host", if is_address(host) { host } else { "" }),
        ("reason", reason),
    ];
    fact(out, &COLLECTIVE_STRAGGLER_INFO, job, &labels, Value::Int(1));
}

/// Whether a text may be a version, which becomes a label.
fn is_version(text: &str) -> bool {
    text.len() <= 32 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
}

/// Whether a text may be the address of a host, which becomes a label.
fn is_address(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || ".:_-%".contains(c))
}

/// Times and bus bandwidths of a job, from files of the Inspector.
pub fn executions(out: &mut Batch, job: Option<(&Key, &str)>, all: &[Series]) {
    let [cluster, job, scheduler] = of_job(job);
    for series in all {
        let (communicator, operation, size) = &series.key;
        let own = [("communicator", &**communicator), ("operation", operation), ("size", size.label())];
        let [communicator, operation, size] = own;
        let labels = [cluster, communicator, job, operation, scheduler, size];
        if series.count > 0 {
            out.fact(&COLLECTIVE_EXECUTIONS, &labels, Value::Int(series.count));
            out.fact(&COLLECTIVE_EXECUTION_TIME, &labels, Value::Float(series.seconds));
        }
        out.fact_if(&COLLECTIVE_BUS_BYTES, &labels, series.bus_bytes.map(Value::Float));
        out.fact_if(&COLLECTIVE_MESSAGE_BYTES, &labels, series.bytes.map(Value::Int));
        out.fact(&COLLECTIVE_EXECUTION_MEAN, &labels, Value::Float(series.mean));
        out.fact_if(&COLLECTIVE_BUS_BANDWIDTH, &labels, series.bus_bandwidth.map(Value::Float));
        out.fact_if(&COLLECTIVE_WAIT, &labels, series.wait.map(Value::Float));
        if let Some(late) = &series.late {
            let member: Vec<(&str, &str)> = labels.iter().copied().chain([("member", &*late.member)]).collect();
            out.fact(&COLLECTIVE_LATE_INFO, &member, Value::Int(1));
        }
    }
}

/// The agent's own series of these files.
pub fn files(out: &mut Batch, files: u64, lost: u64, skipped: u64, omitted: u64) {
    out.fact(&COLLECTIVE_FILES, &[], Value::Int(files));
    out.fact(&COLLECTIVE_RECORDS_LOST, &[("reason", "unreadable")], Value::Int(lost));
    out.fact(&COLLECTIVE_RECORDS_LOST, &[("reason", "limit")], Value::Int(omitted));
    out.fact(&COLLECTIVE_FILES_SKIPPED, &[], Value::Int(skipped));
}

/// Processes of ranks of this host, at most 64.
pub fn rank_processes(out: &mut Batch, job: JobLabels<'_>, communicator: &str, all: impl Iterator<Item = RankProcess>) {
    for RankProcess { rank, pid, gpu } in all.take(RANKS) {
        let gpu = gpu.map_or(String::new(), |gpu| gpu.to_string());
        let labels =
            [("communicator", communicator), ("gpu", &*gpu), ("pid", &*pid.to_string()), ("rank", &*rank.to_string())];
        fact(out, &COLLECTIVE_RANK_INFO, job, &labels, Value::Int(1));
    }
}

/// What the logs of a job tell.
pub fn log(out: &mut Batch, job: Option<(&Key, &str)>, log: &JobLog) {
    let job = of_job(job);
    for ((kind, device), count) in &log.events {
        let labels = [("kind", kind.label()), ("rdma_device", &**device)];
        fact(out, &COLLECTIVE_LOG_LINES, job, &labels, Value::Int(*count));
    }
    for network in &log.networks {
        fact(out, &COLLECTIVE_NETWORK_INFO, job, &[("network", network)], Value::Int(1));
    }
    for pair in &log.pairs {
        let labels = [
            ("kind", pair.kind.label()),
            ("local", &*pair.local),
            ("peer", &*pair.peer),
            ("rdma_device", &*pair.device),
            ("remote", &*pair.remote),
        ];
        fact(out, &COLLECTIVE_QUEUE_PAIR_INFO, job, &labels, Value::Int(1));
    }
}
