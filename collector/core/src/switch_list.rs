//! List of the switches that the collector hears of: which, by which source, when the last sample arrived, gNMI streams, and
//! names that were not understood. The list begins anew at each start.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{Gauge, GaugeVec, Opts, Registry};
use serde::Serialize;

/// Age from which a switch counts as silent, ms: three scrapes of an exporter that is read once a minute.
pub const SILENT_MS: i64 = 180_000;
/// Most switches; beyond it, one that is silent makes room for one that is new.
const SWITCHES: usize = 20_000;
/// Most unknown names of a switch, and their bytes for all switches; further ones are only counted.
const UNKNOWN: usize = 100;
const UNKNOWN_BYTES: usize = 8 << 20;
/// Characters of a name that is kept.
const NAME_CHARS: usize = 200;

/// A switch as one source reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchSource {
    /// Name of the switch, as `host` in series.
    pub switch: String,
    /// Source: `cumulus`, `sonic_hft`, `gnmi`, `in_band`, …
    pub source: &'static str,
    /// Time of the newest sample, Unix milliseconds; `None` if none has arrived.
    pub last_ms: Option<i64>,
    /// Whether nothing arrives: no sample for [`SILENT_MS`], or no gNMI stream that works.
    pub silent: bool,
    /// gNMI streams, ordered by name; empty for switches that push.
    pub streams: Vec<StreamState>,
    /// Names that were not understood, ordered.
    pub unknown: Vec<UnknownName>,
    /// Whether further unknown names were not kept.
    pub more_unknown: bool,
}

/// A gNMI stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamState {
    /// Name of the stream: `ports`, `queues`, …
    pub stream: &'static str,
    /// Why it does not work: `refused`, `connection`, …; `None` if it works.
    pub failed: Option<&'static str>,
}

/// A foreign name without a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnknownName {
    /// The name as it arrived.
    pub name: String,
    /// Time of its newest sample, Unix milliseconds.
    pub last_ms: i64,
}

/// See the module. Clones share one list.
#[derive(Clone)]
pub struct SwitchList {
    all: Arc<Mutex<Entries>>,
    received: GaugeVec,
}

/// Switch and source.
type Key = (Arc<str>, &'static str);

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<Key, Entry>,
    /// Bytes of all unknown names.
    unknown_bytes: usize,
    /// Time at which silent switches last made room, Unix ms.
    forgot_ms: i64,
}

#[derive(Default)]
struct Entry {
    /// Configured, so it is listed even if it is silent.
    expected: bool,
    /// Time of the newest sample, Unix ms.
    last_ms: Option<i64>,
    /// Time of arrival of the newest sample, Unix ms, which does not depend on the clock of the switch.
    received_ms: i64,
    received: Option<Gauge>,
    streams: BTreeMap<&'static str, Option<&'static str>>,
    unknown: BTreeMap<String, i64>,
    more: bool,
}

impl Entry {
    /// Records a name that was not understood, if `free` bytes suffice. Returns whether it is new and kept.
    fn unknown(&mut self, name: &str, time_ms: i64, free: &mut usize) -> bool {
        let end = name.char_indices().nth(NAME_CHARS).map_or(name.len(), |(at, _)| at);
        let name = &name[..end];
        if let Some(last) = self.unknown.get_mut(name) {
            *last = time_ms.max(*last);
            return false;
        }
        let fits = self.unknown.len() < UNKNOWN && name.len() <= *free;
        if fits {
            *free -= name.len();
            self.unknown.insert(name.to_owned(), time_ms);
        }
        self.more |= !fits;
        fits
    }

    /// Streams that work.
    fn working(&self) -> usize {
        self.streams.values().filter(|failed| failed.is_none()).count()
    }
}

impl SwitchList {
    /// Declares the metric.
    ///
    /// # Errors
    /// If the name is taken.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let received = GaugeVec::new(
            Opts::new(
                "fabriclens_switch_last_received_timestamp_seconds",
                "When the last sample of a switch arrived, by source. Unix time.",
            ),
            &["switch", "source"],
        )?;
        registry.register(Box::new(received.clone()))?;
        Ok(Self { all: Arc::default(), received })
    }

    /// Runs `change` on an entry, with the bytes that are free for unknown names; `None` if the list is full.
    fn change<T>(
        &self,
        switch: &Arc<str>,
        source: &'static str,
        change: impl FnOnce(&mut Entry, &mut usize) -> T,
    ) -> Option<T> {
        let mut all = self.all.lock();
        let Entries { by_key, unknown_bytes, .. } = &mut *all;
        let key = (switch.clone(), source);
        if !by_key.contains_key(&key) && by_key.len() >= SWITCHES {
            return None;
        }
        let mut free = UNKNOWN_BYTES.saturating_sub(*unknown_bytes);
        let done = change(by_key.entry(key).or_default(), &mut free);
        *unknown_bytes = UNKNOWN_BYTES - free;
        Some(done)
    }

    /// Forgets switches that push and are silent, if the list is full; at most once a second, because all are looked at.
    fn make_room(&self, now_ms: i64) {
        let mut all = self.all.lock();
        if all.by_key.len() < SWITCHES || now_ms.saturating_sub(all.forgot_ms).unsigned_abs() < 1000 {
            return;
        }
        all.forgot_ms = now_ms;
        let Entries { by_key, unknown_bytes, .. } = &mut *all;
        by_key.retain(|(switch, source), entry| {
            let gone = !entry.expected && entry.streams.is_empty() && now_ms - entry.received_ms > SILENT_MS;
            if gone {
                *unknown_bytes -= entry.unknown.keys().map(String::len).sum::<usize>();
                // It has no metric if nothing arrived.
                _ = self.received.remove_label_values(&[&**switch, source]);
            }
            !gone
        });
    }

    /// Lists a switch that is configured, before anything arrives.
    pub fn expect(&self, switch: &Arc<str>, source: &'static str) {
        self.change(switch, source, |entry, _| entry.expected = true);
    }

    /// Records that samples of a switch arrived at `now_ms`, the newest of them of `newest_ms`, some under names that were
    /// not understood.
    pub fn received(&self, switch: &Arc<str>, source: &'static str, [newest_ms, now_ms]: [i64; 2], unknown: &[String]) {
        self.make_room(now_ms);
        self.change(switch, source, |entry, free| {
            entry.last_ms = entry.last_ms.max(Some(newest_ms));
            entry.received_ms = now_ms;
            let gauge = || self.received.with_label_values(&[&**switch, source]);
            entry.received.get_or_insert_with(gauge).set(now_ms as f64 / 1e3);
            for name in unknown {
                entry.unknown(name, newest_ms, free);
            }
        });
    }

    /// Records a name that was not understood. Returns whether it is new and kept.
    pub fn unknown(&self, switch: &Arc<str>, source: &'static str, name: &str, time_ms: i64) -> bool {
        self.change(switch, source, |entry, free| entry.unknown(name, time_ms, free)).unwrap_or(false)
    }

    /// Records that a gNMI stream works, or why it does not. Returns how many streams of the switch work; `None` if the
    /// list is full.
    pub fn stream(
        &self,
        switch: &Arc<str>,
        source: &'static str,
        stream: &'static str,
        failed: Option<&'static str>,
    ) -> Option<usize> {
        self.change(switch, source, |entry, _| {
            entry.streams.insert(stream, failed);
            entry.working()
        })
    }

    /// All switches by name and source, at `now_ms`.
    pub fn list(&self, now_ms: i64) -> Vec<SwitchSource> {
        let all = self.all.lock();
        let one = |((switch, source), entry): (&Key, &Entry)| {
            let streams = entry.streams.iter().map(|(stream, failed)| StreamState { stream, failed: *failed });
            let unknown = entry.unknown.iter().map(|(name, last)| UnknownName { name: name.clone(), last_ms: *last });
            let silent = match entry.streams.is_empty() {
                true => now_ms - entry.received_ms > SILENT_MS,
                false => entry.working() == 0,
            };
            SwitchSource {
                switch: switch.to_string(),
                source,
                last_ms: entry.last_ms,
                silent,
                streams: streams.collect(),
                unknown: unknown.collect(),
                more_unknown: entry.more,
            }
        };
        all.by_key.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_a_matter_of_arrival_or_of_streams() {
        let list = SwitchList::new(&Registry::new()).unwrap();
        let (leaf, spine) = (Arc::from("leaf1"), Arc::from("spine1"));
        // The clock of the leaf is not set.
        list.received(&leaf, "cumulus", [1_000, 900_000], &[]);
        list.stream(&spine, "gnmi", "ports", Some("connection"));
        list.stream(&spine, "gnmi", "lldp", Some("refused"));
        let silent = |now| list.list(now).iter().map(|s| s.silent).collect::<Vec<_>>();
        assert_eq!(silent(900_000 + SILENT_MS), [false, true]);
        assert_eq!(list.list(0)[1].last_ms, None);
        // One stream that works is enough: targets refuse what they lack.
        list.stream(&spine, "gnmi", "ports", None);
        assert_eq!(silent(900_001 + SILENT_MS), [true, false]);
        let reasons: Vec<_> = list.list(0)[1].streams.iter().map(|s| (s.stream, s.failed)).collect();
        assert_eq!(reasons, [("lldp", Some("refused")), ("ports", None)]);
    }

    #[test]
    fn unknown_names_are_bounded() {
        let list = SwitchList::new(&Registry::new()).unwrap();
        let leaf = Arc::from("leaf1");
        assert!(list.unknown(&leaf, "cumulus", "a", 1));
        assert!(!list.unknown(&leaf, "cumulus", "a", 2), "known by now");
        (0..UNKNOWN).for_each(|i| {
            list.unknown(&leaf, "cumulus", &format!("b{i}"), 1);
        });
        let one = &list.list(0)[0];
        assert_eq!((one.unknown.len(), one.more_unknown, one.unknown[0].last_ms), (UNKNOWN, true, 2));
    }

    #[test]
    fn invented_switches_are_bounded_and_make_room() {
        let list = SwitchList::new(&Registry::new()).unwrap();
        let names: Vec<String> = (0..UNKNOWN).map(|i| format!("{i}{}", "x".repeat(NAME_CHARS))).collect();
        let invent = |i: usize, now| list.received(&format!("invented{i}").into(), "cumulus", [now, now], &names);
        list.expect(&Arc::from("spine1"), "gnmi");
        (0..SWITCHES + 10).for_each(|i| invent(i, 1000));
        assert_eq!(list.list(1000).len(), SWITCHES);
        let bytes = list.all.lock().unknown_bytes;
        assert!(bytes <= UNKNOWN_BYTES && bytes > UNKNOWN_BYTES - NAME_CHARS, "{bytes}");
        let leaf = Arc::from("leaf1");
        list.received(&leaf, "cumulus", [2000, 2000], &[]);
        let silent = 1001 + SILENT_MS;
        assert!(list.list(2000).iter().all(|switch| switch.switch != "leaf1"), "all others still send");
        list.received(&leaf, "cumulus", [silent, silent], &[]);
        let left: Vec<String> = list.list(silent).into_iter().map(|switch| switch.switch).collect();
        assert_eq!((left, list.all.lock().unknown_bytes), (vec!["leaf1".to_owned(), "spine1".to_owned()], 0));
    }
}
