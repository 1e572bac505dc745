//! A directory with one JSON file per job, for sites with a shared file system and no hooks. A new file begins its job,
//! a changed file corrects it, and a removed file ends it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fabriclens_jobs::{JobKey, Registry, RegistryError, Source};

use super::body::{Body, BodyError};
use super::{JobSource, Opened, Opening};
use fabriclens_core::time::now_ns;

/// Largest file, bytes.
const SIZE: u64 = 16 << 20;
/// Most files of the directory.
const MOST: usize = 100_000;

/// The state of the directory at the last scan.
pub(super) struct Files {
    dir: PathBuf,
    seen: HashMap<PathBuf, Seen>,
    /// Whether the last scan failed, which is logged once.
    missing: bool,
}

/// A file at the last scan.
struct Seen {
    changed: Option<SystemTime>,
    bytes: u64,
    /// `None` if the file was invalid.
    job: Option<JobKey>,
}

/// A file cannot be used.
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
    /// Creates the source without having scanned the directory.
    fn new(dir: PathBuf) -> Self {
        Self { dir, seen: HashMap::new(), missing: false }
    }
}

/// Opens the source if `jobs.dir` is configured.
pub(super) fn open(opening: &Opening<'_>) -> Opened {
    Ok(opening.config.jobs.dir.clone().map(|dir| Box::new(Files::new(dir)) as _))
}

impl JobSource for Files {
    /// Reports new, changed and removed files to the registry.
    fn poll(&mut self, registry: &Registry) -> bool {
        let files = match list(&self.dir) {
            Ok(files) => files,
            // A file system that is unavailable for a minute does not end jobs.
            Err(error) if !self.missing => {
                self.missing = true;
                tracing::warn!(path = %self.dir.display(), %error, "cannot read the directory of jobs (jobs.dir)");
                return false;
            }
            Err(_) => return false,
        };
        self.missing = false;
        let mut changed = false;
        for (path, modified, bytes) in &files {
            let known = self.seen.get(path);
            if known.is_some_and(|s| (s.changed, s.bytes) == (*modified, *bytes)) {
                continue;
            }
            changed = true;
            let before = known.and_then(|s| s.job.clone());
            let job = match report(registry, path, *bytes) {
                Ok(job) => Some(job),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot use the file of a job");
                    before.clone()
                }
            };
            if let Some(other) = before.filter(|b| Some(b) != job.as_ref()) {
                end(registry, &other);
            }
            self.seen.insert(path.clone(), Seen { changed: *modified, bytes: *bytes, job });
        }
        let still: std::collections::HashSet<&PathBuf> = files.iter().map(|t| &t.0).collect();
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

/// Path, modification time and size of each file.
type Listed = Vec<(PathBuf, Option<SystemTime>, u64)>;

fn list(dir: &Path) -> std::io::Result<Listed> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)?.take(MOST) {
        let path = entry?.path();
        // A file that vanished or cannot be inspected counts as missing.
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if path.extension().is_some_and(|e| e == "json") && meta.is_file() {
            all.push((path, meta.modified().ok(), meta.len()));
        }
    }
    Ok(all)
}

fn report(registry: &Registry, path: &Path, bytes: u64) -> Result<JobKey, ReadError> {
    if bytes > SIZE {
        return Err(ReadError::Large(bytes));
    }
    let (key, record) = Body::read(&std::fs::read(path)?)?.record()?;
    registry.begin(Source::File, &key, record, now_ns())?;
    Ok(key)
}

fn end(registry: &Registry, job: &JobKey) {
    if let Err(error) = registry.end(Source::File, job, now_ns()) {
        tracing::warn!(%error, "cannot end the job of a removed file");
    }
}
