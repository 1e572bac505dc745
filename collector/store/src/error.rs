//! What can go wrong, each with what was being done, to what, and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process holds it.
    #[error("data directory {dir} is in use by process {pid}; stop that process or choose another directory")]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The holder's process id as it wrote it, `?` if unreadable.
        pid: String,
    },
    /// It holds something else.
    #[error("{dir} is not empty and holds no store (no file {marker:?}); choose an empty or new directory", marker = crate::dir::MARKER)]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// It was written by a newer release.
    #[error(
        "{path} has format version {found}, this release reads up to {known}; use a newer release, or restore a snapshot taken before the upgrade"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version in its header.
        found: u32,
        /// Newest version this release knows.
        known: u32,
    },
    /// The directory cannot be written.
    #[error(
        "data directory {dir} cannot be written: {source}; mount it read-write and give this user write permission, or choose another directory"
    )]
    ReadOnly {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space is left.
    #[error("no space left for data directory {dir}; free some, lower --retention, or choose another directory")]
    Full {
        /// The directory.
        dir: PathBuf,
    },
    /// Anything else of the file system.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// Verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The metadata database failed.
    #[error(
        "cannot open {path}: {source}; if it is damaged, remove that directory: metric help and units return as agents resend them"
    )]
    Metadata {
        /// The directory.
        path: PathBuf,
        /// What it said.
        source: sled::Error,
    },
}

impl OpenError {
    /// Sorts an I/O error into the variant with the right remedy.
    pub(crate) fn io(what: &'static str, dir: &Path, path: &Path, source: io::Error) -> Self {
        use io::ErrorKind as K;
        match source.kind() {
            K::StorageFull | K::QuotaExceeded => Self::Full { dir: dir.into() },
            K::PermissionDenied | K::ReadOnlyFilesystem => Self::ReadOnly { dir: dir.into(), source },
            _ => Self::Io { what, path: path.into(), source },
        }
    }
}

/// Why nothing of an append was acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Times, columns and values do not fit together.
    #[error(
        "row group {group}: {values} values for {columns} columns and {rows} rows; the sender of the group is wrong"
    )]
    Shape {
        /// Index of the group.
        group: usize,
        /// Values given.
        values: usize,
        /// Columns given.
        columns: usize,
        /// Rows given.
        rows: usize,
    },
    /// The log cannot be made durable; what was sent may or may not be there after a restart: send it again.
    #[error(
        "cannot make samples durable in {path}: {message}; nothing is acknowledged until the disk has space and accepts writes again, reads go on"
    )]
    Log {
        /// The log segment.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// Blocks cannot be written and the head is full.
    #[error("head is full ({bytes} bytes) because blocks cannot be written: {message}; free disk space, reads go on")]
    HeadFull {
        /// Bytes of log that wait.
        bytes: u64,
        /// Why the last flush failed.
        message: String,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

/// Why maintenance (flush, merge, snapshot, metadata) failed; reads and appends go on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file system failed.
    #[error("cannot {what} {path}: {message}")]
    Io {
        /// Verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// A file is damaged.
    #[error("{path} is damaged: {message}; its other parts stay readable, restore it from a snapshot if you have one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What did not fit.
        message: String,
    },
    /// The metadata database failed.
    #[error("metadata: {0}")]
    Metadata(String),
    /// The store was closed meanwhile; nothing is lost.
    #[error("the store is closed")]
    Closed,
    /// The log failed while flushing.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: &Path, e: &io::Error) -> Self {
        Self::Io { what, path: path.into(), message: e.to_string() }
    }

    pub(crate) fn damaged(path: &Path, message: impl ToString) -> Self {
        Self::Damaged { path: path.into(), message: message.to_string() }
    }
}
