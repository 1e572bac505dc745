//! Ranks that held others back, by NCCL's RAS service and by files of its Inspector.

use super::is_own;
use super::rank_network::rank_network;
use crate::build::ReportContext;
use crate::model::{RankNetwork, RankStraggler};
use crate::read::Interval;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of listed ranks.
const LISTED: usize = 12;
/// A job that ends takes its ranks down one after the other: what is first seen in its last minute says nothing, ms.
const ENDING_MS: i64 = 60_000;

/// Ranks that RAS calls stragglers, and ranks that the Inspector's times show to come last on their host.
pub(super) fn stragglers(context: &ReportContext<'_>) -> Result<Vec<RankStraggler>, QueryError> {
    let hosts = hosts(context)?;
    let mut all: BTreeMap<Member, Vec<Interval>> = BTreeMap::new();
    for (metric, member) in [
        ("fabric_collective_straggler_info", of_ras as fn(&Labels, &HashMap<String, String>) -> Member),
        ("fabric_collective_late_info", of_inspector),
    ] {
        for (labels, intervals) in context.source.intervals(metric)? {
            if is_own(context, &labels) {
                all.entry(member(&labels, &hosts)).or_default().extend(intervals);
            }
        }
    }
    Ok(all.into_iter().filter_map(|(member, intervals)| straggler(context, member, intervals)).collect())
}

/// The longest first. Those beyond the limit are dropped.
pub(super) fn sort(all: &mut Vec<RankStraggler>) {
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| (&a.host, &a.rank).cmp(&(&b.host, &b.rank))));
    all.truncate(LISTED);
}

/// `was behind in AllReduce; no port of gpu-07 was held back …`
pub(super) fn sentence(reason: &str, operation: &str, evidence: String) -> String {
    let was = match reason {
        "behind" => format!("had not launched {operation} that others waited in"),
        "late" => format!("came last to {operation}, and others waited for it"),
        "unresponsive" => "did not answer".to_owned(),
        "dead" => "is dead by the library's judgement".to_owned(),
        "without_communicator" => "had no communicator that the others had".to_owned(),
        other => format!("was {other}"),
    };
    format!("{was}; {evidence}")
}

/// A rank and what it did.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    host: String,
    rank: String,
    reason: String,
    operation: String,
}

fn of_ras(labels: &Labels, hosts: &HashMap<String, String>) -> Member {
    let label = |name: &str, what: &str| match labels.get(name) {
        "" => None,
        value => Some(format!("{what} {value}")),
    };
    let rank = [label("rank", "rank"), label("gpu", "GPU"), label("pid", "process")];
    let address = labels.get("rank_host");
    Member {
        host: hosts.get(address).cloned().unwrap_or_else(|| address.to_owned()),
        rank: rank.into_iter().flatten().collect::<Vec<_>>().join(", "),
        reason: labels.get("reason").to_owned(),
        operation: labels.get("operation").to_owned(),
    }
}

fn of_inspector(labels: &Labels, _: &HashMap<String, String>) -> Member {
    Member {
        host: labels.get("host").to_owned(),
        rank: labels.get("member").to_owned(),
        reason: "late".to_owned(),
        operation: format!("{} {}", labels.get("operation"), labels.get("size")),
    }
}

/// Hosts of the job by what the library calls them: their names, and the addresses that their agents report.
fn hosts(context: &ReportContext<'_>) -> Result<HashMap<String, String>, QueryError> {
    let mut hosts: HashMap<String, String> = HashMap::new();
    for host in context.job.hosts.keys() {
        let short = host.split('.').next().unwrap_or(host);
        hosts.insert(short.to_owned(), host.clone());
        hosts.insert(host.clone(), host.clone());
    }
    for (labels, _) in super::over_time(context, "last_over_time", "fabric_collective_host_info")? {
        hosts.insert(labels.get("rank_host").to_owned(), labels.get("host").to_owned());
    }
    Ok(hosts)
}

fn straggler(context: &ReportContext<'_>, member: Member, mut intervals: Vec<Interval>) -> Option<RankStraggler> {
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
    let Member { host, rank, reason, operation } = member;
    let known = context.job.hosts.contains_key(&host);
    let (network, evidence) = match known {
        true => rank_network(context, &host, (start_ms, end_ms.max(start_ms + 1))),
        false => (RankNetwork::Unknown, "it is not known on which host of the job it ran".to_owned()),
    };
    let text = sentence(&reason, &operation, evidence);
    let (start_ns, end_ns) = (start_ms * 1_000_000, end_ms * 1_000_000);
    Some(RankStraggler { host, rank, reason, operation, start_ns, end_ns, seconds, network, text })
}
