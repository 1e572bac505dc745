//! Entries of the list of switches, and what each sender may add to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriclens_base::{Sender, SenderUsage, host_name};
use prometheus::Gauge;

/// Age from which a switch counts as silent, ms: three scrapes of an exporter that is read once a minute.
pub const SILENT_MS: i64 = 180_000;
/// Most switches. Beyond it, or beyond the part of a sender ([`Sender::may_keep`]), silent ones make room for a new one.
pub(super) const SWITCHES: usize = 20_000;
/// Most unknown names of a switch, and their bytes for all switches; further ones are only counted.
pub(super) const UNKNOWN: usize = 100;
pub(super) const UNKNOWN_BYTES: usize = 8 << 20;
/// Characters of a name that is kept.
pub(super) const NAME_CHARS: usize = 200;
/// Shortest time between two searches for silent switches, ms, because all are looked at.
const FORGET_MS: u64 = 1000;

/// Switch, in the form in which equal names are equal texts, and source.
pub(super) type Key = (String, &'static str);

/// The key of a switch.
pub(super) fn key(switch: &str, source: &'static str) -> Key {
    (host_name::key(switch), source)
}

/// A switch as one source reports it.
pub(super) struct Entry {
    /// Name as it came first.
    pub(super) switch: Arc<str>,
    /// Configured, so it is listed even if it is silent.
    pub(super) expected: bool,
    /// Time of the newest sample, Unix ms.
    pub(super) last_ms: Option<i64>,
    /// Time of arrival of the newest sample, Unix ms, which does not depend on the clock of the switch.
    pub(super) received_ms: i64,
    pub(super) received: Option<Gauge>,
    pub(super) streams: BTreeMap<&'static str, Option<&'static str>>,
    pub(super) unknown: BTreeMap<String, i64>,
    pub(super) more: bool,
    /// Name of the caller in whose share it is, unless that is bound to hosts.
    unbound: Option<Arc<str>>,
}

impl Entry {
    fn new(switch: Arc<str>, unbound: Option<Arc<str>>) -> Self {
        Self {
            switch,
            expected: false,
            last_ms: None,
            received_ms: 0,
            received: None,
            streams: BTreeMap::new(),
            unknown: BTreeMap::new(),
            more: false,
            unbound,
        }
    }

    fn sender(&self) -> Sender<'_> {
        Sender::of(self.unbound.as_deref())
    }

    fn unknown_bytes(&self) -> usize {
        self.unknown.keys().map(String::len).sum()
    }

    /// Streams that work.
    pub(super) fn working(&self) -> usize {
        self.streams.values().filter(|failed| failed.is_none()).count()
    }
}

/// All entries. A switch is in the share of the sender that told of it first, or of the first one that is bound to it.
#[derive(Default)]
pub(super) struct Entries {
    by_key: BTreeMap<Key, Entry>,
    switches: SenderUsage,
    /// Bytes of unknown names.
    unknown_bytes: SenderUsage,
    /// Time at which silent switches last made room, Unix ms.
    forgot_ms: i64,
}

impl Entries {
    /// Whether a sender may tell of a switch.
    pub(super) fn admits(&self, sender: Sender<'_>, key: &Key) -> bool {
        self.by_key.contains_key(key) || self.switches.room(sender, SWITCHES) > 0
    }

    /// The entry of a switch, a new one if the sender may have it; `None` if it may not.
    pub(super) fn entry(&mut self, sender: Sender<'_>, switch: &Arc<str>, key: &Key) -> Option<&mut Entry> {
        if !self.admits(sender, key) {
            return None;
        }
        if !self.by_key.contains_key(key) {
            let unbound = self.switches.add(sender, 1);
            self.by_key.insert(key.clone(), Entry::new(switch.clone(), unbound));
        }
        let entry = self.by_key.get_mut(key)?;
        if sender == Sender::Bound
            && let Some(before) = entry.unbound.take()
        {
            let (before, bytes) = (Sender::Unbound(&before), entry.unknown_bytes());
            for (usage, amount) in [(&mut self.switches, 1), (&mut self.unknown_bytes, bytes)] {
                usage.remove(before, amount);
                usage.add(sender, amount);
            }
        }
        Some(entry)
    }

    /// Records a name that was not understood. Returns whether it is new and kept. Only the sender in whose share a switch is
    /// adds names to it.
    pub(super) fn unknown(&mut self, sender: Sender<'_>, key: &Key, name: &str, time_ms: i64) -> bool {
        let Some(entry) = self.by_key.get_mut(key) else { return false };
        let end = name.char_indices().nth(NAME_CHARS).map_or(name.len(), |(at, _)| at);
        let name = &name[..end];
        if let Some(last) = entry.unknown.get_mut(name) {
            *last = time_ms.max(*last);
            return false;
        }
        let is_own = entry.sender() == sender && entry.unknown.len() < UNKNOWN;
        let fits = is_own && name.len() <= self.unknown_bytes.room(sender, UNKNOWN_BYTES);
        if fits {
            self.unknown_bytes.add(sender, name.len());
            entry.unknown.insert(name.to_owned(), time_ms);
        }
        entry.more |= !fits;
        fits
    }

    /// Forgets switches that push and are silent for a sender that has no room, and tells `gone` of each. Whose share is full
    /// makes room in it; a sender that is bound to no host takes no place of one that is.
    pub(super) fn forget_silent(&mut self, sender: Sender<'_>, now_ms: i64, gone: impl Fn(&Entry, &'static str)) {
        if now_ms.saturating_sub(self.forgot_ms).unsigned_abs() < FORGET_MS {
            return;
        }
        self.forgot_ms = now_ms;
        let Self { by_key, switches, unknown_bytes, .. } = self;
        let is_share_full = switches.is_share_full(sender, SWITCHES);
        let may_go = |of: Sender<'_>| match sender {
            Sender::Bound => true,
            Sender::Unbound(_) => of != Sender::Bound && (of == sender || !is_share_full),
        };
        by_key.retain(|(_, source), entry| {
            let is_silent = !entry.expected && entry.streams.is_empty() && now_ms - entry.received_ms > SILENT_MS;
            let stays = !is_silent || !may_go(entry.sender());
            if !stays {
                gone(entry, source);
                switches.remove(entry.sender(), 1);
                unknown_bytes.remove(entry.sender(), entry.unknown_bytes());
            }
            stays
        });
    }

    /// All by name and source.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Entry, &'static str)> {
        self.by_key.iter().map(|((_, source), entry)| (entry, *source))
    }

    #[cfg(test)]
    pub(super) fn unknown_bytes(&self) -> usize {
        self.unknown_bytes.all()
    }
}
