//! Series of answers.

use super::answer::{Answer, RankProcess};
use super::job_log::JobLog;
use super::straggler::Rank;
use fabriclens_agent_collectives::inspector::Series;
use fabriclens_agent_collectives::model::RankState;
use fabriclens_agent_collectives::mpi::Group;
use fabriclens_agent_collectives::progress::{CommunicatorStatus, Reason};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Key;
use fabriclens_catalog::metrics::collective::*;
use fabriclens_wire::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Most communicators of a job with series of their own, and most operations of one.
const COMMUNICATORS: usize = 64;
const OPERATIONS: usize = 12;
/// Most ranks of a job on this host with a series of their own.
const RANKS: usize = 64;
/// Most ranks of a job on this host that are told to have died.
const STRAGGLERS: usize = 16;
/// Communicator of ranks of MPI.
const MPI: &str = Group::World.label();
/// States whose series exist at 0 too, so that an alert ends.
const ALWAYS: [RankState; 3] = [RankState::Running, RankState::Unresponsive, RankState::Dead];

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
    let labels = [("cluster", cluster), ("job", &*key.job), ("reason", reason), ("scheduler", key.scheduler)];
    out.fact(&COLLECTIVE_READABLE, &labels, Value::Int(0));
}

/// An address by which the ranks of a job name this host.
pub fn own_name(out: &mut Batch, key: &Key, cluster: &str, name: &str) {
    let labels = [("cluster", cluster), ("job", &*key.job), ("rank_host", name), ("scheduler", key.scheduler)];
    out.fact(&COLLECTIVE_HOST_INFO, &labels, Value::Int(1));
}

/// A job with its communicators.
pub fn job(out: &mut Batch, key: &Key, cluster: &str, answer: &Answer) {
    let labels = [("cluster", cluster), ("job", &*key.job), ("scheduler", key.scheduler)];
    out.fact(&COLLECTIVE_READABLE, &labels, Value::Int(1));
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
    out.fact(&COLLECTIVE_OMITTED, &labels, Value::Int(omitted));
    // In the order of their names, so that each answer has the same order.
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, status) in named {
        let [cluster, job, scheduler] = labels;
        communicator(out, [cluster, ("communicator", &name), job, scheduler], status, &answer.version);
    }
}

fn communicator(out: &mut Batch, labels: [(&str, &str); 4], status: &CommunicatorStatus, version: &str) {
    let with = |more: &[(&'static str, &str)], out: &mut Batch, metric, value| {
        let more: Vec<(&str, &str)> = labels.iter().copied().chain(more.iter().copied()).collect();
        out.fact(metric, &more, value);
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
    for straggler in &status.stragglers {
        let text = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let (reason, operation) = match &straggler.reason {
            Reason::Behind { operation, .. } => ("behind", &**operation),
            Reason::State(state) => (state.label(), ""),
        };
        let host = if is_address(&straggler.process.host) { &*straggler.process.host } else { "" };
        let labels = [
            ("gpu", &*text(straggler.process.gpu)),
            ("operation", operation),
            ("pid", &*text(straggler.process.pid)),
            ("rank", &*straggler.rank.to_string()),
            ("rank_host", host),
            ("reason", reason),
        ];
        with(&labels, out, &COLLECTIVE_STRAGGLER_INFO, Value::Int(1));
    }
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
    let (key, cluster) = job.unzip();
    let (scheduler, job) = key.map_or(("", ""), |key| (key.scheduler, &*key.job));
    for series in all {
        let (communicator, operation, size) = &series.key;
        let labels = [
            ("cluster", cluster.unwrap_or_default()),
            ("communicator", communicator),
            ("job", job),
            ("operation", operation),
            ("scheduler", scheduler),
            ("size", size.label()),
        ];
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

/// Programs and ranks of a job that use MPI.
pub struct MpiJob {
    /// MPI libraries, each with the number of ranks.
    pub programs: BTreeSet<(Arc<str>, u32)>,
    /// Ranks on this host.
    pub ranks: Vec<Rank>,
    /// How far they are; empty if they cannot be compared.
    pub progress: Vec<MpiProgress>,
    /// Ranks of this host that ended without `MPI_Finalize`.
    pub dead: Vec<DeadRank>,
}

/// How far a rank is.
pub struct MpiProgress {
    /// Number in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Process id on the host.
    pub pid: u32,
    /// Number of ranks.
    pub size: u32,
    /// Operations on all ranks that it has entered.
    pub entered: u64,
    /// Operation in which it waits for a rank that has not entered, and since when.
    pub waits: Option<(Arc<str>, Duration)>,
}

/// A rank whose process ended without `MPI_Finalize`.
#[derive(Clone, Copy)]
pub struct DeadRank {
    /// Number in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Process id in its own namespace.
    pub pid: u32,
}

/// MPI library of a job, and the share of time that its ranks on this host are in MPI.
pub fn mpi(out: &mut Batch, job: Option<(&Key, &str)>, of: &MpiJob) {
    let (key, cluster) = job.unzip();
    let (scheduler, job) = key.map_or(("", ""), |key| (key.scheduler, &*key.job));
    let cluster = cluster.unwrap_or_default();
    for (library, size) in &of.programs {
        let labels = [
            ("cluster", cluster),
            ("job", job),
            ("library", library),
            ("scheduler", scheduler),
            ("size", &size.to_string()),
        ];
        out.fact(&COLLECTIVE_MPI_INFO, &labels, Value::Int(1));
    }
    // Of two programs of a job only the first has a rank's series.
    let shares: BTreeMap<u32, f64> =
        of.ranks.iter().rev().filter_map(|rank| Some((rank.number, rank.share?))).collect();
    for (rank, share) in shares.iter().take(RANKS) {
        let labels = [("cluster", cluster), ("job", job), ("rank", &*rank.to_string()), ("scheduler", scheduler)];
        out.fact(&COLLECTIVE_MPI_SHARE, &labels, Value::Float(*share));
    }
    for one in of.progress.iter().take(RANKS) {
        let [rank, pid, size] = [one.rank, one.pid, one.size].map(|number| number.to_string());
        let (first, second) = ([("cluster", cluster), ("job", job)], [("rank", &*rank), ("scheduler", scheduler)]);
        let size = [("size", &*size)];
        let entered = [&first[..], &[("pid", &*pid)], &second, &size].concat();
        out.fact(&COLLECTIVE_MPI_ENTERED, &entered, Value::Int(one.entered));
        if let Some((operation, spent)) = &one.waits {
            let inside = [&first[..], &[("operation", &**operation)], &second, &size].concat();
            out.fact(&COLLECTIVE_MPI_INSIDE, &inside, Value::Float(spent.as_secs_f64()));
        }
    }
    let processes = of.progress.iter().map(|one| RankProcess { rank: one.rank, pid: one.pid, gpu: None });
    rank_processes(out, (job, scheduler, cluster), MPI, processes);
    let dead: BTreeMap<u32, u32> = of.dead.iter().map(|one| (one.rank, one.pid)).collect();
    for (rank, pid) in dead.iter().take(STRAGGLERS) {
        let labels = [
            ("cluster", cluster),
            ("communicator", MPI),
            ("gpu", ""),
            ("job", job),
            ("operation", ""),
            ("pid", &*pid.to_string()),
            ("rank", &*rank.to_string()),
            ("rank_host", ""),
            ("reason", RankState::Dead.label()),
            ("scheduler", scheduler),
        ];
        out.fact(&COLLECTIVE_STRAGGLER_INFO, &labels, Value::Int(1));
    }
}

/// Processes of ranks of this host, of a job (id, scheduler, cluster).
pub fn rank_processes(
    out: &mut Batch,
    (job, scheduler, cluster): (&str, &str, &str),
    communicator: &str,
    all: impl Iterator<Item = RankProcess>,
) {
    for RankProcess { rank, pid, gpu } in all.take(RANKS) {
        let gpu = gpu.map_or(String::new(), |gpu| gpu.to_string());
        let labels = [
            ("cluster", cluster),
            ("communicator", communicator),
            ("gpu", &*gpu),
            ("job", job),
            ("pid", &*pid.to_string()),
            ("rank", &*rank.to_string()),
            ("scheduler", scheduler),
        ];
        out.fact(&COLLECTIVE_RANK_INFO, &labels, Value::Int(1));
    }
}

/// The agent's own series of files of MPI counters: processes by state.
pub fn mpi_processes(out: &mut Batch, states: &BTreeMap<&'static str, u64>) {
    for (state, count) in states {
        out.fact(&COLLECTIVE_MPI_PROCESSES, &[("state", state)], Value::Int(*count));
    }
}

/// Operations of MPI without series, because there are too many.
pub fn mpi_omitted(out: &mut Batch, omitted: u64) {
    out.fact(&COLLECTIVE_MPI_OMITTED, &[], Value::Int(omitted));
}

/// What the logs of a job tell.
pub fn log(out: &mut Batch, job: Option<(&Key, &str)>, log: &JobLog) {
    let (key, cluster) = job.unzip();
    let (scheduler, job) = key.map_or(("", ""), |key| (key.scheduler, &*key.job));
    let common = [("cluster", cluster.unwrap_or_default()), ("job", job), ("scheduler", scheduler)];
    let with = |more: &[(&'static str, &str)], out: &mut Batch, metric, value| {
        let labels: Vec<(&str, &str)> = common.iter().copied().chain(more.iter().copied()).collect();
        out.fact(metric, &labels, Value::Int(value));
    };
    for ((kind, device), count) in &log.events {
        with(&[("kind", kind.label()), ("rdma_device", device)], out, &COLLECTIVE_LOG_LINES, *count);
    }
    for network in &log.networks {
        with(&[("network", network)], out, &COLLECTIVE_NETWORK_INFO, 1);
    }
    for pair in &log.pairs {
        let labels = [
            ("kind", pair.kind.label()),
            ("local", &*pair.local),
            ("peer", &*pair.peer),
            ("rdma_device", &*pair.device),
            ("remote", &*pair.remote),
        ];
        with(&labels, out, &COLLECTIVE_QUEUE_PAIR_INFO, 1);
    }
}
