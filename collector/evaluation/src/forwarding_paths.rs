//! Tells the tracker the paths of the queue pairs that it follows in InfiniBand subnets, by the forwarding tables that the
//! readers of the subnets tell. Computed on a separate thread, again when tables or queue pairs have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fabriclens_correlate::{Fabric, FlowName, HostPort, IncidentTracker, PathSource, PortName, RouteUpdate};
use fabriclens_state::AppState;
use fabriclens_subnet_paths::{Endpoint, PairPaths, PathFinder};

use crate::background_query::BackgroundQuery;

/// Most pairs of ports whose paths are kept.
const MOST: usize = 65_536;
/// Interval at which paths are computed again although nothing seems to have changed, ms: cables may have.
const REFRESH_MS: i64 = 60_000;

/// A sender and a receiver.
type Pair = (HostPort, HostPort);

/// Egress ports of the paths of a pair, without the sender's: one if it is the path; several if packets take one of them; none
/// if it is not known.
#[derive(Clone, Debug, PartialEq)]
struct Paths {
    all: Vec<Vec<PortName>>,
    is_exact: bool,
}

/// The computation in progress, and what the tracker was told.
#[derive(Default)]
pub(super) struct ForwardingPaths {
    query: BackgroundQuery<(), BTreeMap<Pair, Paths>>,
    told: BTreeMap<Pair, Paths>,
    /// State of tables and queue pairs that was computed last, and when, Unix ms.
    computed: Option<([u64; 2], i64)>,
}

impl ForwardingPaths {
    /// Applies the finished computation, and starts the next one at an instant (Unix ms). `flows` are the followed queue pairs,
    /// and `flow_changes` is a number that changes with them.
    pub(super) fn round<'a>(
        &mut self,
        state: &AppState,
        tracker: &mut IncidentTracker,
        (flows, flow_changes): (impl Iterator<Item = &'a FlowName>, u64),
        now_ms: i64,
    ) {
        if let Some(((), found)) = self.query.finished() {
            for update in self.updates(found.unwrap_or_default()) {
                tracker.learn(now_ms.saturating_mul(1_000_000), update);
            }
        }
        let (paths, now) = (&state.telemetry.subnet_paths, Instant::now());
        let is_usable = paths.is_usable(now);
        let version = [if is_usable { paths.version() } else { 0 }, flow_changes];
        let is_new = |(last, at_ms): (_, i64)| last != version || at_ms + REFRESH_MS <= now_ms;
        if !is_usable && self.told.is_empty() || !self.query.is_free() || !self.computed.is_none_or(is_new) {
            return;
        }
        self.computed = Some((version, now_ms));
        let pairs = pairs(flows);
        let fabric = tracker.fabric();
        let ends = pairs.iter().flat_map(|(from, to)| [from, to]);
        let ends: BTreeMap<HostPort, Endpoint> = ends.map(|port| (port.clone(), endpoint(fabric, port))).collect();
        let finder = paths.finder(now);
        self.query.start("paths", (), move || Some(compute(&finder, &pairs, &ends)));
    }

    /// Updates that lead from what was told to what was found.
    fn updates(&mut self, found: BTreeMap<Pair, Paths>) -> Vec<RouteUpdate> {
        let unknown = || Paths { all: Vec::new(), is_exact: false };
        let gone = self.told.keys().filter(|pair| !found.contains_key(pair)).map(|pair| update(pair, unknown()));
        let new = found.iter().filter(|(pair, paths)| self.told.get(pair) != Some(paths));
        let updates = gone.chain(new.map(|(pair, paths)| update(pair, paths.clone()))).collect();
        self.told = found;
        updates
    }
}

/// Both directions of the flows without a source port: data and acknowledgments.
fn pairs<'a>(flows: impl Iterator<Item = &'a FlowName>) -> BTreeSet<Pair> {
    let mut pairs = BTreeSet::new();
    for flow in flows.filter(|flow| flow.source_port.is_none()) {
        let [from, to] = [&flow.from, &flow.to].map(|end| (end.node.clone(), end.port.clone()));
        pairs.insert((to.clone(), from.clone()));
        pairs.insert((from, to));
        if pairs.len() >= MOST {
            break;
        }
    }
    pairs
}

/// A host port with the switch port at the other end of its cable.
fn endpoint(fabric: &Fabric, (host, port): &HostPort) -> Endpoint {
    let peer = fabric.port_at(host, port).and_then(|at| fabric.ports.list[at].peer);
    let attached = peer.map(|peer| fabric.port_name(peer));
    Endpoint { host: host.clone(), port: port.clone(), attached }
}

fn compute(finder: &PathFinder, pairs: &BTreeSet<Pair>, ends: &BTreeMap<HostPort, Endpoint>) -> BTreeMap<Pair, Paths> {
    let paths = |(from, to): &Pair| {
        let found = finder.paths(&ends[from], &ends[to]);
        let found =
            found.inspect_err(|error| tracing::debug!(host = from.0, to = to.0, %error, "no path between ports"));
        Some(named(&found.ok()?))
    };
    pairs.iter().filter_map(|pair| Some((pair.clone(), paths(pair)?))).collect()
}

fn named(found: &PairPaths) -> Paths {
    let hop = |hop: &fabriclens_subnet_paths::Hop| PortName { node: hop.node.to_string(), port: hop.port.to_string() };
    let all = found.all.iter().map(|path| path.iter().skip(1).map(hop).collect()).collect();
    Paths { all, is_exact: found.is_exact() }
}

fn update((from, to): &Pair, paths: Paths) -> RouteUpdate {
    let [from, to] = [from, to].map(|(node, port)| PortName { node: node.clone(), port: port.clone() });
    // The tracker knows the sender's port by the name in samples.
    let whole = |hops: Vec<PortName>| [from.clone()].into_iter().chain(hops).collect::<Vec<_>>();
    let mut all: Vec<Vec<PortName>> = paths.all.into_iter().map(whole).collect();
    let flow = FlowName { from: from.clone(), to, source_port: None };
    match (paths.is_exact, all.pop()) {
        (true, Some(hops)) => RouteUpdate::Path { flow, hops, source: PathSource::ForwardingTable },
        (_, last) => RouteUpdate::OneOf { flow, paths: all.into_iter().chain(last).collect() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(node: &str) -> PortName {
        PortName { node: node.into(), port: "mlx5_0/1".into() }
    }

    fn flow(to: &str, source_port: Option<u16>) -> FlowName {
        FlowName { from: port("a"), to: port(to), source_port }
    }

    fn found(ways: &[&[&str]], is_exact: bool) -> BTreeMap<Pair, Paths> {
        let hop = |node: &&str| PortName { node: (*node).into(), port: "1".into() };
        let all = ways.iter().map(|way| way.iter().map(hop).collect()).collect();
        let end = |host: &str| (host.to_owned(), "mlx5_0/1".to_owned());
        BTreeMap::from([((end("a"), end("b")), Paths { all, is_exact })])
    }

    fn hops(update: &RouteUpdate) -> (Vec<Vec<&str>>, bool) {
        match update {
            RouteUpdate::Path { hops, source: PathSource::ForwardingTable, .. } => {
                (vec![hops.iter().map(|hop| hop.node.as_str()).collect()], true)
            }
            RouteUpdate::OneOf { paths, .. } => {
                (paths.iter().map(|hops| hops.iter().map(|hop| hop.node.as_str()).collect()).collect(), false)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pairs_without_a_source_port_have_two_directions() {
        let flows = [flow("b", None), flow("b", None), flow("c", Some(50_000))];
        let pairs: Vec<(String, String)> = pairs(flows.iter()).into_iter().map(|(from, to)| (from.0, to.0)).collect();
        assert_eq!(pairs, [("a".to_owned(), "b".to_owned()), ("b".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn only_changes_of_paths_are_told() {
        let mut paths = ForwardingPaths::default();
        let exact = paths.updates(found(&[&["leaf1", "leaf2"]], true));
        assert_eq!(exact.iter().map(hops).collect::<Vec<_>>(), [(vec![vec!["a", "leaf1", "leaf2"]], true)]);
        assert_eq!(paths.updates(found(&[&["leaf1", "leaf2"]], true)), []);
        let one_of = paths.updates(found(&[&["leaf1"], &["leaf2"]], false));
        assert_eq!(
            one_of.iter().map(hops).collect::<Vec<_>>(),
            [(vec![vec!["a", "leaf1"], vec!["a", "leaf2"]], false)]
        );
        let single = paths.updates(found(&[&["leaf1"]], false));
        assert_eq!(hops(&single[0]), (vec![vec!["a", "leaf1"]], false), "one is known, and others are possible");
        let gone = paths.updates(BTreeMap::new());
        assert_eq!(gone.iter().map(hops).collect::<Vec<_>>(), [(vec![], false)]);
    }
}
