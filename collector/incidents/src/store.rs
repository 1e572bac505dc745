//! All incidents that are known, and all that people said of them: kept in `sled`, because it is the only copy. The live
//! engine writes what it sees each second, the API what people say; series, streams and notifiers read.

mod actions;
mod late;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::IncidentKind;
use fabriclens_correlate::{Incident, Severity};
use fabriclens_store::{Clock, Store};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::changes::Changes;
use super::record::{Record, State, kind_text, root_text};
use super::silence::Silence;
use super::view::{FLAP_NS, Thread};
pub use late::Found;

/// The incidents', beside the samples: a backup has both.
const TABLE: &str = "incidents";
const SILENCES: &str = "incident_silences";
/// What receivers were told last; see [`super::notify`].
const TOLD: &str = "incidents_told";
/// Of what is stored.
const VERSION: u8 = 1;
/// Incidents that are kept; beyond, the oldest that are over leave.
const MOST: usize = 10_000;
/// Bytes of what is stored.
const MOST_BYTES: usize = 128 << 20;
/// How often numbers that move are written.
const NUMBERS_NS: i64 = 10 * 1_000_000_000;

/// Why something is not kept or not found.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// There is no such incident.
    #[error("there is no incident {0:?}; GET /api/v1/incidents lists those that are known")]
    Unknown(String),
    /// There is no such silence.
    #[error("there is no silence {0:?}; GET /api/v1/silences lists those in force")]
    UnknownSilence(String),
    /// It would fit nothing or everything, or is over.
    #[error("a silence {0}")]
    Silence(String),
    /// The disk.
    #[error("the book of incidents in the data directory cannot be used: {0}; check the disk and the permissions")]
    Disk(String),
}

/// Which incidents are asked for; `None` is any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// That went on at some time from here on, Unix nanoseconds …
    pub from_ns: Option<i64>,
    /// … to here.
    pub to_ns: Option<i64>,
    /// Of a kind: a person's word counts before the machine's.
    pub kind: Option<IncidentKind>,
    /// As bad as this.
    pub severity: Option<Severity>,
    /// That a job causes or suffers from.
    pub job: Option<String>,
    /// That begin or suffer at a host or switch.
    pub node: Option<String>,
    /// Open, or over.
    pub open: Option<bool>,
}

impl Filter {
    /// Whether all of it fits.
    pub fn fits(&self, record: &Record) -> bool {
        let incident = &record.incident;
        self.from_ns.is_none_or(|from| incident.end_ns.is_none_or(|end| end >= from))
            && self.to_ns.is_none_or(|to| incident.start_ns <= to)
            && self.kind.is_none_or(|kind| record.kind().unwrap_or(incident.kind) == kind)
            && self.severity.is_none_or(|severity| incident.severity == severity)
            && self.job.as_ref().is_none_or(|job| record.role(job).is_some())
            && self.node.as_ref().is_none_or(|node| record.touches(node))
            && self.open.is_none_or(|open| record.is_open() == open)
    }
}

/// A record with the version of its form.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    v: u8,
    #[serde(flatten)]
    what: T,
}

struct Entry {
    record: Arc<Record>,
    written_ns: i64,
    bytes: usize,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Entry>,
    /// The last incident of a kind at a place.
    last: HashMap<String, String>,
    bytes: usize,
    silences: BTreeMap<String, Silence>,
    /// Told once, not each second.
    full: bool,
    failing: bool,
}

/// See the module.
pub struct Book {
    tree: sled::Tree,
    silences: sled::Tree,
    told: sled::Tree,
    keep: Duration,
    /// What age is measured by, Unix ms.
    age: Clock,
    inner: Mutex<Inner>,
    /// What changed lately.
    pub changes: Changes,
}

fn disk(e: impl std::fmt::Display) -> BookError {
    BookError::Disk(e.to_string())
}

/// What is readable of a tree; damage is told and left out.
fn read<T: serde::de::DeserializeOwned>(tree: &sled::Tree) -> Result<Vec<(String, usize, T)>, BookError> {
    let mut found = Vec::new();
    for item in tree {
        let (key, value) = item.map_err(disk)?;
        let id = String::from_utf8_lossy(&key).into_owned();
        match serde_json::from_slice::<Stored<T>>(&value) {
            Ok(Stored { v: VERSION, what }) => found.push((id, value.len(), what)),
            Ok(Stored { v, .. }) => tracing::warn!(id, version = v, "an incident of a newer version is left out"),
            Err(error) => tracing::warn!(id, %error, "a damaged incident is left out"),
        }
    }
    Ok(found)
}

fn encode<T: Serialize>(what: T) -> Result<Vec<u8>, BookError> {
    serde_json::to_vec(&Stored { v: VERSION, what }).map_err(disk)
}

impl Inner {
    fn place(incident: &Incident) -> String {
        format!("{}\0{}", kind_text(incident.kind), root_text(&incident.root))
    }

    fn remember(&mut self, record: Record, written_ns: i64, bytes: usize) -> Arc<Record> {
        let (id, place) = (record.incident.id.clone(), Self::place(&record.incident));
        let newer = |other: &String| {
            let of = |entry: &Entry| (entry.record.recurrences, entry.record.incident.start_ns);
            self.entries.get(other).is_some_and(|e| of(e) > (record.recurrences, record.incident.start_ns))
        };
        if !self.last.get(&place).is_some_and(newer) {
            self.last.insert(place, id.clone());
        }
        let record = Arc::new(record);
        let entry = Entry { record: record.clone(), written_ns, bytes };
        self.bytes += bytes;
        self.bytes -= self.entries.insert(id, entry).map_or(0, |old| old.bytes);
        record
    }

    fn forget(&mut self, id: &str) {
        if let Some(entry) = self.entries.remove(id) {
            self.bytes -= entry.bytes;
            self.last.retain(|_, last| last != id);
        }
    }

    /// The oldest that is over.
    fn oldest(&self) -> Option<String> {
        let over = self.entries.iter().filter_map(|(id, e)| Some((e.record.incident.end_ns?, id)));
        over.min().map(|(_, id)| id.clone())
    }

    fn silence_of(&self, record: &Record, now_ns: i64) -> Option<&Silence> {
        let in_force = self.silences.values().filter(|s| s.until_ns > now_ns && s.of.fits(record));
        in_force.max_by_key(|s| s.until_ns)
    }
}

impl Book {
    /// What was kept; incidents that ended before `keep` are forgotten in time (zero: never).
    ///
    /// # Errors
    /// [`BookError::Disk`].
    pub fn open(store: &Store, keep: Duration) -> Result<Self, BookError> {
        let table = |name| store.table(name).map_err(disk);
        let (tree, silences, told) = (table(TABLE)?, table(SILENCES)?, table(TOLD)?);
        let mut inner = Inner::default();
        for (_, bytes, record) in read::<Record>(&tree)? {
            inner.remember(record, 0, bytes);
        }
        inner.silences = read::<Silence>(&silences)?.into_iter().map(|(id, _, s)| (id, s)).collect();
        let (age, inner) = (store.retention_clock(), Mutex::new(inner));
        Ok(Self { tree, silences, told, keep, age, inner, changes: Changes::default() })
    }

    /// Those that were open when the collector stopped.
    pub fn open_ones(&self) -> Vec<Incident> {
        let inner = self.inner.lock();
        let open = inner.entries.values().filter(|e| e.record.is_open());
        open.map(|e| e.record.incident.clone()).collect()
    }

    /// Ends what was open before a restart and cannot be watched on, at the time when it was seen last.
    pub fn give_up(&self, now_ns: i64, ids: &[&str]) {
        let end = |id: &&str| {
            let record = self.get(id).filter(|record| record.is_open())?;
            let end_ns = Some(record.seen_ns.max(record.incident.start_ns));
            Some(Incident { end_ns, ..record.incident.clone() })
        };
        self.update(now_ns, &ids.iter().filter_map(end).collect::<Vec<_>>());
    }

    /// Every incident that is open, and those that ended since the last time (`end_ns` set). What is no longer named
    /// stays as it is. What changes in substance is on the disk when this returns; numbers that move follow.
    pub fn update(&self, now_ns: i64, seen: &[Incident]) {
        let mut inner = self.inner.lock();
        let mut urgent = false;
        for incident in seen {
            urgent |= self.take(&mut inner, now_ns, incident);
        }
        drop(inner);
        if urgent && let Err(error) = self.tree.flush() {
            self.failed(&disk(error));
        }
    }

    /// True if it changed in substance.
    fn take(&self, inner: &mut Inner, now_ns: i64, incident: &Incident) -> bool {
        let known = inner.entries.get(&incident.id);
        let is_new = known.is_none();
        let (record, states, due) = match known {
            Some(entry) => {
                let mut record = (*entry.record).clone();
                let states = record.update(incident.clone(), now_ns);
                // What is over and said again is no news.
                let due = now_ns - entry.written_ns >= NUMBERS_NS && record.is_open();
                (record, states, due)
            }
            None => {
                let Some(record) = self.begin(inner, now_ns, incident) else { return false };
                let states = record.history.iter().map(|m| m.state).collect();
                (record, states, true)
            }
        };
        if states.is_empty() && !due {
            let entry = inner.entries.get_mut(&incident.id);
            entry.into_iter().for_each(|e| e.record = Arc::new(record.clone()));
            return false;
        }
        if is_new {
            tracing::info!(id = incident.id, what = record.words(), "incident opened");
        } else if states.contains(&State::Ended) {
            tracing::info!(id = incident.id, what = record.words(), "incident ended");
        }
        self.try_put(inner, record, now_ns, &states);
        !states.is_empty()
    }

    /// Writes a record; what fails is told once.
    fn try_put(&self, inner: &mut Inner, record: Record, now_ns: i64, states: &[State]) {
        if let Err(error) = self.put(inner, record, now_ns, states) {
            inner.failing = inner.failing || {
                tracing::warn!(%error, "an incident is not kept");
                true
            };
        }
    }

    /// One that is new: it may recur, and there must be room for it.
    fn begin(&self, inner: &mut Inner, now_ns: i64, incident: &Incident) -> Option<Record> {
        if !self.make_room(inner) {
            return None;
        }
        let mut record = Record::new(incident.clone(), now_ns);
        let place = Inner::place(&record.incident);
        // One that became another kind, or proved to be elsewhere, is nothing that recurs here.
        let before = inner.last.get(&place).and_then(|id| inner.entries.get(id));
        let before = before.filter(|entry| Inner::place(&entry.record.incident) == place);
        let closely = |e: &&Entry| {
            e.record.incident.end_ns.is_some_and(|end| record.incident.start_ns.max(now_ns) - end < FLAP_NS)
        };
        if let Some(before) = before.filter(closely) {
            let before = &before.record;
            record.recurrence_of = Some(before.thread().to_owned());
            record.recurrences = before.recurrences + 1;
            record.acknowledged.clone_from(&before.acknowledged);
            record.reclassified.clone_from(&before.reclassified);
        }
        Some(record)
    }

    /// Whether there is room for one more; the oldest that are over leave for it.
    fn make_room(&self, inner: &mut Inner) -> bool {
        while inner.entries.len() >= MOST || inner.bytes >= MOST_BYTES {
            let Some(oldest) = inner.oldest() else {
                if !std::mem::replace(&mut inner.full, true) {
                    tracing::warn!(most = MOST, "so many incidents are open that further ones are not kept");
                }
                return false;
            };
            inner.forget(&oldest);
            self.remove(&oldest);
        }
        inner.full = false;
        true
    }

    /// Writes a record and then knows it.
    fn put(&self, inner: &mut Inner, record: Record, now_ns: i64, states: &[State]) -> Result<Arc<Record>, BookError> {
        let value = encode(&record);
        let bytes = value.as_ref().map_or(0, Vec::len);
        let kept = value.and_then(|value| self.tree.insert(record.incident.id.as_bytes(), value).map_err(disk));
        // Known even if the disk is full: people are told of what happens now.
        let record = inner.remember(record, now_ns, bytes);
        if !states.is_empty() {
            self.changes.push(states.to_vec(), record.clone());
        }
        kept.map(|_| {
            inner.failing = false;
            record
        })
    }

    fn remove(&self, id: &str) {
        let told = self.told.scan_prefix(told_key(id, "")).keys().filter_map(Result::ok);
        let gone = told.map(|key| self.told.remove(key)).chain([self.tree.remove(id)]);
        if let Some(error) = gone.filter_map(Result::err).next() {
            self.failed(&disk(error));
        }
    }

    fn failed(&self, error: &BookError) {
        tracing::warn!(%error, "incidents are not kept");
    }

    /// One incident.
    pub fn get(&self, id: &str) -> Option<Arc<Record>> {
        self.inner.lock().entries.get(id).map(|e| e.record.clone())
    }

    /// Those that fit, the one that began last first.
    pub fn list(&self, filter: &Filter) -> Vec<Arc<Record>> {
        let inner = self.inner.lock();
        let all = inner.entries.values().map(|e| &e.record);
        let mut some: Vec<Arc<Record>> = all.filter(|r| filter.fits(r)).cloned().collect();
        drop(inner);
        let key = |r: &Record| (std::cmp::Reverse(r.incident.start_ns), r.incident.id.clone());
        some.sort_by_cached_key(|r| key(r));
        some
    }

    /// What people are told of: all that is open, or over since `since_ns`.
    pub fn threads(&self, now_ns: i64, since_ns: i64) -> Vec<Thread> {
        let inner = self.inner.lock();
        let quiet = |record: &Record| inner.silence_of(record, now_ns).is_some();
        Thread::all(inner.entries.values().map(|e| &e.record), now_ns, since_ns, quiet)
    }

    /// The silence that fits an incident for the longest time.
    pub fn silence_of(&self, record: &Record, now_ns: i64) -> Option<Silence> {
        self.inner.lock().silence_of(record, now_ns).cloned()
    }

    /// Forgets what ended long ago, and silences that are over; returns how many incidents.
    ///
    /// # Errors
    /// [`BookError::Disk`].
    pub fn expire(&self) -> Result<usize, BookError> {
        let now_ns = (self.age)().saturating_mul(1_000_000);
        let mut inner = self.inner.lock();
        self.drop_silences(&mut inner, now_ns)?;
        if self.keep.is_zero() {
            return Ok(0);
        }
        let keep = i64::try_from(self.keep.as_nanos()).unwrap_or(i64::MAX);
        let before = now_ns.saturating_sub(keep);
        let old = |e: &Entry| e.record.incident.end_ns.is_some_and(|end| end < before);
        let gone: Vec<String> = inner.entries.iter().filter(|(_, e)| old(e)).map(|(id, _)| id.clone()).collect();
        for id in &gone {
            inner.forget(id);
            self.remove(id);
        }
        Ok(gone.len())
    }

    /// What a receiver was told last of a thread.
    pub(super) fn told(&self, thread: &str, receiver: &str) -> Option<String> {
        let value = self.told.get(told_key(thread, receiver)).ok()??;
        String::from_utf8(value.to_vec()).ok()
    }

    /// It is told now.
    pub(super) fn tell(&self, thread: &str, receiver: &str, what: &str) {
        let kept = self.told.insert(told_key(thread, receiver), what).and_then(|_| self.told.flush());
        if let Err(error) = kept {
            self.failed(&disk(error));
        }
    }
}

fn told_key(thread: &str, receiver: &str) -> Vec<u8> {
    [thread.as_bytes(), &[0], receiver.as_bytes()].concat()
}

#[cfg(test)]
mod late_tests;
#[cfg(test)]
pub(crate) mod tests;
