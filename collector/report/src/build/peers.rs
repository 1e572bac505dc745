//! Who talks to whom: by the queue pairs that agents see, two of which are a pair when each one's `remote` is the other's
//! `local`; for a job over sockets by its TCP connections ([`super::sockets`]).

use super::{Scene, sockets};
use crate::model::{Grade, Over, Pair, Pattern, Peers, Straggler, Transport};
use fabriclens_correlate::QueuePairIndex;
use fabriclens_model::Labels;
use fabriclens_promql::{QueryError, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs that are told by name.
const LISTED: usize = 12;

/// What agents saw of one kind of connections.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What it was told by, in words, from how many to `join` hosts.
    pub text: String,
    /// Pairs of hosts, each once.
    pub pairs: Vec<Pair>,
    /// Connections whose other end is no host of the job that is known.
    pub unmatched: usize,
    /// Hosts of whose pairs only some were told.
    pub cut: BTreeSet<String>,
    /// Pairs that stand out by themselves, in words.
    pub slow: Vec<String>,
}

pub(super) fn peers(
    scene: &Scene<'_>,
    straggler: Option<&Straggler>,
    transport: &Transport,
) -> Result<Peers, QueryError> {
    let mut seen = queue_pairs(scene)?;
    // Libraries for RDMA meet over sockets, so these say something only where they carry the job.
    let rdma = !seen.pairs.is_empty();
    if !rdma || transport.red_flag.is_some() {
        let over = sockets::seen(scene)?;
        if !over.pairs.is_empty() || !rdma && over.unmatched > 0 {
            seen = over;
        }
    }
    if seen.text.is_empty() {
        "no connected queue pairs and no TCP connections of this job were seen by agents".clone_into(&mut seen.text);
    }
    let edges: BTreeSet<(&str, &str)> = seen.pairs.iter().map(|p| (p.a.as_str(), p.b.as_str())).collect();
    let hosts: BTreeSet<&str> = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let pattern = shape(&edges, &hosts, &seen.cut);
    let text = match hosts.len() {
        0 => seen.text,
        joined => format!("{} join {joined} of the job's {} hosts", seen.text, scene.job.hosts.len()),
    };
    let touches = |(a, b): &&(&str, &str)| straggler.is_some_and(|s| s.host == *a || s.host == *b);
    let of_straggler = edges.iter().filter(touches).map(|(a, b)| format!("{a} to {b}"));
    let suspects = seen.slow.iter().cloned().chain(of_straggler).take(LISTED).collect();
    let pairs = edges.len();
    let mut list = seen.pairs;
    list.truncate(LISTED);
    Ok(Peers { pattern, text, pairs, unmatched: seen.unmatched, suspects, list })
}

fn queue_pairs(scene: &Scene<'_>) -> Result<Seen, QueryError> {
    let selector = scene.source.selector("fabric_queue_pair_info", "");
    let middle = scene.source.start_ms.midpoint(scene.source.end_ms);
    let mut pairs = scene.source.at(&selector, scene.source.end_ms)?;
    if pairs.is_empty() {
        // Connections are gone before the job is.
        pairs = scene.source.at(&selector, middle)?;
    }
    pairs.retain(|s| mine(scene, s));
    if pairs.is_empty() {
        return Ok(Seen::default());
    }
    let (edges, unmatched) = edges(&pairs);
    // Where an agent did not tell whose a queue pair is, the job had the host alone.
    let named = pairs.iter().all(|s| scene.job.has_name(s.labels.get("job")));
    let grade = if named { Grade::PerProcess } else { Grade::Exclusive };
    let pair = |(a, b)| Pair { a, b, over: Over::Rdma, grade, bytes: None, rtt_seconds: None };
    let text = format!("{} connected queue pairs", pairs.len());
    Ok(Seen { text, pairs: edges.into_iter().map(pair).collect(), unmatched, ..Seen::default() })
}

/// On a host that others have too, only what the agent saw of this job.
fn mine(scene: &Scene<'_>, s: &Sample) -> bool {
    let (host, job) = (s.labels.get("host"), s.labels.get("job"));
    let alone = scene.on.allocation(0, host) == fabriclens_jobs::Attribution::Exclusive;
    scene.on.on_device(host, s.labels.get("device")).any(|j| j == 0) && (alone || scene.job.has_name(job))
}

/// Pairs of hosts, each once, and how many queue pairs found no other end. Numbers are given by each adapter anew, so
/// that an end that fits to several is none.
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

/// Each once.
fn hosts<'a>(ends: &[&'a Labels]) -> Vec<&'a str> {
    let mut hosts: Vec<&str> = ends.iter().map(|end| end.get("host")).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// A host in `cut` has more partners than are told, and counts as one that has them all.
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
    fn a_host_with_more_partners_than_are_told_talks_to_all() {
        let few = [(0, 1), (2, 3), (4, 5), (6, 7)];
        assert_eq!(with_cut(&few, &[0, 1, 2, 3, 4, 5, 6, 7]), Pattern::AllToAll);
        assert_eq!(with_cut(&[(0, 1), (0, 2), (0, 3), (4, 5)], &[0]), Pattern::ParameterServer);
    }

    #[test]
    fn shapes_are_told_apart() {
        let ring: Vec<_> = (0..8).map(|n| (n, (n + 1) % 8)).collect();
        let all: Vec<_> = (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b))).collect();
        let server: Vec<_> = (2..9).flat_map(|n| [(0, n), (1, n)]).chain([(0, 1)]).collect();
        let odd = [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (4, 6), (1, 2)];
        let want = [Pattern::Ring, Pattern::AllToAll, Pattern::ParameterServer, Pattern::Irregular, Pattern::Pair];
        assert_eq!([of(&ring), of(&all), of(&server), of(&odd), of(&[(0, 1)])], want);
    }

    #[test]
    fn an_end_that_fits_to_several_is_none() {
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
