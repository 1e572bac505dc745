//! A directory of jobs, one JSON file each, for whoever has a shared file system and no hooks. A file that appears
//! begins its job, one that changes corrects it, and one that goes ends it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fabriclens_jobs::{JobKey, Registry, RegistryError, Source};

use super::body::{Body, BodyError};
use super::{Ask, Opened, Opening};
use fabriclens_core::time::now_ns;

/// Largest file that is read, bytes.
const SIZE: u64 = 16 << 20;
/// Files of the directory that are looked at.
const MOST: usize = 100_000;

/// What is known of the directory.
pub(super) struct Files {
    dir: PathBuf,
    seen: HashMap<PathBuf, Seen>,
    /// Told once, not each round.
    missing: bool,
}

/// A file as it was.
struct Seen {
    changed: Option<SystemTime>,
    bytes: u64,
    /// `None`: it says nothing that can be understood.
    job: Option<JobKey>,
}

/// Why a file says nothing.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0} bytes are more than {SIZE}")]
    Large(u64),
    #[error("{0}")]
    Body(#[from] BodyError),
    #[error("{0}")]
    Registry(#[from] RegistryError),
}

impl Files {
    /// Nothing was read yet.
    fn new(dir: PathBuf) -> Self {
        Self { dir, seen: HashMap::new(), missing: false }
    }
}

/// If the config names a directory.
pub(super) fn open(opening: &Opening<'_>) -> Opened {
    Ok(opening.config.jobs.dir.clone().map(|dir| Box::new(Files::new(dir)) as _))
}

impl Ask for Files {
    /// Tells the registry what is new, has changed or is gone.
    fn ask(&mut self, registry: &Registry) -> bool {
        let there = match list(&self.dir) {
            Ok(there) => there,
            // A file system that is away for a minute ends no job.
            Err(error) if !self.missing => {
                self.missing = true;
                tracing::warn!(path = %self.dir.display(), %error, "cannot read the directory of jobs (jobs.dir)");
                return false;
            }
            Err(_) => return false,
        };
        self.missing = false;
        let mut changed = false;
        for (path, modified, bytes) in &there {
            let known = self.seen.get(path);
            if known.is_some_and(|s| (s.changed, s.bytes) == (*modified, *bytes)) {
                continue;
            }
            changed = true;
            let before = known.and_then(|s| s.job.clone());
            let job = match tell(registry, path, *bytes) {
                Ok(job) => Some(job),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a job's file is not understood");
                    before.clone()
                }
            };
            if let Some(other) = before.filter(|b| Some(b) != job.as_ref()) {
                end(registry, &other);
            }
            self.seen.insert(path.clone(), Seen { changed: *modified, bytes: *bytes, job });
        }
        let still: std::collections::HashSet<&PathBuf> = there.iter().map(|t| &t.0).collect();
        self.seen.retain(|path, seen| {
            let stays = still.contains(path);
            if !stays {
                changed = true;
                seen.job.iter().for_each(|job| end(registry, job));
            }
            stays
        });
        changed
    }
}

/// Path, time of change and size of each file.
type Listed = Vec<(PathBuf, Option<SystemTime>, u64)>;

fn list(dir: &Path) -> std::io::Result<Listed> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)?.take(MOST) {
        let path = entry?.path();
        // One that is gone again, or that cannot be looked at, is none.
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if path.extension().is_some_and(|e| e == "json") && meta.is_file() {
            all.push((path, meta.modified().ok(), meta.len()));
        }
    }
    Ok(all)
}

fn tell(registry: &Registry, path: &Path, bytes: u64) -> Result<JobKey, ReadError> {
    if bytes > SIZE {
        return Err(ReadError::Large(bytes));
    }
    let (key, record) = Body::read(&std::fs::read(path)?)?.record()?;
    registry.begin(Source::File, &key, record, now_ns())?;
    Ok(key)
}

fn end(registry: &Registry, job: &JobKey) {
    if let Err(error) = registry.end(Source::File, job, now_ns()) {
        tracing::warn!(%error, "cannot end the job of a file that is gone");
    }
}
