//! Table of metric metadata.

use super::{MetadataBatch, MetadataDb, MetadataTable};
use crate::codec::varint::{Cursor, put};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Name of the table.
pub const TABLE: &str = "metadata";
/// Bytes of all entries that senders may fill: a few ten thousand metrics.
pub const METADATA_BYTES: usize = 8 << 20;

/// Type, unit and help of a metric.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// `counter`, `gauge`, `histogram`, `summary` or `unknown`.
    pub kind: String,
    /// Unit as in Prometheus metadata; may be empty.
    pub unit: String,
    /// Description; may be empty.
    pub help: String,
}

impl Metadata {
    /// Bytes of the entry of a metric.
    pub fn bytes(&self, name: &str) -> usize {
        name.len() + self.kind.len() + self.unit.len() + self.help.len()
    }
}

/// Table of [`Metadata`] by metric name, cached in memory.
pub struct Metrics {
    table: MetadataTable,
    known: RwLock<Arc<BTreeMap<String, Metadata>>>,
    /// Bytes of all entries.
    bytes: AtomicUsize,
    /// Held while the table is written, so that many agents that say the same at once cost one write.
    writing: Mutex<()>,
}

impl Metrics {
    /// Loads the table. An entry that does not decode is dropped, because agents send it again; entries beyond
    /// [`METADATA_BYTES`], which earlier releases did not bound, are removed.
    pub fn open(db: &Arc<MetadataDb>) -> Result<Self, StoreError> {
        let table = db.table(TABLE);
        let (mut known, mut bytes, mut batch) = (BTreeMap::new(), 0, MetadataBatch::default());
        table.each(|name, value| {
            let Ok(text) = String::from_utf8(name.to_vec()) else { return };
            let Some(m) = decode(value) else { return };
            let all = bytes + m.bytes(&text);
            if all <= METADATA_BYTES {
                bytes = all;
                known.insert(text, m);
            } else {
                batch.remove(&table, name);
            }
        })?;
        table.commit(&batch)?;
        let bytes = AtomicUsize::new(bytes);
        Ok(Self { table, known: RwLock::new(Arc::new(known)), bytes, writing: Mutex::default() })
    }

    /// All metrics; cheap.
    pub fn all(&self) -> Arc<BTreeMap<String, Metadata>> {
        self.known.read().clone()
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Durably stores new and changed entries; writes nothing if nothing changed.
    pub fn put<'a>(&self, entries: impl IntoIterator<Item = (&'a str, Metadata)>) -> Result<(), StoreError> {
        let known = self.all();
        let mut changed: Vec<_> = entries.into_iter().filter(|(name, m)| known.get(*name) != Some(m)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let _writing = self.writing.lock();
        let known = self.all();
        changed.retain(|(name, m)| known.get(*name) != Some(m));
        let mut batch = MetadataBatch::default();
        changed.iter().for_each(|(name, m)| batch.put(&self.table, name, encode(m)));
        self.table.commit(&batch)?;
        let mut known = self.known.write();
        let known = Arc::make_mut(&mut known);
        for (name, m) in changed {
            self.bytes.fetch_add(m.bytes(name), Ordering::Relaxed);
            if let Some(before) = known.insert(name.to_owned(), m) {
                self.bytes.fetch_sub(before.bytes(name), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Durably removes the entry of a metric, or all entries; returns how many there were.
    pub fn remove(&self, metric: Option<&str>) -> Result<usize, StoreError> {
        let _writing = self.writing.lock();
        let known = self.all();
        let gone: Vec<&String> = known.keys().filter(|name| metric.is_none_or(|metric| metric == *name)).collect();
        let mut batch = MetadataBatch::default();
        gone.iter().for_each(|name| batch.remove(&self.table, name));
        self.table.commit(&batch)?;
        let mut kept = self.known.write();
        let kept = Arc::make_mut(&mut kept);
        for name in &gone {
            if let Some(before) = kept.remove(*name) {
                self.bytes.fetch_sub(before.bytes(name), Ordering::Relaxed);
            }
        }
        Ok(gone.len())
    }
}

fn encode(m: &Metadata) -> Vec<u8> {
    let mut out = Vec::new();
    for text in [&m.kind, &m.unit, &m.help] {
        put(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn decode(bytes: &[u8]) -> Option<Metadata> {
    let mut c = Cursor::new(bytes);
    Some(Metadata { kind: c.text().ok()?.into(), unit: c.text().ok()?.into(), help: c.text().ok()?.into() })
}
