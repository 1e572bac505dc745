//! Detects that the metadata database lost its newest writes. `sled` treats everything after a damaged place of its
//! log as an unfinished write and silently drops it. So a counter is stored in the database and, once durable there,
//! in the file `meta.witness`: a database behind the file has lost writes.
//!
//! ```text
//! meta.witness   u64 number  u32 crc
//! ```

use crate::error::StoreError;
use crate::wal::replay::Damage;
use parking_lot::Mutex;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval between increments; writes after the last one may be lost undetected.
const INTERVAL: Duration = Duration::from_secs(10);
/// Table and key of the counter.
pub const TABLE: &str = "witness";
const KEY: &str = "number";
const BYTES: usize = 12;

/// The counter in database and file.
pub struct RollbackGuard {
    tree: sled::Tree,
    file: File,
    last: Mutex<(u64, Instant)>,
}

impl RollbackGuard {
    /// Compares both counters, reports a loss, and starts counting.
    pub fn open(db: &sled::Db, root: &Path, damage: &mut Vec<Damage>) -> Result<Self, StoreError> {
        let path = root.join("meta.witness");
        let io = |e: std::io::Error| StoreError::io("open", &path, &e);
        let tree = db.open_tree(TABLE).map_err(sled_failed)?;
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        let inside = tree.get(KEY).map_err(sled_failed)?;
        let inside = inside.and_then(|v| v.as_ref().try_into().ok()).map_or(0, u64::from_le_bytes);
        let outside = read(&file).unwrap_or(0);
        if inside < outside {
            let message = "the metadata database (jobs, incidents, topology) lost its newest writes; samples are not affected. \
                           Restore meta from a snapshot if there is one";
            tracing::error!(path = %root.join("meta").display(), message, "metadata database lost writes");
            damage.push(Damage { path: root.join("meta"), offset: 0, bytes: 0, message: message.to_owned() });
        }
        let rollback_guard = Self { tree, file, last: Mutex::new((inside.max(outside), Instant::now())) };
        rollback_guard.count()?;
        Ok(rollback_guard)
    }

    /// Increments the counter if the interval has passed.
    pub fn tick(&self) -> Result<(), StoreError> {
        if self.last.lock().1.elapsed() < INTERVAL { Ok(()) } else { self.count() }
    }

    fn count(&self) -> Result<(), StoreError> {
        let mut last = self.last.lock();
        let number = last.0 + 1;
        self.tree.insert(KEY, &number.to_le_bytes()).map_err(sled_failed)?;
        self.tree.flush().map_err(sled_failed)?;
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        // Not synced: a file that is behind after a power failure detects nothing, which is harmless.
        self.file.write_all_at(&bytes, 0).map_err(|e| StoreError::Metadata(format!("meta.witness: {e}")))?;
        *last = (number, Instant::now());
        Ok(())
    }
}

fn read(file: &File) -> Option<u64> {
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (number, crc) = bytes.split_at(8);
    (crc32fast::hash(number).to_le_bytes() == crc).then(|| u64::from_le_bytes(number.try_into().unwrap_or_default()))
}

fn sled_failed(e: sled::Error) -> StoreError {
    StoreError::Metadata(e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_behind_the_file_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let (mut damage, db) = (Vec::new(), crate::metadata::open(&dir.path().join(name)).unwrap());
            RollbackGuard::open(&db, dir.path(), &mut damage).unwrap();
            damage.len()
        };
        assert_eq!((open("one"), open("one"), open("one")), (0, 0, 0));
        assert_eq!(open("two"), 1, "an empty database");
        assert_eq!((open("two"), open("one")), (0, 1));
        std::fs::write(dir.path().join("meta.witness"), [1; BYTES]).unwrap();
        assert_eq!(open("one"), 0, "a corrupt file detects nothing");
    }
}
