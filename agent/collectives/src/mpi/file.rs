//! One file of counters, which stays open: the process removes its name when it ends, and the values can still be read.

use super::layout::{Counters, LONGEST, Malformed, parse};
use crate::growing::open_regular;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// Name of the file of a process: its id in its own PID namespace, and its start in clock ticks since boot.
pub fn name_of(pid: u32, start: u64) -> String {
    format!("fabriclens-mpi-{pid}-{start}")
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Another user than that of the process owns it.
    #[error("user {owner} owns it, and the process runs as user {user}")]
    Owner {
        /// Owner of the file.
        owner: u32,
        /// User of the process.
        user: u32,
    },
    /// It names another process.
    #[error("it is of another process")]
    Process,
    /// It has another form.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It cannot be opened or read, or is no regular file.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

impl Refused {
    /// Value of the label `state`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Owner { .. } => "foreign_owner",
            Self::Process => "other_process",
            Self::Malformed(Malformed::Version(_)) => "other_version",
            Self::Malformed(_) => "malformed",
            Self::Io(_) => "unreadable",
        }
    }
}

/// An open file of counters.
#[derive(Debug)]
pub struct CounterFile {
    file: File,
    pid: u32,
    start: u64,
}

impl CounterFile {
    /// Opens the file of a process that runs as this user; `None` if there is none.
    ///
    /// # Errors
    /// If it exists and is not a file of this process that the library wrote.
    pub fn open(directory: &Path, pid: u32, start: u64, user: u32) -> Result<Option<Self>, Refused> {
        let (file, metadata) = match open_regular(&directory.join(name_of(pid, start))) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            opened => opened?,
        };
        if metadata.uid() != user {
            return Err(Refused::Owner { owner: metadata.uid(), user });
        }
        Ok(Some(Self { file, pid, start }))
    }

    /// Its values now.
    ///
    /// # Errors
    /// If it cannot be read, or is not a file of this process that the library wrote.
    pub fn read(&self) -> Result<Counters, Refused> {
        // One byte more than the longest one, so that a longer one is seen as such.
        let mut bytes = vec![0; LONGEST + 1];
        let mut length = 0;
        while length < bytes.len() {
            match self.file.read_at(&mut bytes[length..], length as u64)? {
                0 => break,
                more => length += more,
            }
        }
        let counters = parse(&bytes[..length])?;
        if (counters.pid, counters.start) != (self.pid, self.start) {
            return Err(Refused::Process);
        }
        Ok(counters)
    }
}
