//! The file operations the store needs, behind a trait so that tests can make any of them fail.
//!
//! Files are only created, appended to, read, renamed and removed; nothing is written in place.

pub mod faulty;
mod os;

pub use os::OsFiles;

use std::io;
use std::path::Path;

/// A file system.
pub trait Files: Send + Sync + 'static {
    /// Creates a directory and its parents; an existing one is no error.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates an empty file for appending; an existing file is an error.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>>;
    /// Names and sizes (bytes) of the files in a directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
    /// Renames within one directory, replacing an existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a hard link, or a copy where links are not possible.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An append-only file being written.
pub trait Output: Send {
    /// Appends all bytes; after an error the end of the file is undefined.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended so far durable; after an error nothing since the last success is.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file being read.
pub trait Input: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// Exactly `len` bytes from `offset`.
    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>>;
}

/// Reads a whole file.
pub fn read_all(files: &dyn Files, path: &Path) -> io::Result<Vec<u8>> {
    let file = files.open(path)?;
    let size = usize::try_from(file.size()).map_err(io::Error::other)?;
    file.read_at(0, size)
}

/// Atomically replaces a small file.
pub fn write_whole(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    match files.remove(&part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut out = files.create(&part)?;
    out.append(bytes)?;
    out.sync()?;
    files.rename(&part, path)?;
    path.parent().map_or(Ok(()), |dir| files.sync_dir(dir))
}
