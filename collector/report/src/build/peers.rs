//! Communication pattern of the job. RDMA: two queue pairs are connected if the `remote` of each is the `local` of the
//! other. Jobs over sockets: TCP connections ([`super::sockets`]).

use super::flows::belongs;
use super::observed_pairs::ObservedPairs;
use super::{ReportContext, sockets};
use crate::model::{Grade, Over, Pair, Pattern, Peers, Straggler, Transport};
use fabriclens_correlate::QueuePairIndex;
use fabriclens_model::Labels;
use fabriclens_promql::{QueryError, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of listed pairs.
const LISTED: usize = 12;

pub(super) fn peers(
    context: &ReportContext<'_>,
    straggler: Option<&Straggler>,
    transport: &Transport,
) -> Result<Peers, QueryError> {
    let mut seen = queue_pairs(context)?;
    // RDMA libraries bootstrap over sockets, so TCP connections count only if they carry the job's data.
    let rdma = !seen.pairs.is_empty();
    if !rdma || transport.red_flag.is_some() {
        let over = sockets::observed_pairs(context)?;
        if !over.pairs.is_empty() || !rdma && over.unmatched > 0 {
            seen = over;
        }
    }
    if seen.text.is_empty() {
        "agents saw no connected queue pairs and no TCP connections of this job".clone_into(&mut seen.text);
    }
    let edges: BTreeSet<(&str, &str)> = seen.pairs.iter().map(|p| (p.a.as_str(), p.b.as_str())).collect();
    let hosts: BTreeSet<&str> = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let pattern = shape(&edges, &hosts, &seen.cut);
    let text = match hosts.len() {
        0 => seen.text,
        joined => format!("{} join {joined} of the job's {} hosts", seen.text, context.job.hosts.len()),
    };
    let touches = |(a, b): &&(&str, &str)| straggler.is_some_and(|s| s.host == *a || s.host == *b);
    let of_straggler = edges.iter().filter(touches).map(|(a, b)| format!("{a} to {b}"));
    let suspects = seen.slow.iter().cloned().chain(of_straggler).take(LISTED).collect();
    let pairs = edges.len();
    let mut list = seen.pairs;
    list.truncate(LISTED);
    Ok(Peers { pattern, text, pairs, unmatched: seen.unmatched, suspects, list })
}

fn queue_pairs(context: &ReportContext<'_>) -> Result<ObservedPairs, QueryError> {
    let selector = context.source.selector("fabric_queue_pair_info", "");
    let middle = context.source.start_ms.midpoint(context.source.end_ms);
    let mut pairs = context.source.at(&selector, context.source.end_ms)?;
    if pairs.is_empty() {
        // Connections close before the job ends.
        pairs = context.source.at(&selector, middle)?;
    }
    pairs.retain(|s| belongs(context, (0, context.job), &s.labels));
    if pairs.is_empty() {
        return Ok(ObservedPairs::default());
    }
    let (edges, unmatched) = edges(&pairs);
    // Queue pairs without a job label are kept only on hosts that the job had alone.
    let named = pairs.iter().all(|s| context.job.has_name(s.labels.get("job")));
    let grade = if named { Grade::PerProcess } else { Grade::Exclusive };
    let pair = |(a, b)| Pair { a, b, over: Over::Rdma, grade, bytes: None, rtt_seconds: None };
    let text = format!("{} connected queue pairs", pairs.len());
    Ok(ObservedPairs { text, pairs: edges.into_iter().map(pair).collect(), unmatched, ..ObservedPairs::default() })
}

/// Connected host pairs, and the number of unmatched queue pairs. Queue pair numbers are unique per adapter only, so
/// ambiguous matches count as unmatched.
fn edges(pairs: &[Sample]) -> (BTreeSet<(String, String)>, usize) {
    let ends = QueuePairIndex::of(pairs.iter().map(|s| &s.labels));
    let (mut edges, mut unmatched) = (BTreeSet::new(), 0);
    for s in pairs {
        match (&hosts(ends.same(&s.labels))[..], &hosts(ends.other(&s.labels))[..]) {
            ([host], [other]) if other != host => {
                let (a, b) = if host < other { (host, other) } else { (other, host) };
                edges.insert(((*a).to_owned(), (*b).to_owned()));
            }
            _ => unmatched += 1,
        }
    }
    (edges, unmatched)
}

/// Distinct hosts of these queue pairs, sorted.
fn hosts<'a>(ends: &[&'a Labels]) -> Vec<&'a str> {
    let mut hosts: Vec<&str> = ends.iter().map(|end| end.get("host")).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Classifies the communication pattern. Agents list only some partners of the hosts in `cut`; these count as connected
/// to all hosts.
fn shape(edges: &BTreeSet<(&str, &str)>, hosts: &BTreeSet<&str>, cut: &BTreeSet<String>) -> Pattern {
    let n = hosts.len();
    let mut degree: BTreeMap<&str, usize> = BTreeMap::new();
    for (a, b) in edges {
        *degree.entry(a).or_default() += 1;
        *degree.entry(b).or_default() += 1;
    }
    for (_, degree) in degree.iter_mut().filter(|(host, _)| cut.contains(**host)) {
        *degree = n - 1;
    }
    let ends: usize = degree.values().sum();
    let hubs = degree.values().filter(|d| **d >= n.saturating_sub(1)).count();
    match n {
        0 | 1 => Pattern::Unknown,
        2 => Pattern::Pair,
        _ if ends * 10 >= n * (n - 1) * 9 && n > 3 => Pattern::AllToAll,
        3 if edges.len() == 3 => Pattern::Ring,
        _ if degree.values().all(|d| *d <= 2) && edges.len() + 1 >= n => Pattern::Ring,
        _ if hubs > 0 && degree.values().filter(|d| **d > hubs).count() <= hubs => Pattern::ParameterServer,
        _ => Pattern::Irregular,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(usize, usize)]) -> Pattern {
        with_cut(pairs, &[])
    }

    fn with_cut(pairs: &[(usize, usize)], cut: &[usize]) -> Pattern {
        let names: Vec<String> = (0..10).map(|n| format!("h{n}")).collect();
        let edges: BTreeSet<(&str, &str)> = pairs.iter().map(|(a, b)| (&*names[*a], &*names[*b])).collect();
        let hosts = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
        shape(&edges, &hosts, &cut.iter().map(|n| names[*n].clone()).collect())
    }

    #[test]
    fn hosts_with_truncated_partner_lists_count_as_connected_to_all() {
        let few = [(0, 1), (2, 3), (4, 5), (6, 7)];
        assert_eq!(with_cut(&few, &[0, 1, 2, 3, 4, 5, 6, 7]), Pattern::AllToAll);
        assert_eq!(with_cut(&[(0, 1), (0, 2), (0, 3), (4, 5)], &[0]), Pattern::ParameterServer);
    }

    #[test]
    fn patterns_are_classified() {
        let ring: Vec<_> = (0..8).map(|n| (n, (n + 1) % 8)).collect();
        let all: Vec<_> = (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b))).collect();
        let server: Vec<_> = (2..9).flat_map(|n| [(0, n), (1, n)]).chain([(0, 1)]).collect();
        let odd = [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (4, 6), (1, 2)];
        let want = [Pattern::Ring, Pattern::AllToAll, Pattern::ParameterServer, Pattern::Irregular, Pattern::Pair];
        assert_eq!([of(&ring), of(&all), of(&server), of(&odd), of(&[(0, 1)])], want);
    }

    #[test]
    fn ambiguous_queue_pairs_are_unmatched() {
        let qp = |host: &str, local: &str, remote: &str| Sample {
            labels: Labels::new([("host", host), ("local", local), ("remote", remote)]),
            time_ms: 0,
            value: 1.0,
        };
        let (edges, unmatched) = edges(&[
            qp("a", "1", "2"),
            qp("b", "2", "1"),
            qp("c", "5", "6"),
            qp("d", "6", "5"),
            qp("e", "6", "5"),
            qp("f", "9", "9"),
        ]);
        assert_eq!(edges.into_iter().collect::<Vec<_>>(), [("a".to_owned(), "b".to_owned())]);
        assert_eq!(unmatched, 4, "c's other end is d or e; f has none");
    }
}
