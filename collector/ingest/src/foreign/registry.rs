//! The switches that send, and the names that were not understood.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

/// Most switches, and unknown names of each; further ones are only counted.
const SWITCHES: usize = 20_000;
const UNKNOWN: usize = 100;
/// Characters of a name that is kept.
const NAME_CHARS: usize = 200;

/// A switch and one source that tells of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchSource {
    /// Name of the switch, as `host` in series.
    pub switch: String,
    /// Source: `cumulus`, `sonic_hft`, …
    pub source: &'static str,
    /// Time of the newest sample, Unix milliseconds.
    pub last_ms: i64,
    /// Names that were not understood, ordered.
    pub unknown: Vec<UnknownName>,
    /// Whether further unknown names were not kept.
    pub more_unknown: bool,
}

/// A foreign name without a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnknownName {
    /// The name as it arrived.
    pub name: String,
    /// Time of its newest sample, Unix milliseconds.
    pub last_ms: i64,
}

/// Names of a column list that are not understood, by switch and source.
pub(super) type Senders = BTreeMap<(Arc<str>, &'static str), Vec<String>>;

/// By switch and source.
#[derive(Default)]
pub(super) struct Registry(Mutex<BTreeMap<(Arc<str>, &'static str), Entry>>);

#[derive(Default)]
struct Entry {
    last_ms: i64,
    unknown: BTreeMap<String, i64>,
    more: bool,
}

impl Registry {
    /// Records that the switches of a column list sent samples, the newest at `newest` (Unix milliseconds). Those that the
    /// sender may not speak for are left out.
    pub(super) fn record(&self, senders: &Senders, may: impl Fn(&str) -> bool, newest: i64) {
        let mut all = self.0.lock();
        for (sender, unknown) in senders.iter().filter(|((switch, _), _)| may(switch)) {
            if !all.contains_key(sender) && all.len() >= SWITCHES {
                continue;
            }
            let entry = all.entry(sender.clone()).or_default();
            entry.last_ms = entry.last_ms.max(newest);
            for name in unknown {
                if let Some(last) = entry.unknown.get_mut(name) {
                    *last = newest.max(*last);
                } else if entry.unknown.len() < UNKNOWN {
                    entry.unknown.insert(name.chars().take(NAME_CHARS).collect(), newest);
                } else {
                    entry.more = true;
                }
            }
        }
    }

    pub(super) fn list(&self) -> Vec<SwitchSource> {
        let all = self.0.lock();
        let one = |((switch, source), entry): (&(Arc<str>, &'static str), &Entry)| SwitchSource {
            switch: switch.to_string(),
            source,
            last_ms: entry.last_ms,
            unknown: entry
                .unknown
                .iter()
                .map(|(name, last)| UnknownName { name: name.clone(), last_ms: *last })
                .collect(),
            more_unknown: entry.more,
        };
        all.iter().map(one).collect()
    }
}
