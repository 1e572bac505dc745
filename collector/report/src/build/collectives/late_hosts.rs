//! Hosts for whose ranks all others waited. A rank that comes last to an operation spends the least time in it, because all
//! others are in it already. Agents compare the ranks of one host; here the hosts are compared.

use super::operations::{Executions, OnHost};
use super::stragglers::{Candidate, Member};
use crate::build::ReportContext;
use fabriclens_catalog::waits_for_all;
use std::collections::{BTreeMap, BTreeSet};

/// Share of the median time of all hosts that the others wait at least.
const WAITED: f64 = 0.3;
/// Steps in a row.
const IN_A_ROW: usize = 3;
/// Minimum share of the time in all operations, so that rare ones accuse nobody.
const WORTH: f64 = 0.05;

pub(super) fn late_hosts(context: &ReportContext<'_>, executions: &Executions) -> Vec<Candidate> {
    let all = executions.seconds();
    let counts = |hosts: &BTreeMap<String, OnHost>| hosts.values().map(|h| h.seconds.total).sum::<f64>() >= WORTH * all;
    let keys =
        executions.by_key.iter().filter(|(key, hosts)| hosts.len() > 1 && counts(hosts) && waits_for_all(&key[1]));
    let of_key = |(key, hosts): (&[String; 3], &BTreeMap<String, OnHost>)| {
        let latest: Vec<Option<&str>> = (0..context.steps.len()).map(|n| latest(hosts, n)).collect();
        let names: Vec<&String> = hosts.keys().collect();
        names.into_iter().filter_map(|host| candidate(context, key, host, &latest)).collect::<Vec<_>>()
    };
    keys.flat_map(of_key).collect()
}

/// The host whose ranks came last in a step, if the others waited for it.
fn latest(hosts: &BTreeMap<String, OnHost>, step: usize) -> Option<&str> {
    let mean = |on_host: &OnHost| {
        let (count, seconds) = (on_host.count.steps.get(step)?, on_host.seconds.steps.get(step)?);
        (*count > 0.0 && seconds.is_finite()).then(|| seconds / count)
    };
    let mut means: Vec<(f64, &str)> = hosts.iter().filter_map(|(host, on)| Some((mean(on)?, host.as_str()))).collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, host) = *means.first().filter(|_| means.len() > 1)?;
    let median = means[means.len() / 2].0;
    (least < (1.0 - WAITED) * median).then_some(host)
}

fn candidate(
    context: &ReportContext<'_>,
    [_, operation, size]: &[String; 3],
    host: &str,
    latest: &[Option<&str>],
) -> Option<Candidate> {
    let in_a_row = IN_A_ROW.min(latest.len());
    let runs = latest.chunk_by(|a, b| a == b).scan(0, |at, run| {
        *at += run.len();
        Some((*at - run.len()..*at, run[0]))
    });
    let runs: Vec<_> =
        runs.filter(|(range, late)| *late == Some(host) && range.len() >= in_a_row).map(|r| r.0).collect();
    let edges = context.source.edges();
    let (start_ms, end_ms) = (*edges.get(runs.first()?.start)?, *edges.get(runs.last()?.end)?);
    let seconds = runs.iter().flat_map(|range| &context.steps[range.clone()]).sum();
    let member = Member {
        host: host.to_owned(),
        rank: "all ranks of this host".to_owned(),
        reason: "late".to_owned(),
        operation: format!("{operation} {size}"),
    };
    Some(Candidate { member, start_ms, end_ms, seconds, ranks: BTreeSet::new() })
}

#[cfg(test)]
mod tests {
    use super::super::operations::Counted;
    use super::*;

    fn hosts(means: &[(&str, f64)]) -> BTreeMap<String, OnHost> {
        let on_host = |(host, mean): &(&str, f64)| {
            let counted = |total: f64| Counted { total, steps: vec![total] };
            let on_host = OnHost { count: counted(10.0), seconds: counted(10.0 * mean), bus_bytes: None };
            ((*host).to_owned(), on_host)
        };
        means.iter().map(on_host).collect()
    }

    #[test]
    fn the_host_with_the_least_time_came_last() {
        assert_eq!(latest(&hosts(&[("a", 4.0), ("b", 1.0), ("c", 4.1)]), 0), Some("b"));
        assert_eq!(latest(&hosts(&[("a", 4.0), ("b", 3.0), ("c", 4.1)]), 0), None, "they hardly waited");
        assert_eq!(latest(&hosts(&[("a", 4.0), ("b", f64::NAN)]), 0), None, "one host alone");
        assert_eq!(latest(&hosts(&[("a", 4.0), ("b", 1.0)]), 1), None, "no such step");
    }
}
