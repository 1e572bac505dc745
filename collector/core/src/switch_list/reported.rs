//! Lists of switches that ingest collectors report to their judge.

use std::collections::BTreeMap;

use fabriclens_base::host_name;

use super::entries::SILENT_MS;
use super::source::SwitchSource;

/// Most bytes of all lists as JSON. Beyond it, those of the collectors that have been silent longest are dropped.
const BYTES: usize = 64 << 20;
/// How long the list of a collector that is gone is kept, ms: its switches are silent then, and should be seen.
const KEPT_MS: i64 = 86_400_000;

/// The newest list of each ingest collector.
#[derive(Default)]
pub(super) struct Reported(BTreeMap<u64, ReportedList>);

struct ReportedList {
    switches: Vec<SwitchSource>,
    /// Length as JSON.
    bytes: usize,
    /// Time of arrival, Unix ms.
    received_ms: i64,
}

impl Reported {
    /// Takes the list of a collector, which replaces its previous one.
    pub(super) fn take(&mut self, collector: u64, switches: Vec<SwitchSource>, bytes: usize, now_ms: i64) {
        self.0.retain(|_, list| now_ms - list.received_ms < KEPT_MS);
        self.0.insert(collector, ReportedList { switches, bytes, received_ms: now_ms });
        while self.0.values().map(|list| list.bytes).sum::<usize>() > BYTES {
            let oldest = self.0.iter().min_by_key(|(_, list)| list.received_ms).map(|(collector, _)| *collector);
            oldest.and_then(|collector| self.0.remove(&collector));
        }
    }

    /// Adds the reported switches to a list that is ordered by name and source. Of one that several collectors report, because
    /// it sends to another one now, the newest is listed.
    pub(super) fn add_to(&self, own: Vec<SwitchSource>, now_ms: i64) -> Vec<SwitchSource> {
        if self.0.is_empty() {
            return own;
        }
        let mut all: BTreeMap<(String, String), SwitchSource> = BTreeMap::new();
        let reported = self.0.values().flat_map(|list| {
            let gone = now_ms - list.received_ms > SILENT_MS;
            list.switches.iter().map(move |one| SwitchSource { silent: one.silent || gone, ..one.clone() })
        });
        for one in own.into_iter().chain(reported) {
            let newness = |one: &SwitchSource| (!one.silent, one.last_ms);
            let key = (host_name::key(&one.switch), one.source.to_string());
            match all.get(&key) {
                Some(other) if newness(other) >= newness(&one) => {}
                _ => _ = all.insert(key, one),
            }
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(switch: &str, last_ms: i64) -> SwitchSource {
        SwitchSource {
            switch: switch.into(),
            source: "cumulus".into(),
            last_ms: Some(last_ms),
            silent: false,
            streams: Vec::new(),
            unknown: Vec::new(),
            more_unknown: false,
        }
    }

    fn listed(reported: &Reported, now_ms: i64) -> Vec<(String, Option<i64>, bool)> {
        let all = reported.add_to(vec![one("own", 1)], now_ms);
        all.into_iter().map(|one| (one.switch, one.last_ms, one.silent)).collect()
    }

    #[test]
    fn a_switch_is_listed_once_and_outlives_the_collector_that_heard_it() {
        let mut reported = Reported::default();
        assert_eq!(listed(&reported, 5).len(), 1);
        reported.take(1, vec![one("leaf1", 10), one("leaf2", 10)], 100, 1000);
        reported.take(2, vec![one("LEAF1", 5), one("leaf1", 20)], 50, 1000);
        let want = |last, silent| ("leaf1".to_owned(), Some(last), silent);
        assert_eq!(listed(&reported, 1000)[0], want(20, false), "the newest of both");
        let later = 1001 + SILENT_MS;
        reported.take(1, vec![one("leaf1", 15)], 50, later);
        assert_eq!(
            listed(&reported, later)[0],
            want(15, false),
            "the second collector is gone, and the switch sends to the first"
        );
        assert_eq!(listed(&reported, later).len(), 2, "leaf2 is no longer reported");
        assert_eq!(listed(&reported, later + SILENT_MS + 1)[0], want(20, true), "no collector is heard");
    }

    #[test]
    fn lists_are_bounded_in_bytes_and_time() {
        let mut reported = Reported::default();
        for (i, now) in (0..).zip([1, 2, 3]) {
            reported.take(i, vec![one(&format!("leaf{i}"), now)], BYTES / 2, now);
        }
        let names = |now| listed(&reported, now).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
        assert_eq!(names(3), ["leaf1", "leaf2", "own"], "the oldest made room");
        reported.take(9, Vec::new(), 2, KEPT_MS + 2);
        assert_eq!(listed(&reported, 3).len(), 2, "after a day the list of a collector that is gone goes");
    }
}
