//! Opens the metadata database: verifies both files, restores a damaged one from its copy, and takes over the database of
//! an earlier release. Samples must not become unavailable because of it.

use super::damage::{aside, open_error, report};
use super::file::{DatabaseFile, FileError, Part, Stamp, sync_dir};
use super::{COPY, FILE, MetadataDb, SLED, sled};
use crate::error::{OpenError, StoreError};
use crate::wal::replay::Damage;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;

/// A file as found.
enum Found {
    Missing,
    Sound(DatabaseFile, Stamp),
    Damaged(String),
}

impl MetadataDb {
    /// Opens or creates the database in a data directory. What is damaged is moved aside and reported.
    ///
    /// # Errors
    /// [`OpenError`] if a file is locked, cannot be read or cannot be written.
    pub fn open(root: &Path, damage: &mut Vec<Damage>) -> Result<Arc<Self>, OpenError> {
        let (main, copy) = (root.join(FILE), root.join(COPY));
        let opened = Recovery { root, damage }.open(&main, &copy)?;
        let db = Arc::new(opened);
        sled::take_over(&db, root, &root.join(SLED), damage)?;
        db.update_copy();
        Ok(db)
    }

    /// Creates a database, without a copy, for a snapshot.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn create(root: &Path) -> Result<Arc<Self>, StoreError> {
        create(root).map(Arc::new).map_err(|e| StoreError::Metadata(format!("{}: {e}", root.join(FILE).display())))
    }
}

/// A new, empty database without a copy.
fn create(root: &Path) -> Result<MetadataDb, FileError> {
    let stamp = Stamp { id: RandomState::new().build_hasher().finish(), sequence: 0 };
    Ok(MetadataDb::new(root, DatabaseFile::create(&root.join(FILE), stamp)?, None))
}

struct Recovery<'a> {
    root: &'a Path,
    damage: &'a mut Vec<Damage>,
}

impl Recovery<'_> {
    fn open(&mut self, main: &Path, copy: &Path) -> Result<MetadataDb, OpenError> {
        let found = self.find(main)?;
        let beside = match self.find_copy(copy) {
            // It is written anew. A database that needs it is not started empty instead.
            Err(error) if matches!(found, Found::Sound(..)) => {
                tracing::warn!(%error, "cannot read the copy of the metadata database");
                Found::Missing
            }
            beside => beside?,
        };
        let lost = match (found, &beside) {
            // The copy is never ahead, and never of another database unless somebody replaced that.
            (Found::Sound(file, stamp), Found::Sound(_, of_copy))
                if stamp.id == of_copy.id && stamp.sequence < of_copy.sequence =>
            {
                drop(file);
                Some("it lost its newest writes".to_owned())
            }
            (Found::Sound(file, stamp), beside_it) => {
                let current = matches!(beside_it, Found::Sound(_, of_copy) if *of_copy == stamp);
                let copy = if let (true, Found::Sound(copy, _)) = (current, beside) { Some(copy) } else { None };
                return Ok(MetadataDb::new(self.root, file, copy));
            }
            (Found::Damaged(message), _) => Some(message),
            (Found::Missing, Found::Missing) => None,
            (Found::Missing, _) => Some("it is missing".to_owned()),
        };
        let Found::Sound(copy_file, _) = beside else {
            if let Some(message) = lost {
                self.move_aside(
                    main,
                    format!("the metadata database (jobs, incidents, topology) is damaged and starts empty: {message}"),
                )?;
            }
            return create(self.root).map_err(|e| self.failed(main, e));
        };
        if let Some(message) = lost {
            self.move_aside(main, format!("the metadata database (jobs, incidents, topology) is damaged and restored from its copy, which lacks at most the last seconds: {message}"))?;
        }
        let restored = copy_file.duplicate(main).and_then(Part::finish).map_err(|e| self.failed(main, e))?;
        Ok(MetadataDb::new(self.root, restored, Some(copy_file)))
    }

    /// The copy; a damaged one is moved aside, because somebody may want to read it.
    fn find_copy(&mut self, copy: &Path) -> Result<Found, OpenError> {
        let found = self.find(copy)?;
        if let Found::Damaged(message) = &found {
            self.move_aside(copy, format!("the copy of the metadata database is damaged: {message}"))?;
            return Ok(Found::Missing);
        }
        Ok(found)
    }

    fn find(&self, path: &Path) -> Result<Found, OpenError> {
        let opened = DatabaseFile::open(path).and_then(|file| {
            let Some(mut file) = file else { return Ok(Found::Missing) };
            let stamp = file.stamp()?;
            Ok(Found::Sound(file, stamp))
        });
        match opened {
            Err(FileError::Damaged(message)) => Ok(Found::Damaged(message)),
            opened => opened.map_err(|e| self.failed(path, e)),
        }
    }

    /// Reports a damaged file, and moves it aside if it exists.
    fn move_aside(&mut self, path: &Path, message: String) -> Result<(), OpenError> {
        let mut to = path.to_path_buf();
        if path.exists() {
            to = aside(path, "damaged");
            std::fs::rename(path, &to).map_err(|e| self.failed(path, e.into()))?;
            sync_dir(path).map_err(|e| self.failed(path, e.into()))?;
        }
        report(self.damage, to, message);
        Ok(())
    }

    fn failed(&self, path: &Path, e: FileError) -> OpenError {
        open_error(self.root, path, e)
    }
}
