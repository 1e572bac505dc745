//! Type, unit and help of metrics, in `sled`: small, precious, changed rarely.

use crate::codec::varint::{Cursor, put};
use crate::error::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a metric is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// `counter`, `gauge`, `histogram`, `summary` or `unknown`.
    pub kind: String,
    /// Unit as written in Prometheus' metadata; may be empty.
    pub unit: String,
    /// One sentence; may be empty.
    pub help: String,
}

/// Table of [`Metadata`] by metric name, in memory and in `sled`.
pub struct Table {
    tree: sled::Tree,
    known: parking_lot::RwLock<Arc<BTreeMap<String, Metadata>>>,
}

impl Table {
    /// Loads what is there; an entry that does not decode is dropped, agents will send it again.
    pub fn open(db: &sled::Db) -> Result<Self, sled::Error> {
        let tree = db.open_tree("metadata")?;
        let mut known = BTreeMap::new();
        for entry in &tree {
            let (name, value) = entry?;
            if let (Ok(name), Some(m)) = (String::from_utf8(name.to_vec()), decode(&value)) {
                known.insert(name, m);
            }
        }
        Ok(Self { tree, known: parking_lot::RwLock::new(Arc::new(known)) })
    }

    /// All metrics; cheap.
    pub fn all(&self) -> Arc<BTreeMap<String, Metadata>> {
        self.known.read().clone()
    }

    /// Stores what is new or different, durably; nothing is written when nothing changed.
    pub fn put<'a>(&self, entries: impl IntoIterator<Item = (&'a str, Metadata)>) -> Result<(), StoreError> {
        let known = self.all();
        let changed: Vec<_> = entries.into_iter().filter(|(name, m)| known.get(*name) != Some(m)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let fail = |e: sled::Error| StoreError::Metadata(e.to_string());
        for (name, m) in &changed {
            self.tree.insert(name.as_bytes(), encode(m)).map_err(fail)?;
        }
        self.tree.flush().map_err(fail)?;
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
