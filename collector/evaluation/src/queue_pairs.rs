//! Tells the tracker the queue pairs of ports that lose packets or throughput, with their source ports, so that rules of paths
//! can place the loss. Queried on a separate thread, a few ports at a time: a fleet has millions of queue pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fabriclens_correlate::{
    FlowName, HostPort, IncidentTracker, PortName, QueuePairFlows, RouteUpdate, queue_pair_flows,
};

use fabriclens_state::AppState;

use crate::background_query::BackgroundQuery;

/// Ports of a query.
const BATCH: usize = 8;
/// Limit of ports whose queue pairs are followed.
const MOST: usize = 1024;
/// Interval at which suspects are determined, ms.
const SUSPECT_MS: i64 = 5_000;
/// Interval at which the queue pairs of a suspect are read again, ms: agents list them each 30 s or less often.
const REFRESH_MS: i64 = 60_000;
/// How long the queue pairs of a port that is no longer a suspect are kept, ms.
const KEPT_MS: i64 = 300_000;

/// The query in progress, and what the tracker was told.
#[derive(Default)]
pub(super) struct QueuePairQueries {
    query: BackgroundQuery<Asked, BTreeMap<HostPort, QueuePairFlows>>,
    /// When suspects were last determined, Unix ms.
    suspected_ms: i64,
    followed: BTreeMap<HostPort, Followed>,
    /// Changes of the followed queue pairs.
    changes: u64,
}

/// A port whose queue pairs are followed.
struct Followed {
    /// What the tracker knows.
    pairs: QueuePairFlows,
    /// When they were last asked for, Unix ms; `None` if never.
    read_ms: Option<i64>,
    /// Whether they were ever read.
    is_known: bool,
    /// When the port was last a suspect, Unix ms.
    suspect_ms: i64,
    /// Position among the suspects: the lowest are read first.
    rank: usize,
}

/// What was asked of the store.
struct Asked {
    ports: BTreeSet<HostPort>,
    /// Instant of the query, Unix ms.
    at_ms: i64,
}

impl QueuePairQueries {
    /// Applies the finished query, and starts the next one at an instant (Unix ms).
    pub(super) fn round(&mut self, state: &AppState, tracker: &mut IncidentTracker, now_ms: i64) {
        if let Some((asked, found)) = self.query.finished() {
            self.apply(tracker, asked, found);
        }
        if self.query.is_running() {
            return;
        }
        // Without paths no rule asks for queue pairs. Those of InfiniBand are computed once the queue pairs are known.
        let has_tables = || state.telemetry.subnet_paths.is_usable(Instant::now());
        if tracker.fabric().routes.is_empty() && !has_tables() {
            return;
        }
        if now_ms >= self.suspected_ms + SUSPECT_MS {
            self.suspected_ms = now_ms;
            self.follow(tracker, now_ms);
        }
        if !self.query.is_free() {
            return;
        }
        let ports = self.due(now_ms);
        if ports.is_empty() {
            return;
        }
        let (data, of) = (state.data.clone(), ports.clone());
        self.query.start("queue pairs", Asked { ports, at_ms: now_ms }, move || {
            let found = queue_pair_flows(data.reader(), &of, now_ms);
            found
                .inspect_err(|error| tracing::debug!(ports = of.len(), %error, "cannot query the queue pairs of ports"))
                .ok()
        });
    }

    /// Flows of all followed queue pairs, and a number that changes with them.
    pub(super) fn flows(&self) -> (impl Iterator<Item = &FlowName>, u64) {
        (self.followed.values().flat_map(|followed| followed.pairs.values()), self.changes)
    }

    /// Determines the suspects, and closes the queue pairs of ports that have not been among them for a while.
    fn follow(&mut self, tracker: &mut IncidentTracker, now_ms: i64) {
        for (rank, port) in tracker.path_suspects(MOST).into_iter().enumerate() {
            let of = tracker.fabric().port_name(port);
            let new =
                || Followed { pairs: QueuePairFlows::new(), read_ms: None, is_known: false, suspect_ms: now_ms, rank };
            let followed = self.followed.entry(of).or_insert_with(new);
            (followed.suspect_ms, followed.rank) = (now_ms, rank);
        }
        let none = QueuePairFlows::new();
        self.followed.retain(|of, followed| {
            let stays = followed.suspect_ms + KEPT_MS >= now_ms;
            if !stays {
                self.changes += 1;
                changes(of, &followed.pairs, &none).for_each(|update| tracker.learn(ns(now_ms), update));
            }
            stays
        });
    }

    /// The next ports to read: those that were never read first, by rank; then those last read longest ago.
    fn due(&self, now_ms: i64) -> BTreeSet<HostPort> {
        let is_due = |followed: &Followed| {
            followed.suspect_ms + SUSPECT_MS >= now_ms && followed.read_ms.is_none_or(|at| at + REFRESH_MS <= now_ms)
        };
        let mut due: Vec<_> = self.followed.iter().filter(|(_, followed)| is_due(followed)).collect();
        due.sort_by_key(|(_, followed)| (followed.read_ms, followed.rank));
        due.into_iter().take(BATCH).map(|(of, _)| of.clone()).collect()
    }

    /// Tells the tracker what changed. A port whose query failed (`found` is `None`) keeps what was known, until the next
    /// reading.
    fn apply(
        &mut self,
        tracker: &mut IncidentTracker,
        Asked { ports, at_ms }: Asked,
        mut found: Option<BTreeMap<HostPort, QueuePairFlows>>,
    ) {
        for port in ports {
            let Some(followed) = self.followed.get_mut(&port) else { continue };
            followed.read_ms = Some(at_ms);
            let Some(found) = &mut found else { continue };
            // Pairs that a first reading finds are not new: rules ask which flow was connected just before.
            let since_ms = if followed.is_known { at_ms } else { at_ms - KEPT_MS };
            followed.is_known = true;
            let mut pairs = found.remove(&port).unwrap_or_default();
            // The tracker ignores ports that it does not know, yet.
            pairs.retain(|_, flow| {
                [&flow.from, &flow.to].into_iter().all(|end| tracker.fabric().port_at(&end.node, &end.port).is_some())
            });
            changes(&port, &followed.pairs, &pairs).for_each(|update| tracker.learn(ns(since_ms), update));
            self.changes += u64::from(followed.pairs != pairs);
            followed.pairs = pairs;
        }
    }
}

/// Updates that lead from the known queue pairs of a port to others. A number may have been reused.
fn changes<'a>(
    of: &'a HostPort,
    known: &'a QueuePairFlows,
    now: &'a QueuePairFlows,
) -> impl Iterator<Item = RouteUpdate> + 'a {
    let port = || PortName { node: of.0.clone(), port: of.1.clone() };
    let closed = known.keys().filter(|number| !now.contains_key(number));
    let closed = closed.map(move |number| RouteUpdate::Closed { port: port(), number: *number });
    let new = now.iter().filter(|(number, flow)| known.get(number) != Some(flow));
    closed.chain(new.map(|(number, flow)| RouteUpdate::Connected { flow: flow.clone(), number: *number }))
}

fn ns(ms: i64) -> i64 {
    ms.saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1000;

    fn of(host: usize) -> HostPort {
        (format!("h{host}"), "mlx5_0/1".to_owned())
    }

    fn flow(to: usize, source_port: u16) -> FlowName {
        let [from, to] = [0, to].map(|host| PortName { node: of(host).0, port: of(host).1 });
        FlowName { from, to, source_port: Some(source_port) }
    }

    #[test]
    fn only_changes_are_told() {
        let known = QueuePairFlows::from([(1, flow(1, 50_000)), (2, flow(2, 50_001)), (3, flow(3, 50_002))]);
        let now = QueuePairFlows::from([(1, flow(1, 50_000)), (2, flow(4, 50_003)), (5, flow(5, 50_004))]);
        let port = PortName { node: "h0".into(), port: "mlx5_0/1".into() };
        let connected = |number, flow| RouteUpdate::Connected { flow, number };
        let want =
            [RouteUpdate::Closed { port, number: 3 }, connected(2, flow(4, 50_003)), connected(5, flow(5, 50_004))];
        assert_eq!(changes(&of(0), &known, &now).collect::<Vec<_>>(), want);
        assert_eq!(changes(&of(0), &known, &known).count(), 0);
    }

    #[test]
    fn few_ports_are_read_at_a_time_and_again_after_a_while() {
        let mut queries = QueuePairQueries::default();
        let followed = |rank| Followed {
            pairs: QueuePairFlows::new(),
            read_ms: None,
            is_known: false,
            suspect_ms: 1000 * S,
            rank,
        };
        (0..BATCH + 2).for_each(|host| _ = queries.followed.insert(of(host), followed(BATCH + 2 - host)));
        let first = queries.due(1000 * S);
        assert_eq!(first.len(), BATCH);
        assert!(!first.contains(&of(0)) && !first.contains(&of(1)), "those with most losses come first: {first:?}");
        first.iter().for_each(|port| queries.followed.get_mut(port).unwrap().read_ms = Some(1000 * S));
        assert_eq!(queries.due(1000 * S), BTreeSet::from([of(0), of(1)]));
        assert_eq!(queries.due(1100 * S), BTreeSet::new(), "they are no longer suspects");
        queries.followed.values_mut().for_each(|followed| followed.suspect_ms = 1100 * S);
        assert_eq!(queries.due(1100 * S).len(), BATCH, "their queue pairs may have changed");
    }
}
