//! Differences between the records of a run, as text.

use crate::host_names::HostNames;
use crate::record::{JobRecord, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Times that differ by less are equal: schedulers report whole seconds, and hooks take a moment.
pub(crate) const TOLERANCE_NS: i64 = 5_000_000_000;
/// Smallest difference worth reporting for agents: processes begin after their job and end before it.
const AGENT_TOLERANCE_NS: i64 = 60_000_000_000;
/// Hosts named in one text; the rest is counted.
const NAMED: usize = 3;

type Records = BTreeMap<Source, JobRecord>;

/// `claims` are hosts that say so themselves and are not part of the job.
pub(crate) fn disagreements(records: &Records, claims: &BTreeSet<String>, agents: &HostNames) -> Vec<String> {
    let mut all = Vec::new();
    // The owner of a process is only a guess at the job's user: in containers it is mostly root.
    values(records, "user", |s, f| f.user.clone().filter(|_| s != Source::Agent), &mut all);
    values(records, "name", |_, f| f.name.clone(), &mut all);
    let count = |s, f: &JobRecord| Some(f.hosts.len()).filter(|n| *n > 0 && s != Source::Agent).map(|n| n.to_string());
    values(records, "hosts", count, &mut all);
    hosts(records, claims, agents, &mut all);
    times(records, "start", |f| f.start_ns, &mut all);
    times(records, "end", |f| f.end_ns, &mut all);
    all
}

fn values(records: &Records, what: &str, of: impl Fn(Source, &JobRecord) -> Option<String>, all: &mut Vec<String>) {
    let values: Vec<(Source, String)> = records.iter().filter_map(|(s, f)| Some((*s, of(*s, f)?))).collect();
    if values.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        let each: Vec<String> = values.iter().map(|(s, v)| format!("{} says {v}", s.text())).collect();
        all.push(format!("{what}: {}", each.join(", ")));
    }
}

fn times(records: &Records, what: &str, of: fn(&JobRecord) -> Option<i64>, all: &mut Vec<String>) {
    let mut reported: Vec<(Source, i64)> = records.iter().filter_map(|(s, f)| Some((*s, of(f)?))).collect();
    let others = reported.iter().filter(|(s, _)| *s != Source::Agent).map(|t| t.1).min();
    reported
        .retain(|(s, at)| *s != Source::Agent || others.is_none_or(|other| (at - other).abs() >= AGENT_TOLERANCE_NS));
    let first = reported.iter().map(|t| t.1).min().unwrap_or(0);
    if reported.iter().any(|t| t.1 - first >= TOLERANCE_NS) {
        let seconds = |ns: i64| (ns - first) / 1_000_000_000;
        let each: Vec<String> = reported
            .iter()
            .map(|(s, t)| match seconds(*t) {
                0 => format!("{} first", s.text()),
                n => format!("{} {n} s later", s.text()),
            })
            .collect();
        all.push(format!("{what}: {}", each.join(", ")));
    }
}

/// Compares the hosts that agents saw with those that other sources report, and finds names without an agent.
fn hosts(records: &Records, claims: &BTreeSet<String>, agents: &HostNames, all: &mut Vec<String>) {
    let of = |f: &JobRecord| f.hosts.keys().map(|h| agents.host(h).to_owned()).collect::<BTreeSet<_>>();
    let seen = records.get(&Source::Agent).map(of).unwrap_or_default();
    let reports = records.iter().filter(|(s, f)| **s != Source::Agent && !f.hosts.is_empty());
    let reported: BTreeSet<String> = reports.clone().flat_map(|(_, f)| of(f)).collect();
    let (unknown, known): (Vec<&String>, Vec<&String>) = reported.iter().partition(|h| agents.is_unknown(h));
    if !unknown.is_empty() {
        all.push(format!("no agent is called {}", list(&unknown, "or")));
    }
    let sources: Vec<&str> = reports.map(|(s, _)| s.text()).collect();
    let (sources, verb) =
        (sources.join(" and "), if sources.len() == 1 { ("does not name", "names") } else { ("do not name", "name") });
    if !reported.is_empty() && !claims.is_empty() {
        let claims: Vec<&String> = claims.iter().collect();
        all.push(format!("seen on {}, which {sources} {}: not part of the job", list(&claims, "and"), verb.0));
    }
    if seen.is_empty() || reported.is_empty() {
        return;
    }
    let idle: Vec<&String> = known.into_iter().filter(|h| !seen.contains(*h)).collect();
    if !idle.is_empty() {
        all.push(format!("no process seen on {}, which {sources} {}", list(&idle, "and"), verb.1));
    }
}

fn list(hosts: &[&String], and: &str) -> String {
    let named: Vec<&str> = hosts.iter().take(NAMED).map(|h| h.as_str()).collect();
    match (hosts.len(), named.split_last()) {
        (n, _) if n > NAMED => format!("{} {and} {} more", named.join(", "), n - NAMED),
        (_, Some((last, before))) if !before.is_empty() => format!("{} {and} {last}", before.join(", ")),
        _ => named.concat(),
    }
}
