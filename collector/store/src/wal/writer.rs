//! Writes the log: segments, group commit, and recovery after disk errors.

use super::record;
use crate::error::AppendError;
use crate::head::generation::Generation;
use crate::io::{Files, Output};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// First bytes of a segment.
pub const MAGIC: [u8; 8] = *b"FABLENSW";
/// Format version written, and the newest one read.
pub const VERSION: u32 = 2;
/// Bytes of the header: magic, version, generation, segment, checksum.
pub const HEADER: usize = 28;

/// Encodes the header of a segment.
pub fn header(generation: u64, segment: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(generation.to_le_bytes());
    out.extend(segment.to_le_bytes());
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out
}

/// File name of a segment.
pub fn name(generation: u64, segment: u32) -> String {
    format!("{generation:012}-{segment:04}.wal")
}

/// Generation and segment of a file name.
pub fn parse_name(name: &str) -> Option<(u64, u32)> {
    let (generation, segment) = name.strip_suffix(".wal")?.split_once('-')?;
    Some((generation.parse().ok()?, segment.parse().ok()?))
}

/// The log of the current generation. It lives in a mutex; bytes are written outside of it through [`Log::take`].
pub struct Log {
    files: Arc<dyn Files>,
    dir: PathBuf,
    generation: u64,
    segment: u32,
    path: PathBuf,
    out: Option<Box<dyn Output>>,
    /// Records that are not being written yet.
    pub pending: Vec<u8>,
    /// Sequence number of the last append whose records are in `pending` or written.
    pub appended: u64,
    /// Sequence number of the last durable append.
    pub durable: u64,
    /// A write and sync is in progress.
    pub busy: bool,
    /// Bytes of this generation's log.
    pub bytes: u64,
    failure: Option<AppendError>,
}

/// Bytes to write outside the mutex.
pub struct PendingWrite {
    out: Box<dyn Output>,
    bytes: Vec<u8>,
    upto: u64,
}

impl PendingWrite {
    /// Writes and syncs.
    pub fn run(&mut self) -> io::Result<()> {
        self.out.append(&self.bytes)?;
        self.out.sync()
    }
}

impl Log {
    /// Starts the log of a generation with a durable, empty first segment.
    pub fn create(files: Arc<dyn Files>, dir: &Path, generation: u64) -> io::Result<Self> {
        let path = dir.join(name(generation, 0));
        let out = start(&*files, dir, &path, generation, 0)?;
        Ok(Self {
            files,
            dir: dir.into(),
            generation,
            segment: 0,
            path,
            out: Some(out),
            pending: Vec::new(),
            appended: 0,
            durable: 0,
            busy: false,
            bytes: 0,
            failure: None,
        })
    }

    /// Starts the next generation's log; the old one stays until its blocks are durable. On error nothing changed.
    pub fn next_generation(&mut self) -> io::Result<u64> {
        let next = Self::create(self.files.clone(), &self.dir, self.generation + 1)?;
        let (appended, durable) = (self.appended, self.durable);
        *self = Self { appended, durable, ..next };
        Ok(self.generation)
    }

    /// Why the last write failed, if none has succeeded since.
    pub fn failure(&self) -> Option<&AppendError> {
        self.failure.as_ref()
    }

    /// Takes the bytes to write; the caller owns the file until [`Log::done`]. `None`: nothing to write.
    pub fn take(&mut self) -> Option<PendingWrite> {
        if self.pending.is_empty() {
            self.durable = self.appended;
            return None;
        }
        let out = self.out.take()?;
        self.busy = true;
        Some(PendingWrite { out, bytes: std::mem::take(&mut self.pending), upto: self.appended })
    }

    /// Records the result of a write. After a failed fsync the kernel may have dropped any of the bytes and will not
    /// report it again, so the file is abandoned and the bytes wait for [`Log::recover`].
    pub fn done(&mut self, mut work: PendingWrite, result: io::Result<()>) {
        self.busy = false;
        match result {
            Ok(()) => {
                self.bytes += work.bytes.len() as u64;
                self.durable = work.upto;
                self.out = Some(work.out);
                if self.pending.is_empty() {
                    work.bytes.clear();
                    work.bytes.shrink_to(1 << 20);
                    self.pending = work.bytes;
                }
            }
            Err(e) => {
                work.bytes.append(&mut self.pending);
                self.pending = work.bytes;
                self.fail(&e);
            }
        }
    }

    fn fail(&mut self, e: &io::Error) {
        tracing::error!(path = %self.path.display(), error = %e, "cannot make the log durable; appends are refused");
        self.failure = Some(AppendError::Log { path: self.path.clone(), message: e.to_string() });
    }

    /// After a failure: starts a new segment with the log's layout definitions and everything that is not durable yet.
    ///
    /// # Errors
    /// [`AppendError::Log`] while the disk still refuses writes.
    pub fn recover(&mut self, head: &Generation) -> Result<(), AppendError> {
        let Some(failure) = self.failure.clone() else {
            return Ok(());
        };
        let segment = self.segment + 1;
        let path = self.dir.join(name(self.generation, segment));
        let mut records = Vec::new();
        for (i, layout) in head.layouts.iter().enumerate().filter(|(_, l)| l.logged) {
            record::put_layout(&mut records, i as u32, &layout.columns);
        }
        let bytes = records.len() + self.pending.len();
        let attempt = start(&*self.files, &self.dir, &path, self.generation, segment).and_then(|mut out| {
            out.append(&records)?;
            out.append(&self.pending)?;
            out.sync()?;
            Ok(out)
        });
        match attempt {
            Ok(out) => {
                tracing::info!(path = %path.display(), "log is durable again; appends are accepted");
                (self.out, self.segment, self.path) = (Some(out), segment, path);
                self.bytes += bytes as u64;
                self.pending.clear();
                self.durable = self.appended;
                self.failure = None;
                Ok(())
            }
            Err(e) => {
                // The failed segment holds nothing acknowledged; its name is needed for the next attempt.
                if self.files.remove(&path).is_err_and(|e| e.kind() != io::ErrorKind::NotFound) {
                    self.segment = segment;
                }
                Err(match failure {
                    AppendError::Log { path, .. } => AppendError::Log { path, message: e.to_string() },
                    other => other,
                })
            }
        }
    }
}

fn start(files: &dyn Files, dir: &Path, path: &Path, generation: u64, segment: u32) -> io::Result<Box<dyn Output>> {
    let mut out = files.create(path)?;
    let begun = out.append(&header(generation, segment)).and_then(|()| out.sync()).and_then(|()| files.sync_dir(dir));
    if let Err(e) = begun {
        drop(out);
        // Best effort: an empty segment is harmless, but its name would be taken.
        let _ = files.remove(path);
        return Err(e);
    }
    Ok(out)
}
