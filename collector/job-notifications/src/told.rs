//! Which runs a receiver was told, in the metadata database.

use std::collections::HashMap;

use fabriclens_jobs::JobKey;
use fabriclens_store::{MetadataTable, Store};
use serde::{Deserialize, Serialize};

/// Table of all receivers, in the database next to the samples.
const TABLE: &str = "job_notifications";
/// Runs that ended longer ago are not told, ns.
pub(crate) const NEWS_NS: i64 = 86_400 * 1_000_000_000;
/// Entries are kept longer than runs are told, so that a clock that steps back repeats nothing, ns.
const KEEP_NS: i64 = 2 * NEWS_NS;

/// What became of a message.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The receiver took it.
    Sent,
    /// The receiver will never take it.
    Refused,
    /// The network cost it nothing noticeable, and the receiver wants only those that lost time.
    Omitted,
    /// It failed too often.
    Abandoned,
}

impl Outcome {
    /// Value of the label `outcome`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::Omitted => "omitted",
            Self::Abandoned => "abandoned",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    end_ns: i64,
    outcome: Outcome,
}

/// The runs that one receiver was told.
pub(crate) struct Told {
    table: MetadataTable,
    receiver: String,
    /// Runs that ended before the receiver was first configured are not told, Unix ns.
    pub(crate) since_ns: i64,
    /// Ends by key of the entry.
    known: HashMap<String, i64>,
    is_failing: bool,
}

impl Told {
    /// Reads what this receiver was told, and when it was first configured.
    pub(crate) fn open(store: &Store, receiver: &str, now_ns: i64) -> Self {
        let table = store.table(TABLE);
        let mut told =
            Self { table, receiver: receiver.to_owned(), since_ns: now_ns, known: HashMap::new(), is_failing: false };
        let prefix = format!("{receiver}\0");
        let (mut known, mut old) = (HashMap::new(), Vec::new());
        let read = told.table.each(|key, value| {
            let (Ok(key), Ok(entry)) = (str::from_utf8(key), serde_json::from_slice::<Entry>(value)) else { return };
            if entry.end_ns < now_ns.saturating_sub(KEEP_NS) {
                old.push(key.to_owned());
            } else if key.starts_with(&prefix) {
                known.insert(key.to_owned(), entry.end_ns);
            }
        });
        told.check(read.map_err(|e| e.to_string()));
        told.known = known;
        old.iter().for_each(|key| told.remove(key));
        match told.table.get(receiver).ok().flatten().and_then(|text| str::from_utf8(&text).ok()?.parse().ok()) {
            Some(since_ns) => told.since_ns = since_ns,
            None => told.put(receiver, now_ns.to_string().into_bytes()),
        }
        told
    }

    /// Whether the run was told, or will never be.
    pub(crate) fn has(&self, key: &JobKey, run: u32) -> bool {
        self.known.contains_key(&self.entry(key, run))
    }

    /// Records what became of the message about a run.
    pub(crate) fn record(&mut self, key: &JobKey, run: u32, end_ns: i64, outcome: Outcome) {
        let name = self.entry(key, run);
        self.put(&name, serde_json::to_vec(&Entry { end_ns, outcome }).unwrap_or_default());
        self.known.insert(name, end_ns);
    }

    /// Forgets runs that ended too long ago to be told.
    pub(crate) fn forget(&mut self, now_ns: i64) {
        let before = now_ns.saturating_sub(KEEP_NS);
        let old: Vec<String> =
            self.known.iter().filter(|(_, end)| **end < before).map(|(key, _)| key.clone()).collect();
        for key in old {
            self.known.remove(&key);
            self.remove(&key);
        }
    }

    fn entry(&self, key: &JobKey, run: u32) -> String {
        // Neither names of receivers nor those of jobs contain control characters.
        format!("{}\0{}\0{}\0{run}", self.receiver, key.cluster, key.id)
    }

    fn put(&mut self, key: &str, value: Vec<u8>) {
        let done = self.table.put(key, value).map_err(|e| e.to_string());
        self.check(done);
    }

    fn remove(&mut self, key: &str) {
        let done = self.table.remove(key).map_err(|e| e.to_string());
        self.check(done);
    }

    fn check(&mut self, done: Result<(), String>) {
        match done {
            Ok(()) => self.is_failing = false,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!(
                    receiver = self.receiver,
                    error,
                    "cannot store which jobs were told; a restart repeats messages"
                );
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_store::Options;

    fn key(id: &str) -> JobKey {
        JobKey { cluster: String::new(), id: id.into() }
    }

    #[test]
    fn a_restart_keeps_what_was_told_and_forgets_old_runs() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options { background: false, ..Options::default() }).unwrap();
        let mut told = Told::open(&store, "chat", 100);
        assert_eq!((told.since_ns, told.has(&key("1"), 1)), (100, false));
        told.record(&key("1"), 1, 50, Outcome::Sent);
        told.record(&key("2"), 1, KEEP_NS, Outcome::Omitted);
        let again = Told::open(&store, "chat", 200);
        assert_eq!((again.since_ns, again.has(&key("1"), 1), again.has(&key("1"), 2)), (100, true, false));
        let other = Told::open(&store, "cha", 300);
        assert!(!other.has(&key("1"), 1) && other.since_ns == 300, "a receiver whose name begins alike");
        told.forget(KEEP_NS + 51);
        assert!(!told.has(&key("1"), 1) && told.has(&key("2"), 1));
        let again = Told::open(&store, "chat", 400);
        assert!(!again.has(&key("1"), 1) && again.has(&key("2"), 1), "the table forgot it too");
    }
}
