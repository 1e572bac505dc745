//! Errors of the store. Each message names the operation, the path and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the directory open.
    #[error("data directory {dir} is in use by process {pid}; stop that process or choose another directory")]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// Process id of the holder as it wrote it, `?` if unreadable.
        pid: String,
    },
    /// The directory is not empty and holds no store.
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
    /// The directory is not writable.
    #[error(
        "data directory {dir} cannot be written: {source}; mount it read-write and give this user write permission, or choose another directory"
    )]
    ReadOnly {
        /// The directory.
        dir: PathBuf,
        /// Operating system error.
        source: io::Error,
    },
    /// The disk is full.
    #[error("no space left for data directory {dir}; free some, lower --retention, or choose another directory")]
    Full {
        /// The directory.
        dir: PathBuf,
    },
    /// Any other file system error.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// Verb of the failed operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Operating system error.
        source: io::Error,
    },
    /// The metadata database cannot be opened.
    #[error(
        "cannot open {path} (jobs, incidents, topology): {message}; give this user permission to read and write it, and stop \
         other processes that use it"
    )]
    Metadata {
        /// The file.
        path: PathBuf,
        /// Description of the failure.
        message: String,
    },
}

impl OpenError {
    /// Maps an I/O error to the variant with the right remedy.
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
        "row group {group}: {values} values for {columns} columns and {rows} rows; the caller built the group wrong"
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
    /// The log cannot be made durable. The samples may or may not exist after a restart: send them again.
    #[error(
        "cannot make samples durable in {path}: {message}; nothing is acknowledged until the disk has space and accepts writes again, reads go on"
    )]
    Log {
        /// The log segment.
        path: PathBuf,
        /// Operating system error.
        message: String,
    },
    /// Blocks cannot be written and the head is full.
    #[error("head is full ({bytes} bytes) because blocks cannot be written: {message}; free disk space, reads go on")]
    HeadFull {
        /// Bytes of log that are not flushed.
        bytes: u64,
        /// Error of the last flush.
        message: String,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

/// Why maintenance (flush, merge, snapshot, metadata) failed; reads and appends continue.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file system failed.
    #[error("cannot {what} {path}: {message}")]
    Io {
        /// Verb of the failed operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Operating system error.
        message: String,
    },
    /// A file is damaged.
    #[error("{path} is damaged: {message}; its other parts stay readable, restore it from a snapshot if you have one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        message: String,
    },
    /// The metadata database failed.
    #[error("metadata database: {0}")]
    Metadata(String),
    /// The store was closed meanwhile; nothing is lost.
    #[error("the store is closed")]
    Closed,
    /// The log failed during a flush.
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
