//! Updates that wait for the live evaluation.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use fabriclens_base::SenderUsage;
use fabriclens_correlate::RouteUpdate;

use crate::registry::Reporter;

/// Most updates that wait: ten seconds of the largest configured rate, and the paths of a fleet that starts. Of one sender, see
/// [`fabriclens_base::Sender::may_keep`].
const MOST: usize = 262_144;
/// Most of one host: what it may report at once.
const OF_HOST: usize = 16_384;

/// An update with its instant, Unix nanoseconds.
pub(crate) type Timed = (i64, RouteUpdate);

/// Bounded by host, by sender and in all; what does not fit is dropped and counted.
#[derive(Default)]
pub(crate) struct Feed {
    waiting: VecDeque<(Arc<Reporter>, Timed)>,
    of_host: HashMap<Arc<str>, usize>,
    usage: SenderUsage,
}

impl Feed {
    /// Adds updates of a host; returns how many were dropped.
    pub fn add(&mut self, reporter: &Arc<Reporter>, updates: Vec<Timed>) -> usize {
        let of_host = self.of_host.get(&reporter.host).copied().unwrap_or(0);
        let free = self.usage.room(reporter.sender(), MOST).min(OF_HOST.saturating_sub(of_host));
        let added = updates.len().min(free);
        if added > 0 {
            self.usage.add(reporter.sender(), added);
            self.of_host.insert(reporter.host.clone(), of_host + added);
        }
        let dropped = updates.len() - added;
        self.waiting.extend(updates.into_iter().take(added).map(|update| (reporter.clone(), update)));
        dropped
    }

    /// Takes the oldest `most` out, in order of their instants.
    pub fn drain(&mut self, most: usize) -> Vec<Timed> {
        let oldest = self.waiting.drain(..most.min(self.waiting.len()));
        let mut taken: Vec<Timed> = Vec::with_capacity(oldest.len());
        for (reporter, update) in oldest {
            self.usage.remove(reporter.sender(), 1);
            if let Some(left) = self.of_host.get_mut(&reporter.host) {
                *left -= 1;
                if *left == 0 {
                    self.of_host.remove(&reporter.host);
                }
            }
            taken.push(update);
        }
        // A path counts from its instant on, so it comes before a probe of the same instant.
        taken.sort_by_key(|(at_ns, update)| (*at_ns, matches!(update, RouteUpdate::Probe { .. })));
        taken
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_correlate::{FlowName, PathSource, PortName};
    use std::ops::Range;

    fn update(at_ns: i64) -> Timed {
        let port = || PortName { node: "h".into(), port: "p".into() };
        let flow = FlowName { from: port(), to: port(), source_port: None };
        (at_ns, RouteUpdate::Path { flow, hops: Vec::new(), source: PathSource::Traced })
    }

    /// How many updates of these hosts of a sender fit.
    fn fill(feed: &mut Feed, sender: Option<&str>, hosts: Range<usize>) -> usize {
        let before = feed.len();
        for host in hosts {
            let host: Arc<str> = format!("{sender:?} {host}").into();
            let reporter = Arc::new(Reporter { host, unbound: sender.map(Arc::from) });
            assert_eq!(feed.add(&reporter, vec![update(7)]), 0);
            let many = (0..=OF_HOST as i64).map(update).collect();
            assert!(feed.add(&reporter, many) > 0, "{reporter:?}");
        }
        feed.len() - before
    }

    #[test]
    fn one_host_and_one_sender_cannot_fill_it() {
        let mut feed = Feed::default();
        assert_eq!(fill(&mut feed, None, 0..1), OF_HOST);
        assert_eq!(fill(&mut feed, Some("a"), 0..4), MOST / 4);
        let one_more = Arc::new(Reporter { host: "more".into(), unbound: Some("a".into()) });
        assert_eq!(feed.add(&one_more, vec![update(1)]), 1, "an invented host has no room");
        assert_eq!(fill(&mut feed, Some("b"), 0..4) + fill(&mut feed, Some("c"), 0..4), MOST / 2);
        assert_eq!(fill(&mut feed, None, 1..4), 3 * OF_HOST, "a quarter is kept for hosts");
        while !feed.drain(100_000).is_empty() {}
        assert_eq!((feed.of_host.len(), feed.usage.all()), (0, 0));
        assert_eq!(fill(&mut feed, Some("a"), 0..1), OF_HOST);
    }
}
