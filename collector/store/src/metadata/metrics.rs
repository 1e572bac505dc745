//! Table of metric metadata.

use super::{MetadataBatch, MetadataDb, MetadataTable};
use crate::codec::varint::{Cursor, put};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the table.
pub const TABLE: &str = "metadata";

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

/// Table of [`Metadata`] by metric name, cached in memory.
pub struct Metrics {
    table: MetadataTable,
    known: RwLock<Arc<BTreeMap<String, Metadata>>>,
    /// Held while the table is written, so that many agents that say the same at once cost one write.
    writing: Mutex<()>,
}

impl Metrics {
    /// Loads the table; an entry that does not decode is dropped, because agents send it again.
    pub fn open(db: &Arc<MetadataDb>) -> Result<Self, StoreError> {
        let table = db.table(TABLE);
        let mut known = BTreeMap::new();
        table.each(|name, value| {
            if let (Ok(name), Some(m)) = (String::from_utf8(name.to_vec()), decode(value)) {
                known.insert(name, m);
            }
        })?;
        Ok(Self { table, known: RwLock::new(Arc::new(known)), writing: Mutex::default() })
    }

    /// All metrics; cheap.
    pub fn all(&self) -> Arc<BTreeMap<String, Metadata>> {
        self.known.read().clone()
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
        Arc::make_mut(&mut known).extend(changed.into_iter().map(|(n, m)| (n.to_owned(), m)));
        Ok(())
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
