//! Who talks to whom, by the queue pairs that agents see: two are a pair when each one's `remote` is the other's `local`.

use super::Scene;
use crate::model::{Pattern, Peers, Straggler};
use fabriclens_promql::{QueryError, Sample};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Pairs that are suspected by name.
const LISTED: usize = 12;

pub(super) fn peers(scene: &Scene<'_>, straggler: Option<&Straggler>) -> Result<Peers, QueryError> {
    let selector = scene.source.selector("fabric_queue_pair_info", "");
    let middle = scene.source.start_ms.midpoint(scene.source.end_ms);
    let mut pairs = scene.source.at(&selector, scene.source.end_ms)?;
    if pairs.is_empty() {
        // Connections are gone before the job is.
        pairs = scene.source.at(&selector, middle)?;
    }
    pairs.retain(|s| mine(scene, s));
    if pairs.is_empty() {
        let text = "no connected queue pairs of this job were seen by agents".to_owned();
        return Ok(Peers { pattern: Pattern::Unknown, text, pairs: 0, unmatched: 0, suspects: Vec::new() });
    }
    let (edges, unmatched) = edges(&pairs);
    let hosts: BTreeSet<&str> = edges.iter().flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    let pattern = shape(&edges, &hosts);
    let text = format!(
        "{} connected queue pairs join {} of the job's {} hosts",
        pairs.len(),
        hosts.len(),
        scene.job.hosts.len()
    );
    let touches = |(a, b): &&(String, String)| straggler.is_some_and(|s| s.host == *a || s.host == *b);
    let suspects = edges.iter().filter(touches).take(LISTED).map(|(a, b)| format!("{a} to {b}")).collect();
    Ok(Peers { pattern, text, pairs: edges.len(), unmatched, suspects })
}

/// On a host that others have too, only what the agent saw of this job.
fn mine(scene: &Scene<'_>, s: &Sample) -> bool {
    let (host, job) = (s.labels.get("host"), s.labels.get("job"));
    let alone = scene.on.place(0, host) == fabriclens_jobs::Grade::Exclusive;
    scene.on.on_device(host, s.labels.get("device")).any(|j| j == 0) && (alone || job == scene.job.id)
}

/// Pairs of hosts, each once, and how many queue pairs found no other end. Numbers are given by each adapter anew, so
/// that an end that fits to several is none.
fn edges(pairs: &[Sample]) -> (BTreeSet<(String, String)>, usize) {
    let mut ends: HashMap<(&str, &str), Vec<&str>> = HashMap::new();
    for s in pairs {
        ends.entry((s.labels.get("local"), s.labels.get("remote"))).or_default().push(s.labels.get("host"));
    }
    let (mut edges, mut unmatched) = (BTreeSet::new(), 0);
    let hosts = |local: &str, remote: &str| {
        let mut hosts = ends.get(&(local, remote)).cloned().unwrap_or_default();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    };
    for s in pairs {
        let (host, local, remote) = (s.labels.get("host"), s.labels.get("local"), s.labels.get("remote"));
        match (&hosts(local, remote)[..], &hosts(remote, local)[..]) {
            ([_], [other]) if *other != host => {
                let (a, b) = if host < *other { (host, *other) } else { (*other, host) };
                edges.insert((a.to_owned(), b.to_owned()));
            }
            _ => unmatched += 1,
        }
    }
    (edges, unmatched)
}

fn shape(edges: &BTreeSet<(String, String)>, hosts: &BTreeSet<&str>) -> Pattern {
    let n = hosts.len();
    let mut degree: BTreeMap<&str, usize> = BTreeMap::new();
    for (a, b) in edges {
        *degree.entry(a).or_default() += 1;
        *degree.entry(b).or_default() += 1;
    }
    let hubs = degree.values().filter(|d| **d >= n.saturating_sub(1)).count();
    match n {
        0 | 1 => Pattern::Unknown,
        2 => Pattern::Pair,
        _ if edges.len() * 10 >= n * (n - 1) / 2 * 9 && n > 3 => Pattern::AllToAll,
        3 if edges.len() == 3 => Pattern::Ring,
        _ if degree.values().all(|d| *d <= 2) && edges.len() + 1 >= n => Pattern::Ring,
        _ if hubs > 0 && degree.values().filter(|d| **d > hubs).count() <= hubs => Pattern::ParameterServer,
        _ => Pattern::Irregular,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Labels;

    fn of(pairs: &[(usize, usize)]) -> Pattern {
        let edges = pairs.iter().map(|(a, b)| (format!("h{a}"), format!("h{b}"))).collect();
        let hosts: BTreeSet<String> = pairs.iter().flat_map(|(a, b)| [format!("h{a}"), format!("h{b}")]).collect();
        shape(&edges, &hosts.iter().map(String::as_str).collect())
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
