//! Where sources say different things of a run, in words for people.

use crate::agents::Agents;
use crate::facts::{Facts, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Times that differ by less are the same: schedulers tell whole seconds, and hooks run for a moment.
pub(crate) const SAME_NS: i64 = 5_000_000_000;
/// Processes begin after their job and end before it: only this much is told.
const APART_NS: i64 = 60_000_000_000;
/// Hosts that are named; of more it is said how many.
const NAMED: usize = 3;

type Said = BTreeMap<Source, Facts>;

pub(crate) fn disagreements(said: &Said, agents: &Agents) -> Vec<String> {
    let mut all = Vec::new();
    // A process' owner is a guess at a job's: in a container it is mostly root.
    values(said, "user", |s, f| f.user.clone().filter(|_| s != Source::Agent), &mut all);
    values(said, "name", |_, f| f.name.clone(), &mut all);
    let count = |s, f: &Facts| Some(f.hosts.len()).filter(|n| *n > 0 && s != Source::Agent).map(|n| n.to_string());
    values(said, "hosts", count, &mut all);
    hosts(said, agents, &mut all);
    times(said, "start", |f| f.start_ns, &mut all);
    times(said, "end", |f| f.end_ns, &mut all);
    all
}

fn values(said: &Said, what: &str, of: impl Fn(Source, &Facts) -> Option<String>, all: &mut Vec<String>) {
    let values: Vec<(Source, String)> = said.iter().filter_map(|(s, f)| Some((*s, of(*s, f)?))).collect();
    if values.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        let each: Vec<String> = values.iter().map(|(s, v)| format!("{} says {v}", s.text())).collect();
        all.push(format!("{what}: {}", each.join(", ")));
    }
}

fn times(said: &Said, what: &str, of: fn(&Facts) -> Option<i64>, all: &mut Vec<String>) {
    let mut told: Vec<(Source, i64)> = said.iter().filter_map(|(s, f)| Some((*s, of(f)?))).collect();
    let others = told.iter().filter(|(s, _)| *s != Source::Agent).map(|t| t.1).min();
    told.retain(|(s, at)| *s != Source::Agent || others.is_none_or(|other| (at - other).abs() >= APART_NS));
    let first = told.iter().map(|t| t.1).min().unwrap_or(0);
    if told.iter().any(|t| t.1 - first >= SAME_NS) {
        let seconds = |ns: i64| (ns - first) / 1_000_000_000;
        let each: Vec<String> = told.iter().map(|(s, t)| format!("{} {} s later", s.text(), seconds(*t))).collect();
        all.push(format!("{what}: {}", each.join(", ")));
    }
}

/// What was seen against what was told, and names that no agent has.
fn hosts(said: &Said, agents: &Agents, all: &mut Vec<String>) {
    let of = |f: &Facts| f.hosts.keys().map(|h| agents.host(h).to_owned()).collect::<BTreeSet<_>>();
    let seen = said.get(&Source::Agent).map(of).unwrap_or_default();
    let tell = said.iter().filter(|(s, f)| **s != Source::Agent && !f.hosts.is_empty());
    let told: BTreeSet<String> = tell.clone().flat_map(|(_, f)| of(f)).collect();
    let (lacking, there): (Vec<&String>, Vec<&String>) = told.iter().partition(|h| agents.lacks(h));
    if !lacking.is_empty() {
        all.push(format!("no agent is called {}", list(&lacking, "or")));
    }
    if seen.is_empty() || told.is_empty() {
        return;
    }
    let who: Vec<&str> = tell.map(|(s, _)| s.text()).collect();
    let (who, verb) =
        (who.join(" and "), if who.len() == 1 { ("does not name", "names") } else { ("do not name", "name") });
    let more: Vec<&String> = seen.difference(&told).collect();
    if !more.is_empty() {
        all.push(format!("seen on {}, which {who} {}", list(&more, "and"), verb.0));
    }
    let idle: Vec<&String> = there.into_iter().filter(|h| !seen.contains(*h)).collect();
    if !idle.is_empty() {
        all.push(format!("no process seen on {}, which {who} {}", list(&idle, "and"), verb.1));
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
