//! Ranks that held others back, by NCCL's RAS service and by files of its Inspector.

use super::rank_network::rank_network;
use crate::build::ReportContext;
use crate::build::ports::Port;
use crate::model::{RankNetwork, RankStraggler};
use crate::read::Interval;
use fabriclens_base::escape::promql_string;
use fabriclens_collectives::{HostAddresses, MPI_COMM_WORLD};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of listed ranks.
const LISTED: usize = 12;
/// A job that ends takes its ranks down one after the other: what is first seen in its last minute says nothing, ms.
const ENDING_MS: i64 = 60_000;

/// A rank that held others back, before the counters of its host are looked at.
pub(super) struct Candidate {
    pub member: Member,
    pub start_ms: i64,
    pub end_ms: i64,
    /// Time in which it was seen.
    pub seconds: f64,
    /// Communicators, and its number in each, where they are known.
    pub ranks: BTreeSet<(String, String)>,
}

/// When a rank was seen, and in which communicators.
#[derive(Default)]
struct Seen {
    intervals: Vec<Interval>,
    ranks: BTreeSet<(String, String)>,
}

/// Ranks that RAS calls stragglers, and ranks that the Inspector's times show to come last on their host.
pub(super) fn candidates(context: &ReportContext<'_>) -> Result<Vec<Candidate>, QueryError> {
    let addresses = addresses(context)?;
    let hosts = || context.job.hosts.keys().map(String::as_str);
    let host = |name: &str| addresses.host(name, hosts()).map_or_else(|| name.to_owned(), str::to_owned);
    let mut all: BTreeMap<Member, Seen> = BTreeMap::new();
    let mut add = |member: Member, labels: &Labels, number: &str, intervals: Vec<Interval>| {
        let seen = all.entry(member).or_default();
        seen.intervals.extend(intervals);
        seen.ranks.insert((labels.get("communicator").to_owned(), labels.get(number).to_owned()));
    };
    for (labels, intervals) in own(context, "fabric_collective_straggler_info")? {
        let host = match labels.get("communicator") {
            // The agent that reports it is that of its own host.
            MPI_COMM_WORLD => labels.get("host").to_owned(),
            _ => host(labels.get("rank_host")),
        };
        add(of_ras(&labels, host), &labels, "rank", intervals);
    }
    for (labels, intervals) in own(context, "fabric_collective_late_info")? {
        add(of_times(&labels), &labels, "member", intervals);
    }
    Ok(all.into_iter().filter_map(|(member, seen)| candidate(context, member, seen)).collect())
}

/// The longest ones, those first, each with what the counters of its host say: only of these, because that reads all ports.
pub(super) fn stragglers(
    context: &ReportContext<'_>,
    mut all: Vec<Candidate>,
) -> Result<Vec<RankStraggler>, QueryError> {
    all.sort_by(|a, b| {
        let name = |c: &Candidate| (c.member.host.clone(), c.member.rank.clone());
        b.seconds.total_cmp(&a.seconds).then_with(|| name(a).cmp(&name(b)))
    });
    all.truncate(LISTED);
    all.into_iter().map(|candidate| straggler(context, candidate)).collect()
}

/// Intervals in which own series of a metric have samples.
fn own(context: &ReportContext<'_>, metric: &str) -> Result<Vec<(Labels, Vec<Interval>)>, QueryError> {
    let mut all = context.source.intervals(metric)?;
    all.retain(|(labels, _)| context.is_own(labels));
    Ok(all)
}

/// `was up to 400 AllReduce operations behind; no port of gpu-07 was held back …`
fn sentence((reason, operation, lag): (&str, &str, Option<f64>), evidence: &str) -> String {
    let was = match (reason, lag) {
        ("behind", Some(lag)) => {
            let operations = if lag == 1.0 { "operation" } else { "operations" };
            format!("was up to {lag:.0} {operation} {operations} behind others, which waited in it")
        }
        ("behind", None) => format!("had not launched {operation} that others waited in"),
        ("late", _) => format!("came last to {operation}, and others waited for it"),
        ("unresponsive", _) => "did not answer".to_owned(),
        ("dead", _) => "is dead".to_owned(),
        ("without_communicator", _) => "had no communicator that the others had".to_owned(),
        (other, _) => format!("was {other}"),
    };
    format!("{was}; {evidence}")
}

/// A rank and what it did.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub host: String,
    pub rank: String,
    pub reason: String,
    pub operation: String,
}

fn of_ras(labels: &Labels, host: String) -> Member {
    let label = |name: &str, what: &str| match labels.get(name) {
        "" => None,
        value => Some(format!("{what} {value}")),
    };
    let rank = [label("rank", "rank"), label("gpu", "GPU"), label("pid", "process")];
    Member {
        host,
        rank: rank.into_iter().flatten().collect::<Vec<_>>().join(", "),
        reason: labels.get("reason").to_owned(),
        operation: labels.get("operation").to_owned(),
    }
}

/// By the times of operations: a rank's number, or the name of a GPU.
fn of_times(labels: &Labels) -> Member {
    let member = labels.get("member");
    let is_number = member.parse::<u64>().is_ok();
    Member {
        host: labels.get("host").to_owned(),
        rank: if is_number { format!("rank {member}") } else { member.to_owned() },
        reason: "late".to_owned(),
        operation: format!("{} {}", labels.get("operation"), labels.get("size")),
    }
}

/// Addresses of the job's hosts, as their agents report them.
fn addresses(context: &ReportContext<'_>) -> Result<HostAddresses, QueryError> {
    let mut addresses = HostAddresses::default();
    for (labels, _) in context.own_over_time("last_over_time", "fabric_collective_host_info")? {
        addresses.add(labels.get("rank_host"), labels.get("host"));
    }
    Ok(addresses)
}

fn candidate(context: &ReportContext<'_>, member: Member, seen: Seen) -> Option<Candidate> {
    let Seen { mut intervals, ranks } = seen;
    intervals.sort_unstable();
    let (start_ms, end_ms) = (intervals.first()?.0, intervals.iter().map(|(_, end)| *end).max()?);
    let ended = context.job.end_ns.is_some();
    if ended && start_ms > context.source.end_ms - ENDING_MS {
        return None;
    }
    let mut seconds = 0.0;
    let mut until = start_ms;
    // Two hosts may report the same time when the one that asks changes.
    for (start, end) in &intervals {
        seconds += (end - (*start).max(until)).max(0) as f64 / 1000.0;
        until = until.max(*end);
    }
    Some(Candidate { member, start_ms, end_ms, seconds, ranks })
}

fn straggler(context: &ReportContext<'_>, candidate: Candidate) -> Result<RankStraggler, QueryError> {
    let Candidate { member: Member { host, rank, reason, operation }, start_ms, end_ms, seconds, ranks } = candidate;
    let uses = context.ranks()?.ports(&host, &ranks);
    let known = context.job.hosts.contains_key(&host);
    let (network, evidence) = match known {
        true => rank_network(context, &host, &uses, (start_ms, end_ms.max(start_ms + 1))),
        false => (RankNetwork::Unknown, "it is not known on which host of the job it ran".to_owned()),
    };
    let lag = lag(context, (&reason, &operation), &ranks, (start_ms, end_ms))?;
    let text = sentence((&reason, &operation, lag), &evidence);
    let (start_ns, end_ns) = (start_ms * 1_000_000, end_ms * 1_000_000);
    let own = |port: &&Port| port.host == host && uses.has(port);
    let ports = context.ports.iter().filter(own).map(Port::name).collect();
    let operations_behind = lag;
    Ok(RankStraggler {
        host,
        rank,
        reason,
        operation,
        operations_behind,
        start_ns,
        end_ns,
        seconds,
        network,
        ports,
        text,
    })
}

/// Most operations, in a time (Unix ms), that the rank with the fewest of its communicators had launched less than the one with
/// the most; `None` if that is unknown or the rank is listed for another reason.
fn lag(
    context: &ReportContext<'_>,
    (reason, operation): (&str, &str),
    ranks: &BTreeSet<(String, String)>,
    (start_ms, end_ms): (i64, i64),
) -> Result<Option<f64>, QueryError> {
    if reason != "behind" {
        return Ok(None);
    }
    let of = format!("operation={}", promql_string(operation));
    let lags = context.source.selector("fabric_collective_lag", &of);
    let found = context.source.at(&format!("max_over_time({lags}[{}ms])", end_ms - start_ms + 1), end_ms)?;
    let within = |labels: &Labels| ranks.iter().any(|(communicator, _)| communicator == labels.get("communicator"));
    let own = found.iter().filter(|s| context.is_own(&s.labels) && within(&s.labels)).map(|s| s.value);
    Ok(own.max_by(f64::total_cmp).filter(|lag| *lag >= 1.0))
}
