//! A file of a user that grows: what is new in it since the last look, through rotation and truncation.

use rustix::fs::{Mode, OFlags, open};
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes before the end at which a file that already exists is begun.
const BEGIN: u64 = 64 << 10;
/// Bytes by which a file is recognized that goes on.
const TAIL: usize = 512;

/// Bytes that a look may still read, over all files.
#[derive(Debug)]
pub struct Budget {
    /// Of one file.
    pub file: u64,
    /// Of all.
    pub all: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { file: 8 << 20, all: 32 << 20 }
    }
}

/// Opens a regular file, without following a link and without waiting for a pipe.
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

/// A file that grows.
#[derive(Debug)]
pub struct Growing {
    path: PathBuf,
    /// Device and inode: a file that was replaced begins anew.
    identity: Option<(u64, u64)>,
    offset: u64,
    /// Bytes before `offset`.
    tail: Vec<u8>,
    /// Bytes that were skipped because the file grew faster than it may be read.
    pub skipped: u64,
}

/// New bytes.
#[derive(Debug)]
pub struct News {
    bytes: Vec<u8>,
    from: u64,
    begin: usize,
    /// They do not go on where the last ones ended.
    pub is_new_begin: bool,
}

impl News {
    /// The bytes, from the begin of a line.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

impl Growing {
    /// A file that has not been read.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: None, offset: 0, tail: Vec::new(), skipped: 0 }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it, without following a link and without waiting for a pipe.
    ///
    /// # Errors
    /// If it cannot be opened, or is no regular file.
    pub fn open(&self) -> io::Result<(File, Metadata)> {
        open_regular(&self.path)
    }

    /// What is new, within the budget; [`Growing::took`] tells how much of it is done with.
    ///
    /// # Errors
    /// As [`Growing::open`], or if it cannot be read.
    pub fn news(&mut self, budget: &mut Budget) -> io::Result<Option<News>> {
        let (mut file, metadata) = self.open()?;
        let (identity, length) = ((metadata.dev(), metadata.ino()), metadata.len());
        let mut is_new_begin = true;
        if self.identity != Some(identity) || length < self.offset {
            // What was there before this program followed the file is history.
            let begin = if self.identity.is_none() { length.saturating_sub(BEGIN) } else { 0 };
            self.identity = Some(identity);
            self.begin_at(begin);
        } else if !self.tail_is_in(&mut file)? {
            // Another file with the number of the old one.
            self.begin_at(0);
        } else {
            is_new_begin = false;
        }
        let most = budget.file.min(budget.all);
        if length - self.offset > most {
            self.skipped += length - self.offset - most;
            self.begin_at(length - most);
            is_new_begin = true;
        }
        if length == self.offset {
            return Ok(None);
        }
        // A byte before, to see whether the begin is one of a line.
        let from = self.offset.saturating_sub(1);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(length - from).read_to_end(&mut bytes)?;
        budget.all = budget.all.saturating_sub(bytes.len() as u64);
        let begin = match bytes.first() {
            _ if self.offset == 0 => 0,
            // Where the last look ended, or in the middle of a line.
            _ if !is_new_begin => 1,
            Some(b'\n') => 1,
            _ => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
        };
        Ok(Some(News { bytes, from, begin, is_new_begin }))
    }

    /// So many bytes need not be read again.
    pub fn took(&mut self, news: &News, consumed: usize) {
        let end = news.begin + consumed;
        self.tail = news.bytes[end.saturating_sub(TAIL)..end].to_vec();
        self.offset = news.from + end as u64;
    }

    /// Goes on at another place of the file.
    fn begin_at(&mut self, offset: u64) {
        (self.offset, self.tail) = (offset, Vec::new());
    }

    /// Whether the bytes before the place at which to go on are those that were read there.
    fn tail_is_in(&self, file: &mut File) -> io::Result<bool> {
        let mut bytes = vec![0; self.tail.len()];
        file.seek(SeekFrom::Start(self.offset - self.tail.len() as u64))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes == self.tail)
    }
}
