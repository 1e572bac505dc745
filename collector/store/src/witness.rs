//! Whether the database lost its newest part. `sled` takes what is behind a damaged place of its log for a write that was
//! never finished, and drops it without a word. So a number is counted up in it and, when it is durable there, in a file
//! beside it (`meta.witness`): a database that is behind the file has lost something.
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

/// How often it is counted up: what came later may be lost without a word.
const PACE: Duration = Duration::from_secs(10);
/// Table and key of the number.
pub const TABLE: &str = "witness";
const KEY: &str = "number";
const BYTES: usize = 12;

/// See the module.
pub struct Witness {
    tree: sled::Tree,
    file: File,
    last: Mutex<(u64, Instant)>,
}

impl Witness {
    /// Compares the two, reports a loss, and begins to count.
    pub fn open(db: &sled::Db, root: &Path, damage: &mut Vec<Damage>) -> Result<Self, StoreError> {
        let path = root.join("meta.witness");
        let io = |e: std::io::Error| StoreError::io("open", &path, &e);
        let tree = db.open_tree(TABLE).map_err(sled_failed)?;
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        let inside = tree.get(KEY).map_err(sled_failed)?;
        let inside = inside.and_then(|v| v.as_ref().try_into().ok()).map_or(0, u64::from_le_bytes);
        let outside = read(&file).unwrap_or(0);
        if inside < outside {
            let message = "the database of jobs, incidents and topology lost its newest part; samples are not affected. \
                           Restore meta from a snapshot if there is one";
            tracing::error!(path = %root.join("meta").display(), message, "damaged database");
            damage.push(Damage { path: root.join("meta"), offset: 0, bytes: 0, message: message.to_owned() });
        }
        let witness = Self { tree, file, last: Mutex::new((inside.max(outside), Instant::now())) };
        witness.count()?;
        Ok(witness)
    }

    /// Counts up when it is time.
    pub fn tick(&self) -> Result<(), StoreError> {
        if self.last.lock().1.elapsed() < PACE { Ok(()) } else { self.count() }
    }

    fn count(&self) -> Result<(), StoreError> {
        let mut last = self.last.lock();
        let number = last.0 + 1;
        self.tree.insert(KEY, &number.to_le_bytes()).map_err(sled_failed)?;
        self.tree.flush().map_err(sled_failed)?;
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        // Not synced: a file that is behind after a crash of the machine says nothing, and that is no harm.
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
    fn a_database_that_is_behind_is_told_and_one_that_is_not_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let (mut damage, db) = (Vec::new(), crate::metadata::open(&dir.path().join(name)).unwrap());
            Witness::open(&db, dir.path(), &mut damage).unwrap();
            damage.len()
        };
        assert_eq!((open("one"), open("one"), open("one")), (0, 0, 0));
        assert_eq!(open("two"), 1, "as if all had been lost");
        assert_eq!((open("two"), open("one")), (0, 1));
        std::fs::write(dir.path().join("meta.witness"), [1; BYTES]).unwrap();
        assert_eq!(open("one"), 0, "a file that does not check says nothing");
    }
}
