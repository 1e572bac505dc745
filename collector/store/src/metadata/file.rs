//! One file of the metadata database, and the only user of `redb`.
//!
//! A value is stored with a checksum over table, key and value, because `redb` checks its pages only when it opens a file.
//! Commits take two phases: with one, a damaged page of the last commit looks like an interrupted one, and `redb` silently
//! returns to the commit before. A panic of the library is an error here, and after an error the file is opened again
//! before its next use.

use fabriclens_base::owned;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle,
};
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Memory for pages of one file, bytes.
const CACHE: usize = 8 << 20;
/// How long a file that was just closed may stay locked.
const PATIENCE: Duration = Duration::from_secs(5);
/// Table of the stamp, which belongs to no component.
const STAMP: &str = "stamp";
/// Keys of the stamp: the identity of the database, and the number of its last transaction.
const ID: &[u8] = b"id";
const SEQUENCE: &[u8] = b"sequence";
const CRC: usize = 4;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Another process, or a handle of this one, has it open.
    #[error("it is locked by another process")]
    Held,
    /// The operating system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its content is not what was written.
    #[error("{0}")]
    Damaged(String),
}

impl From<redb::Error> for FileError {
    fn from(e: redb::Error) -> Self {
        match e {
            redb::Error::DatabaseAlreadyOpen => Self::Held,
            redb::Error::Io(e) if !matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                Self::Io(e)
            }
            redb::Error::PreviousIo => Self::Io(io::Error::other("an earlier write failed")),
            e => Self::Damaged(e.to_string()),
        }
    }
}

/// Which database a file belongs to, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Random, the same in a database and its copy.
    pub id: u64,
    /// Number of the last transaction.
    pub sequence: u64,
}

/// One change: table, key, and the value unless it is removed.
pub type Change<'a> = (&'a str, &'a [u8], Option<&'a [u8]>);

/// An open file.
pub struct DatabaseFile {
    path: PathBuf,
    /// `None` after an error.
    opened: Option<Database>,
}

impl DatabaseFile {
    /// Creates a file with a stamp and nothing else. It has its name only once it is durable.
    pub fn create(path: &Path, stamp: Stamp) -> Result<Self, FileError> {
        let part = Part { path: part_of(path)?, to: path.into() };
        guarded(|| {
            let file = owned::options().read(true).write(true).create_new(true).open(&part.path)?;
            let mut db = database(file)?;
            write(&mut db, std::iter::empty(), stamp)
        })?;
        part.finish()
    }

    /// Opens an existing file and verifies all of it.
    pub fn open(path: &Path) -> Result<Option<Self>, FileError> {
        let patience = Instant::now() + PATIENCE;
        // The data directory is locked by this process, so another holder is a store that it has just dropped.
        let opened = loop {
            match open_once(path) {
                Err(FileError::Held) if Instant::now() < patience => std::thread::sleep(Duration::from_millis(10)),
                Err(FileError::Io(e)) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => break opened?,
            }
        };
        Ok(Some(Self { path: path.into(), opened: Some(opened) }))
    }

    /// Begins a copy of the file. No other call may run meanwhile.
    pub fn duplicate(&self, to: &Path) -> Result<Part, FileError> {
        let part = Part { path: part_of(to)?, to: to.into() };
        let mut copy = owned::options().write(true).create_new(true).open(&part.path)?;
        io::copy(&mut owned::read(&self.path)?, &mut copy)?;
        Ok(part)
    }

    /// Identity and progress.
    pub fn stamp(&mut self) -> Result<Stamp, FileError> {
        let number = |file: &mut Self, key| {
            let value = file.get(STAMP, key)?.and_then(|v| v.try_into().ok());
            value.map(u64::from_le_bytes).ok_or_else(|| FileError::Damaged("it has no stamp".into()))
        };
        Ok(Stamp { id: number(self, ID)?, sequence: number(self, SEQUENCE)? })
    }

    /// Value of a key.
    pub fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, FileError> {
        self.read(|reading| {
            let Some(opened) = open_table(reading, table)? else { return Ok(None) };
            let value = opened.get(key).map_err(redb::Error::from)?;
            value.map(|value| Ok(checked(table, key, value.value())?.to_vec())).transpose()
        })
    }

    /// Calls `visit` with the keys and values of a range, in order or backwards, until it returns false.
    pub fn visit(
        &mut self,
        table: &str,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        backwards: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), FileError> {
        self.read(|reading| {
            let Some(opened) = open_table(reading, table)? else { return Ok(()) };
            let mut entries = opened.range::<&[u8]>(range).map_err(redb::Error::from)?;
            while let Some(entry) = if backwards { entries.next_back() } else { entries.next() } {
                let (key, value) = entry.map_err(redb::Error::from)?;
                if !visit(key.value(), checked(table, key.value(), value.value())?) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Names of the tables of components.
    pub fn tables(&mut self) -> Result<Vec<String>, FileError> {
        self.read(|reading| {
            let tables = reading.list_tables().map_err(redb::Error::from)?;
            Ok(tables.map(|table| table.name().to_owned()).filter(|name| name != STAMP).collect())
        })
    }

    /// Makes changes durable, all or none, and numbers them as the next transaction.
    pub fn apply<'a>(&mut self, changes: impl Iterator<Item = Change<'a>>) -> Result<(), FileError> {
        let before = self.stamp()?;
        self.follow(changes, Stamp { sequence: before.sequence + 1, ..before })
    }

    /// Like [`DatabaseFile::apply`], with the stamp of the database that this one follows.
    pub fn follow<'a>(&mut self, changes: impl Iterator<Item = Change<'a>>, stamp: Stamp) -> Result<(), FileError> {
        self.attempt(|db| write(db, changes, stamp))
    }

    fn read<T>(&mut self, read: impl FnOnce(&ReadTransaction) -> Result<T, FileError>) -> Result<T, FileError> {
        self.attempt(|db| read(&db.begin_read().map_err(redb::Error::from)?))
    }

    /// Runs one operation. After a failed one `redb` refuses all others until the file is opened again.
    fn attempt<T>(&mut self, operation: impl FnOnce(&mut Database) -> Result<T, FileError>) -> Result<T, FileError> {
        let mut db = self.opened.take().map_or_else(|| open_once(&self.path), Ok)?;
        let done = guarded(|| operation(&mut db));
        if done.is_ok() {
            self.opened = Some(db);
        } else {
            // Closing writes to the file, which may panic as well.
            let _: Result<(), FileError> = guarded(|| {
                drop(db);
                Ok(())
            });
        }
        done
    }
}

/// A file that is being written under another name; removed unless it is finished.
pub struct Part {
    path: PathBuf,
    to: PathBuf,
}

impl Part {
    /// Verifies the file, and gives it its name once it is durable.
    pub fn finish(self) -> Result<DatabaseFile, FileError> {
        let opened = open_once(&self.path)?;
        owned::read(&self.path)?.sync_all()?;
        std::fs::rename(&self.path, &self.to)?;
        sync_dir(&self.to)?;
        Ok(DatabaseFile { path: self.to.clone(), opened: Some(opened) })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Its space may be needed; it is no longer there if it was renamed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The database in an open file, a new one if the file is empty. `redb` is given no path: what was checked could be
/// replaced before it opens the same name.
fn database(file: File) -> Result<Database, FileError> {
    let backend = redb::backends::FileBackend::new(file).map_err(redb::Error::from)?;
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
    Ok(builder.create_with_backend(backend).map_err(redb::Error::from)?)
}

/// Opens a file that exists, and reads every value. `redb` verifies its pages.
fn open_once(path: &Path) -> Result<Database, FileError> {
    guarded(|| {
        let file = owned::update(path)?;
        // `redb` would make it a new database.
        if file.metadata()?.len() == 0 {
            return Err(FileError::Damaged("it is empty".into()));
        }
        let db = database(file)?;
        let reading = db.begin_read().map_err(redb::Error::from)?;
        for table in reading.list_tables().map_err(redb::Error::from)? {
            let name = table.name();
            let Some(opened) = open_table(&reading, name)? else { continue };
            let mut count = 0;
            for entry in opened.iter().map_err(redb::Error::from)? {
                let (key, value) = entry.map_err(redb::Error::from)?;
                checked(name, key.value(), value.value())?;
                count += 1;
            }
            if count != opened.len().map_err(redb::Error::from)? {
                return Err(FileError::Damaged(format!("table {name} has {count} entries, which is not what it says")));
            }
        }
        drop(reading);
        Ok(db)
    })
}

type Definition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;
type Opened = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A table that was never written does not exist.
fn open_table(reading: &ReadTransaction, name: &str) -> Result<Option<Opened>, FileError> {
    match reading.open_table(Definition::new(name)) {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(e) => Err(redb::Error::from(e).into()),
    }
}

fn write<'a>(db: &mut Database, changes: impl Iterator<Item = Change<'a>>, stamp: Stamp) -> Result<(), FileError> {
    let mut writing = db.begin_write().map_err(redb::Error::from)?;
    writing.set_two_phase_commit(true);
    let mut changes = changes.peekable();
    while let Some(name) = changes.peek().map(|change| change.0) {
        let mut table = writing.open_table(Definition::new(name)).map_err(redb::Error::from)?;
        while let Some((_, key, value)) = changes.next_if(|change| change.0 == name) {
            match value {
                Some(value) => table.insert(key, &*with_checksum(name, key, value)).map(drop),
                None => table.remove(key).map(drop),
            }
            .map_err(redb::Error::from)?;
        }
    }
    let mut table = writing.open_table(Definition::new(STAMP)).map_err(redb::Error::from)?;
    for (key, number) in [(ID, stamp.id), (SEQUENCE, stamp.sequence)] {
        let value = with_checksum(STAMP, key, &number.to_le_bytes());
        table.insert(key, &*value).map_err(redb::Error::from)?;
    }
    drop(table);
    writing.commit().map_err(redb::Error::from)?;
    Ok(())
}

fn checksum(table: &str, key: &[u8], value: &[u8]) -> [u8; CRC] {
    let mut crc = crc32fast::Hasher::new();
    for part in [table.as_bytes(), key] {
        crc.update(&(part.len() as u64).to_le_bytes());
        crc.update(part);
    }
    crc.update(value);
    crc.finalize().to_le_bytes()
}

fn with_checksum(table: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    [value, &checksum(table, key, value)].concat()
}

fn checked<'a>(table: &str, key: &[u8], stored: &'a [u8]) -> Result<&'a [u8], FileError> {
    let parts = stored.len().checked_sub(CRC).map(|at| stored.split_at(at));
    let value = parts.filter(|(value, crc)| checksum(table, key, value) == *crc).map(|parts| parts.0);
    value.ok_or_else(|| FileError::Damaged(format!("an entry of table {table} has a wrong checksum")))
}

/// Turns a panic of the library into an error.
pub fn guarded<T, E: From<FileError>>(operation: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(operation)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(FileError::Damaged(text.unwrap_or("the database code panicked").to_owned()).into())
    })
}

/// Name of a file while it is written; what an interrupted process left there is removed.
fn part_of(path: &Path) -> io::Result<PathBuf> {
    let part = path.with_extension("part");
    match std::fs::remove_file(&part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(part),
    }
}

/// Makes renames in the directory of a file durable.
pub fn sync_dir(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Attempts to open the file while its name changes; a check apart from the opening is passed in a few of them.
    const ATTEMPTS: usize = 300;

    #[test]
    fn a_link_is_never_opened_whenever_it_is_placed() {
        let dir = tempfile::tempdir().unwrap();
        let [name, own, link, victim] = ["meta.redb", "own", "link", "victim"].map(|name| dir.path().join(name));
        drop(DatabaseFile::create(&own, Stamp { id: 1, sequence: 0 }).unwrap());
        drop(DatabaseFile::create(&victim, Stamp { id: 2, sequence: 0 }).unwrap());
        let before = std::fs::read(&victim).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut own_next = true;
                while !done.load(Ordering::Relaxed) {
                    _ = std::fs::remove_file(&link);
                    if own_next {
                        std::fs::hard_link(&own, &link).unwrap();
                    } else {
                        std::os::unix::fs::symlink(&victim, &link).unwrap();
                    }
                    std::fs::rename(&link, &name).unwrap();
                    own_next = !own_next;
                }
            });
            for _ in 0..ATTEMPTS {
                if let Ok(mut file) = open_once(&name).map(|db| DatabaseFile { path: name.clone(), opened: Some(db) }) {
                    assert_eq!(file.stamp().unwrap().id, 1, "the database behind the link was opened");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(std::fs::read(&victim).unwrap(), before, "the file behind the link was written");
    }
}
