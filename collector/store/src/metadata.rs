//! The metadata database (`sled`) for small, rarely changed data, and its table of metric metadata.

use crate::codec::varint::{Cursor, put};
use crate::error::{OpenError, StoreError};
use crate::rollup::RolledUp;
use crate::wal::replay::Damage;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a database that was just closed may stay locked.
const PATIENCE: Duration = Duration::from_secs(5);

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
pub struct Table {
    tree: sled::Tree,
    known: parking_lot::RwLock<Arc<BTreeMap<String, Metadata>>>,
}

impl Table {
    /// Loads the table; an entry that does not decode is dropped, because agents send it again.
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

    /// Durably stores new and changed entries; writes nothing if nothing changed.
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

/// The opened metadata database with the tables of the store.
pub struct MetadataDb {
    pub db: sled::Db,
    pub metadata: Table,
    pub rolled_up: RolledUp,
}

impl MetadataDb {
    /// Opens or creates the database at `meta`. Samples must not become unavailable because of it: a damaged database
    /// is moved aside, reported, and started empty.
    pub fn open(root: &Path, meta: &Path, damage: &mut Vec<Damage>) -> Result<Self, OpenError> {
        let message = match Self::attempt(meta) {
            Ok(Ok(sound)) => return Ok(sound),
            // Another process is writing to it: it is not damaged and must not be moved away.
            Ok(Err(e)) if is_held(&e) => return Err(Self::error(root, meta, e)),
            Ok(Err(sled::Error::Io(e))) if e.kind() != std::io::ErrorKind::Other => {
                return Err(OpenError::io("open", root, meta, e));
            }
            Ok(Err(e)) => e.to_string(),
            Err(panicked) => panicked,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let aside = root.join(format!("meta.damaged-{now}"));
        tracing::error!(
            error = message, moved_to = %aside.display(),
            "the metadata database (jobs, incidents, topology) is damaged and starts empty; samples are not affected. \
             Restore meta from a snapshot if there is one"
        );
        std::fs::rename(meta, &aside).map_err(|e| OpenError::io("move aside", root, meta, e))?;
        damage.push(Damage { path: aside, offset: 0, bytes: 0, message });
        match Self::attempt(meta) {
            Ok(opened) => opened.map_err(|e| Self::error(root, meta, e)),
            Err(e) => Err(OpenError::io("open", root, meta, std::io::Error::other(e))),
        }
    }

    /// Maps a database error to an [`OpenError`].
    pub fn error(root: &Path, meta: &Path, e: sled::Error) -> OpenError {
        match e {
            sled::Error::Io(e) => OpenError::io("open", root, meta, e),
            source => OpenError::Metadata { path: meta.into(), source },
        }
    }

    /// Opens and reads everything: `sled` reports damage by an error or a panic, sometimes only on read.
    fn attempt(meta: &Path) -> Result<sled::Result<Self>, String> {
        let read = || {
            let db = open(meta)?;
            let (metadata, rolled_up) = (Table::open(&db)?, RolledUp::open(&db)?);
            for name in db.tree_names() {
                for entry in &db.open_tree(&name)? {
                    entry?;
                }
            }
            Ok(Self { db, metadata, rolled_up })
        };
        catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
            let text =
                panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("the database code panicked").to_owned()
        })
    }
}

/// The directory is locked by this process, so another holder of this lock is a store that it has just dropped: the
/// database unlocks when its last write is done.
pub(crate) fn open(path: &Path) -> sled::Result<sled::Db> {
    let patience = Instant::now() + PATIENCE;
    loop {
        match sled::open(path) {
            Err(e) if is_held(&e) && Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// Whether the database is locked by another handle; `sled` has no error kind for it.
fn is_held(e: &sled::Error) -> bool {
    matches!(e, sled::Error::Io(e) if e.to_string().contains("acquire lock"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_database_is_not_moved_away() {
        let dir = tempfile::tempdir().unwrap();
        let meta = dir.path().join("meta");
        let held = sled::open(&meta).unwrap();
        let mut damage = Vec::new();
        let refused = MetadataDb::open(dir.path(), &meta, &mut damage).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refused.contains("lock") && damage.is_empty(), "{refused}");
        held.insert("k", "v").unwrap();
        drop(held);
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["meta"]);
        assert!(MetadataDb::open(dir.path(), &meta, &mut damage).unwrap().db.get("k").unwrap().is_some());
    }
}
