//! The database with its copy. Each change is durable in the database when its call returns. A background thread repeats
//! the changes of the last second in the copy, from which a damaged database is restored.

use super::file::{Change, DatabaseFile, FileError};
use super::{COPY, FILE};
use crate::error::StoreError;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a copy that cannot be written is left alone.
const RETRY: Duration = Duration::from_secs(60);

/// Table and key of an entry.
pub type Key = (Arc<str>, Vec<u8>);

/// The database; tables are handles of it.
pub struct MetadataDb {
    main: Mutex<Main>,
    /// Locked before `main`.
    copy: Mutex<CopyState>,
    root: PathBuf,
}

struct Main {
    file: DatabaseFile,
    /// Entries that may differ from the copy; `None` while there is no copy to bring up to date.
    changed: Option<BTreeSet<Key>>,
}

/// State of the copy.
enum CopyState {
    /// It had the same content when it was last written.
    Follows(DatabaseFile),
    /// It must be written anew.
    Missing,
    /// It could not be written.
    Failed { since: Instant },
}

impl MetadataDb {
    /// A database, and its copy if that has the same content.
    pub fn new(root: &Path, file: DatabaseFile, copy: Option<DatabaseFile>) -> Self {
        let main = Mutex::new(Main { file, changed: copy.is_some().then(BTreeSet::new) });
        Self { main, copy: Mutex::new(copy.map_or(CopyState::Missing, CopyState::Follows)), root: root.into() }
    }

    /// Names of all tables that were written.
    pub fn tables(&self) -> Result<Vec<String>, StoreError> {
        self.with(DatabaseFile::tables)
    }

    /// Runs an operation that changes nothing.
    pub fn with<T>(&self, read: impl FnOnce(&mut DatabaseFile) -> Result<T, FileError>) -> Result<T, StoreError> {
        read(&mut self.main.lock().file).map_err(|e| self.failed(FILE, &e))
    }

    /// Makes changes durable, all or none. After an error they may be there or not.
    pub fn write(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let mut main = self.main.lock();
        if let Some(changed) = &mut main.changed {
            changed.extend(changes.iter().map(|(table, key, _)| (Arc::from(*table), key.to_vec())));
        }
        main.file.apply(changes.iter().copied()).map_err(|e| self.failed(FILE, &e))
    }

    /// Brings the copy up to date; writes nothing if it is. The database does not depend on it: a copy that cannot be
    /// written is logged, and tried again later.
    pub fn update_copy(&self) {
        let mut copy = self.copy.lock();
        let before = std::mem::replace(&mut *copy, CopyState::Missing);
        let failed_before = match before {
            CopyState::Failed { since } if since.elapsed() < RETRY => {
                *copy = before;
                return;
            }
            CopyState::Failed { .. } => true,
            CopyState::Follows(_) | CopyState::Missing => false,
        };
        let updated = match before {
            CopyState::Follows(file) => self.follow(file),
            CopyState::Missing | CopyState::Failed { .. } => self.write_copy(),
        };
        *copy = match updated {
            Ok(file) => {
                if failed_before {
                    tracing::info!("the copy of the metadata database is written again");
                }
                CopyState::Follows(file)
            }
            Err(error) => {
                // Nothing is collected for a copy that is written anew.
                self.main.lock().changed = None;
                if !failed_before {
                    tracing::error!(
                        %error,
                        "cannot write the copy of the metadata database, from which damage would be mended; retrying"
                    );
                }
                CopyState::Failed { since: Instant::now() }
            }
        };
    }

    /// Writes the whole copy.
    fn write_copy(&self) -> Result<DatabaseFile, StoreError> {
        let path = self.root.join(COPY);
        let mut main = self.main.lock();
        let part = main.file.duplicate(&path).map_err(|e| self.failed(COPY, &e))?;
        main.changed = Some(BTreeSet::new());
        drop(main);
        part.finish().map_err(|e| self.failed(COPY, &e))
    }

    /// Repeats the latest changes in the copy.
    fn follow(&self, mut copy: DatabaseFile) -> Result<DatabaseFile, StoreError> {
        let mut main = self.main.lock();
        let keys = main.changed.take().unwrap_or_default();
        main.changed = Some(BTreeSet::new());
        if keys.is_empty() {
            return Ok(copy);
        }
        // Values are read back, so that the copy gets what was verified, and the last of several changes.
        let values = keys.iter().map(|(table, key)| main.file.get(table, key)).collect::<Result<Vec<_>, _>>();
        let read = values.and_then(|values| Ok((values, main.file.stamp()?)));
        drop(main);
        let (values, stamp) = read.map_err(|e| self.failed(FILE, &e))?;
        let changes = keys.iter().zip(&values).map(|((table, key), value)| (&**table, &**key, value.as_deref()));
        copy.follow(changes, stamp).map_err(|e| self.failed(COPY, &e))?;
        Ok(copy)
    }

    fn failed(&self, name: &str, e: &FileError) -> StoreError {
        StoreError::Metadata(format!("{}: {e}", self.root.join(name).display()))
    }
}
