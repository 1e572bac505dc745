//! Tells the tracker the paths and results that agents report, and the planner what the tracker suspects and what jobs send.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use fabriclens_correlate::{HostPort, IncidentTracker, QueuePairFlows, known_queue_pair_flows};
use fabriclens_probing::Demand;
use fabriclens_state::AppState;

use crate::background_query::BackgroundQuery;

/// Updates of a round, which comes five times a second: twice the largest configured rate.
const UPDATES: usize = 20_000;
/// Interval at which the planner is told, ms.
const DEMAND_MS: i64 = 5_000;
/// Ports whose queue pairs are read at once.
const BATCH: usize = 64;
/// How long the queue pairs of a port count before they are read again, ms.
const FRESH_MS: i64 = 300_000;
/// The same of a suspect.
const SUSPECT_FRESH_MS: i64 = 60_000;
/// Suspects that are told.
const SUSPECTS: usize = 1024;
/// Interval at which old paths are forgotten, and their age, ms: agents report each path again within minutes.
const FORGET_MS: i64 = 60_000;
const OLD_MS: i64 = 2 * 3_600_000;

/// What was told, and the query of queue pairs in progress.
#[derive(Default)]
pub(super) struct ProbeFeed {
    query: BackgroundQuery<BTreeSet<HostPort>, HashMap<HostPort, QueuePairFlows>>,
    /// Queue pairs by port, and when they were read, Unix ms.
    flows: HashMap<HostPort, (i64, Arc<QueuePairFlows>)>,
    suspects: HashSet<HostPort>,
    told_ms: i64,
    forgot_ms: i64,
}

impl ProbeFeed {
    /// Tells the tracker what agents reported, at an instant (Unix ms).
    pub(super) fn drain(&mut self, state: &AppState, tracker: &mut IncidentTracker, now_ms: i64) {
        for (at_ns, update) in state.probing.drain(UPDATES) {
            tracker.learn(at_ns, update);
        }
        if now_ms >= self.forgot_ms + FORGET_MS {
            self.forgot_ms = now_ms;
            tracker.forget_paths_before((now_ms - OLD_MS).saturating_mul(1_000_000));
        }
    }

    /// Tells the planner what the tracker suspects and what jobs send, at an instant (Unix ms).
    pub(super) fn round(&mut self, state: &AppState, tracker: &mut IncidentTracker, now_ms: i64) {
        if !state.probing.is_used() {
            return;
        }
        if let Some((ports, mut found)) = self.query.finished() {
            for port in ports {
                let known = self.flows.entry(port.clone()).or_default();
                known.0 = now_ms;
                // A query that failed leaves what was known.
                if let Some(found) = &mut found {
                    known.1 = Arc::new(found.remove(&port).unwrap_or_default());
                }
            }
        }
        if now_ms >= self.told_ms + DEMAND_MS {
            self.told_ms = now_ms;
            self.tell(state, tracker, now_ms);
        }
    }

    fn tell(&mut self, state: &AppState, tracker: &mut IncidentTracker, now_ms: i64) {
        let (suspects, bytes) = (tracker.path_suspects(SUSPECTS), tracker.host_bytes());
        let suspect_flows = tracker.suspect_flows();
        let name = |port: usize| tracker.fabric().port_name(port);
        self.suspects = suspects.into_iter().map(name).collect();
        let offered: HashSet<HostPort> = state
            .probing
            .offered()
            .into_iter()
            .flat_map(|(host, ports)| ports.into_iter().map(move |port| (host.to_string(), port)))
            .collect();
        let bytes: HashMap<HostPort, [f64; 2]> = bytes
            .into_iter()
            .map(|(port, bytes)| (name(port), bytes))
            .filter(|(port, _)| offered.contains(port))
            .collect();
        self.flows.retain(|port, _| offered.contains(port));
        let jobs = tracker.fabric().jobs.iter().flat_map(|job| &job.ports);
        let mut in_jobs: HashSet<HostPort> = jobs.map(|port| name(*port)).collect();
        if in_jobs.is_empty() {
            // No source tells of jobs.
            in_jobs.clone_from(&offered);
        }
        let due = self.due(offered.iter().filter(|port| in_jobs.contains(*port)), &bytes, now_ms);
        // The queue pairs of ports that no job uses any more are no longer used.
        let flows = self.flows.iter().filter(|(port, (_, flows))| !flows.is_empty() && in_jobs.contains(*port));
        let flows = flows.map(|(port, (_, flows))| (port.clone(), flows.clone())).collect();
        state.probing.set_demand(Demand { suspects: self.suspects.clone(), suspect_flows, bytes, flows });
        if due.is_empty() || !self.query.is_free() {
            return;
        }
        let (data, of) = (state.data.clone(), due.clone());
        self.query.start("probed queue pairs", due, move || {
            let found = known_queue_pair_flows(data.reader(), &of, now_ms);
            let found = found.inspect_err(
                |error| tracing::debug!(ports = of.len(), %error, "cannot query the queue pairs of probed ports"),
            );
            found.ok().map(|found| found.into_iter().collect())
        });
    }

    /// The next ports to read: suspects, then those that were never read, then the oldest; of these those with most bytes.
    fn due<'a>(
        &self,
        ports: impl Iterator<Item = &'a HostPort>,
        bytes: &HashMap<HostPort, [f64; 2]>,
        now_ms: i64,
    ) -> BTreeSet<HostPort> {
        let read_ms = |port: &HostPort| self.flows.get(port).map(|(at, _)| *at);
        let is_due = |port: &&HostPort| {
            let fresh = if self.suspects.contains(*port) { SUSPECT_FRESH_MS } else { FRESH_MS };
            read_ms(port).is_none_or(|at| at + fresh <= now_ms)
        };
        let mut due: Vec<&HostPort> = ports.filter(is_due).collect();
        let weight = |port: &HostPort| bytes.get(port).map_or(0.0, |both| both[0] + both[1]);
        due.sort_by(|a, b| {
            let key = |port: &HostPort| (!self.suspects.contains(port), read_ms(port));
            key(a).cmp(&key(b)).then(weight(b).total_cmp(&weight(a)))
        });
        due.into_iter().take(BATCH).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host: usize) -> HostPort {
        (format!("h{host:03}"), "mlx5_0/1".to_owned())
    }

    #[test]
    fn suspects_and_heavy_ports_are_read_first_and_again_after_a_while() {
        let all: Vec<HostPort> = (0..BATCH + 6).map(port).collect();
        let bytes: HashMap<HostPort, [f64; 2]> =
            all.iter().enumerate().map(|(at, port)| (port.clone(), [at as f64, 0.0])).collect();
        let mut feed = ProbeFeed { suspects: HashSet::from([port(0)]), ..ProbeFeed::default() };
        let first = feed.due(all.iter(), &bytes, 0);
        assert_eq!(first.len(), BATCH);
        assert!(first.contains(&port(0)) && first.contains(&port(BATCH + 5)) && !first.contains(&port(1)));
        for port in first {
            feed.flows.insert(port, (1_000_000, Arc::default()));
        }
        assert_eq!(feed.due(all.iter(), &bytes, 1_010_000).len(), 6);
        assert!(feed.due(all.iter(), &bytes, 1_000_000 + SUSPECT_FRESH_MS).contains(&port(0)));
        assert_eq!(feed.due(all.iter(), &bytes, 1_000_000 + FRESH_MS).len(), BATCH);
    }
}
