//! Store of all known incidents and operator actions, kept in the metadata database because it is the only copy. The live
//! evaluation updates it every second and the API adds actions; series, event streams and notifiers read it.

mod actions;
mod kernel_log;
mod late;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::IncidentKind;
use fabriclens_correlate::{Incident, Severity};
use fabriclens_store::{Clock, MetadataBatch, MetadataTable, Store};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::changes::Changes;
use super::record::{Record, State, kind_text, root_text};
use super::silence::Silence;
use super::view::{FLAP_NS, Thread};
pub use late::LateFinding;

/// Table of incidents, in the database next to the samples, so that a backup contains both.
const TABLE: &str = "incidents";
const SILENCES: &str = "incident_silences";
/// Table of the last notification of each receiver; see [`super::notify`].
const NOTIFIED: &str = "incidents_told";
/// Version of the stored format.
const VERSION: u8 = 1;
/// Most incidents; beyond it the oldest ended ones are deleted.
const MOST: usize = 10_000;
/// Most bytes of stored incidents.
const MOST_BYTES: usize = 128 << 20;
/// Interval at which changed numbers of an incident are written.
const NUMBERS_NS: i64 = 10 * 1_000_000_000;

/// An incident cannot be found or stored.
#[derive(Debug, thiserror::Error)]
pub enum IncidentStoreError {
    /// Unknown incident.
    #[error("there is no incident {0:?}; GET /api/v1/incidents lists the known ones")]
    Unknown(String),
    /// Unknown silence.
    #[error("there is no silence {0:?}; GET /api/v1/silences lists those in force")]
    UnknownSilence(String),
    /// A silence that matches nothing or everything, or has already ended.
    #[error("cannot add a silence: {0}")]
    Silence(String),
    /// An empty note, or one too many.
    #[error("cannot add the note: {0}")]
    Note(String),
    /// The disk failed.
    #[error("the incident store in the data directory cannot be used: {0}; check the disk and the permissions")]
    Disk(String),
}

/// Query of incidents; `None` matches any.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Ended after this time, or still open, Unix ns.
    pub from_ns: Option<i64>,
    /// Began before this time, Unix ns.
    pub to_ns: Option<i64>,
    /// Effective kind.
    pub kind: Option<IncidentKind>,
    /// Severity. Observations are left out unless it is theirs.
    pub severity: Option<Severity>,
    /// Job that is culprit or victim.
    pub job: Option<String>,
    /// Host or switch that is cause or victim.
    pub node: Option<String>,
    /// Open or ended.
    pub open: Option<bool>,
}

impl Filter {
    /// Whether all given fields match a record.
    pub fn fits(&self, record: &Record) -> bool {
        let incident = &record.incident;
        self.from_ns.is_none_or(|from| incident.end_ns.is_none_or(|end| end >= from))
            && self.to_ns.is_none_or(|to| incident.start_ns <= to)
            && self.kind.is_none_or(|kind| record.kind().unwrap_or(incident.kind) == kind)
            && self.severity.map_or(incident.severity != Severity::Info, |severity| incident.severity == severity)
            && self.job.as_ref().is_none_or(|job| record.role(job).is_some())
            && self.node.as_ref().is_none_or(|node| record.touches(node))
            && self.open.is_none_or(|open| record.is_open() == open)
    }
}

/// A stored record with the version of its format.
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
    /// Last incident by kind and location.
    last: HashMap<String, String>,
    bytes: usize,
    silences: BTreeMap<String, Silence>,
    /// Changes that are not durable yet.
    changes: MetadataBatch,
    /// Whether these problems were logged already.
    full: bool,
    failing: bool,
}

/// The store of incidents.
pub struct IncidentStore {
    table: MetadataTable,
    silences: MetadataTable,
    notified: MetadataTable,
    /// Held while changes are written, so that an older value never overwrites a newer one.
    writing: Mutex<()>,
    keep: Duration,
    /// Clock by which age is measured, Unix ms.
    age: Clock,
    inner: Mutex<Inner>,
    /// Recent changes.
    pub changes: Changes,
}

fn disk(e: impl std::fmt::Display) -> IncidentStoreError {
    IncidentStoreError::Disk(e.to_string())
}

/// Reads all valid entries of a table; damaged ones are logged and skipped.
fn read<T: serde::de::DeserializeOwned>(table: &MetadataTable) -> Result<Vec<(String, usize, T)>, IncidentStoreError> {
    let mut found = Vec::new();
    let read = table.each(|key, value| {
        let id = String::from_utf8_lossy(key).into_owned();
        match serde_json::from_slice::<Stored<T>>(value) {
            Ok(Stored { v: VERSION, what }) => found.push((id, value.len(), what)),
            Ok(Stored { v, .. }) => tracing::warn!(id, version = v, "incident in a newer format skipped"),
            Err(error) => tracing::warn!(id, %error, "damaged incident skipped"),
        }
    });
    read.map(|()| found).map_err(disk)
}

fn encode<T: Serialize>(what: T) -> Result<Vec<u8>, IncidentStoreError> {
    serde_json::to_vec(&Stored { v: VERSION, what }).map_err(disk)
}

impl Inner {
    fn location_key(incident: &Incident) -> String {
        format!("{}\0{}", kind_text(incident.kind), root_text(&incident.root))
    }

    fn remember(&mut self, record: Record, written_ns: i64, bytes: usize) -> Arc<Record> {
        let (id, place) = (record.incident.id.clone(), Self::location_key(&record.incident));
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

    /// ID of the oldest ended incident.
    fn oldest(&self) -> Option<String> {
        let over = self.entries.iter().filter_map(|(id, e)| Some((e.record.incident.end_ns?, id)));
        over.min().map(|(_, id)| id.clone())
    }

    fn silence_of(&self, record: &Record, now_ns: i64) -> Option<&Silence> {
        let in_force = self.silences.values().filter(|s| s.until_ns > now_ns && s.of.fits(record));
        in_force.max_by_key(|s| s.until_ns)
    }
}

impl IncidentStore {
    /// Opens the store; incidents that ended longer ago than `keep` are deleted over time (zero keeps all).
    ///
    /// # Errors
    /// [`IncidentStoreError::Disk`].
    pub fn open(store: &Store, keep: Duration) -> Result<Self, IncidentStoreError> {
        let (table, silences, notified) = (store.table(TABLE), store.table(SILENCES), store.table(NOTIFIED));
        let mut inner = Inner::default();
        for (_, bytes, record) in read::<Record>(&table)? {
            inner.remember(record, 0, bytes);
        }
        inner.silences = read::<Silence>(&silences)?.into_iter().map(|(id, _, s)| (id, s)).collect();
        let (age, inner) = (store.retention_clock(), Mutex::new(inner));
        let (writing, changes) = (Mutex::default(), Changes::default());
        Ok(Self { table, silences, notified, writing, keep, age, inner, changes })
    }

    /// Incidents that were open when the collector stopped.
    pub fn open_incidents(&self) -> Vec<Incident> {
        let inner = self.inner.lock();
        let open = inner.entries.values().filter(|e| e.record.is_open());
        open.map(|e| e.record.incident.clone()).collect()
    }

    /// Ends incidents from before a restart that cannot be continued, at the time of their last update.
    pub fn end_lost(&self, now_ns: i64, ids: &[&str]) {
        let end = |id: &&str| {
            let record = self.get(id).filter(|record| record.is_open())?;
            let end_ns = Some(record.seen_ns.max(record.incident.start_ns));
            Some(Incident { end_ns, ..record.incident.clone() })
        };
        self.update(now_ns, &ids.iter().filter_map(end).collect::<Vec<_>>());
    }

    /// Updates all open incidents, and those that ended since the previous call (`end_ns` set). Others stay unchanged.
    /// Changes in substance are on disk when this returns, unless the disk fails; they are written again then. Changed
    /// numbers follow later.
    pub fn update(&self, now_ns: i64, seen: &[Incident]) {
        let mut inner = self.inner.lock();
        for incident in seen {
            self.take(&mut inner, now_ns, incident);
        }
        drop(inner);
        self.try_commit();
    }

    /// Updates one incident.
    fn take(&self, inner: &mut Inner, now_ns: i64, incident: &Incident) {
        let known = inner.entries.get(&incident.id);
        let is_new = known.is_none();
        let (record, states, due) = match known {
            Some(entry) => {
                let mut record = (*entry.record).clone();
                let states = record.update(incident.clone(), now_ns);
                // Repeated updates of an ended incident are not written.
                let due = now_ns - entry.written_ns >= NUMBERS_NS && record.is_open();
                (record, states, due)
            }
            None => {
                let Some(record) = self.begin(inner, now_ns, incident) else { return };
                let states = record.history.iter().map(|m| m.state).collect();
                (record, states, true)
            }
        };
        if states.is_empty() && !due {
            let entry = inner.entries.get_mut(&incident.id);
            entry.into_iter().for_each(|e| e.record = Arc::new(record.clone()));
            return;
        }
        if is_new {
            tracing::info!(id = incident.id, what = record.words(), "incident opened");
        } else if states.contains(&State::Ended) {
            tracing::info!(id = incident.id, what = record.words(), "incident ended");
        }
        self.try_put(inner, record, now_ns, &states);
    }

    /// Keeps a record; failures are logged once.
    fn try_put(&self, inner: &mut Inner, record: Record, now_ns: i64, states: &[State]) {
        if let Err(error) = self.put(inner, record, now_ns, states) {
            self.failed(inner, &error);
        }
    }

    /// Creates the record of a new incident, as a recurrence if it is one; `None` if the store is full of open incidents.
    fn begin(&self, inner: &mut Inner, now_ns: i64, incident: &Incident) -> Option<Record> {
        if !self.make_room(inner) {
            return None;
        }
        let mut record = Record::new(incident.clone(), now_ns);
        let place = Inner::location_key(&record.incident);
        // An incident that changed kind or location is not a precursor of this one.
        let before = inner.last.get(&place).and_then(|id| inner.entries.get(id));
        let before = before.filter(|entry| Inner::location_key(&entry.record.incident) == place);
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

    /// Deletes the oldest ended incidents until one more fits; false if all are open.
    fn make_room(&self, inner: &mut Inner) -> bool {
        while inner.entries.len() >= MOST || inner.bytes >= MOST_BYTES {
            let Some(oldest) = inner.oldest() else {
                if !std::mem::replace(&mut inner.full, true) {
                    tracing::warn!(most = MOST, "too many open incidents; new ones are not stored");
                }
                return false;
            };
            inner.forget(&oldest);
            self.remove(inner, &oldest);
        }
        inner.full = false;
        true
    }

    /// Keeps a record in memory, and writes it with the next commit.
    fn put(
        &self,
        inner: &mut Inner,
        record: Record,
        now_ns: i64,
        states: &[State],
    ) -> Result<Arc<Record>, IncidentStoreError> {
        let value = encode(&record);
        let bytes = value.as_ref().map_or(0, Vec::len);
        let kept = value.map(|value| inner.changes.put(&self.table, &record.incident.id, value));
        // Kept in memory even if the disk is full, because people must be notified now.
        let record = inner.remember(record, now_ns, bytes);
        if !states.is_empty() {
            self.changes.push(states.to_vec(), record.clone());
        }
        kept.map(|()| record)
    }

    /// Deletes an incident and its notifications with the next commit.
    fn remove(&self, inner: &mut Inner, id: &str) {
        inner.changes.remove(&self.table, id);
        match self.notified.keys_with(notified_key(id, "")) {
            Ok(keys) => keys.into_iter().for_each(|key| inner.changes.remove(&self.notified, key)),
            Err(error) => tracing::warn!(%error, "cannot delete the notifications of an incident"),
        }
    }

    /// Makes all changes durable. The incidents are not locked meanwhile: a slow disk delays nobody who reads them.
    fn commit(&self) -> Result<(), IncidentStoreError> {
        let writing = self.writing.lock();
        let changes = std::mem::take(&mut self.inner.lock().changes);
        let done = self.table.commit(&changes).map_err(disk);
        let mut inner = self.inner.lock();
        if done.is_err() {
            inner.changes.add_earlier(changes);
        } else {
            inner.failing = false;
        }
        drop(writing);
        done
    }

    /// Like [`Self::commit`]; failures are logged once.
    fn try_commit(&self) {
        if let Err(error) = self.commit() {
            self.failed(&mut self.inner.lock(), &error);
        }
    }

    fn failed(&self, inner: &mut Inner, error: &IncidentStoreError) {
        if !std::mem::replace(&mut inner.failing, true) {
            tracing::warn!(%error, "cannot store incidents; the changes are written when the disk allows it");
        }
    }

    /// Returns an incident.
    pub fn get(&self, id: &str) -> Option<Arc<Record>> {
        self.inner.lock().entries.get(id).map(|e| e.record.clone())
    }

    /// Returns matching incidents, latest begin first.
    pub fn list(&self, filter: &Filter) -> Vec<Arc<Record>> {
        let inner = self.inner.lock();
        let all = inner.entries.values().map(|e| &e.record);
        let mut some: Vec<Arc<Record>> = all.filter(|r| filter.fits(r)).cloned().collect();
        drop(inner);
        let key = |r: &Record| (std::cmp::Reverse(r.incident.start_ns), r.incident.id.clone());
        some.sort_by_cached_key(|r| key(r));
        some
    }

    /// Returns the incidents and observations that ended since an instant (Unix ns), in the order in which they ended.
    pub fn ended_since(&self, from_ns: i64) -> Vec<Incident> {
        let inner = self.inner.lock();
        let ended = |e: &&Entry| e.record.incident.end_ns.is_some_and(|end_ns| end_ns >= from_ns);
        let mut all: Vec<Incident> = inner.entries.values().filter(ended).map(|e| e.record.incident.clone()).collect();
        drop(inner);
        all.sort_by_key(|incident| incident.end_ns);
        all
    }

    /// Returns the threads that notifications are about: open ones, and those that ended since `since_ns`.
    pub fn threads(&self, now_ns: i64, since_ns: i64) -> Vec<Thread> {
        let inner = self.inner.lock();
        let quiet = |record: &Record| inner.silence_of(record, now_ns).is_some();
        Thread::all(inner.entries.values().map(|e| &e.record), now_ns, since_ns, quiet)
    }

    /// The silence in force that matches an incident and ends last.
    pub fn silence_of(&self, record: &Record, now_ns: i64) -> Option<Silence> {
        self.inner.lock().silence_of(record, now_ns).cloned()
    }

    /// Deletes old incidents and expired silences; returns the number of incidents.
    ///
    /// # Errors
    /// [`IncidentStoreError::Disk`].
    pub fn expire(&self) -> Result<usize, IncidentStoreError> {
        let now_ns = (self.age)().saturating_mul(1_000_000);
        let mut inner = self.inner.lock();
        self.drop_silences(&mut inner, now_ns);
        let keep = i64::try_from(self.keep.as_nanos()).unwrap_or(i64::MAX);
        let before = if self.keep.is_zero() { i64::MIN } else { now_ns.saturating_sub(keep) };
        let old = |e: &Entry| e.record.incident.end_ns.is_some_and(|end| end < before);
        let gone: Vec<String> = inner.entries.iter().filter(|(_, e)| old(e)).map(|(id, _)| id.clone()).collect();
        for id in &gone {
            inner.forget(id);
            self.remove(&mut inner, id);
        }
        drop(inner);
        self.commit().map(|()| gone.len())
    }

    /// The last notification of a receiver about a thread.
    pub(super) fn last_notification(&self, thread: &str, receiver: &str) -> Option<String> {
        let value = self.notified.get(notified_key(thread, receiver)).ok()??;
        String::from_utf8(value).ok()
    }

    /// Records a notification.
    pub(super) fn record_notification(&self, thread: &str, receiver: &str, what: &str) {
        self.inner.lock().changes.put(&self.notified, notified_key(thread, receiver), what);
        self.try_commit();
    }
}

fn notified_key(thread: &str, receiver: &str) -> Vec<u8> {
    [thread.as_bytes(), &[0], receiver.as_bytes()].concat()
}

#[cfg(test)]
mod late_tests;
#[cfg(test)]
pub(crate) mod tests;
