//! Topology files of the configuration, read when they change. If a new version is invalid, the previous one stays in
//! use.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fabriclens_correlate::topology::{TopologyError, TopologySource, parse};
use serde::Serialize;

/// Largest file, bytes; a dump of 20,000 ports takes 10 MB.
const SIZE: u64 = 64 << 20;
/// Most complaints that are logged per version.
const LOGGED: usize = 3;

/// State of a configured file, as shown by the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceFile {
    /// Path.
    pub path: String,
    /// Format, once the file was read.
    pub format: Option<&'static str>,
    /// Number of cables in it.
    pub cables: usize,
    /// Lines that were skipped and why; bounded.
    pub complaints: Vec<String>,
    /// Why its last version was not used.
    pub error: Option<String>,
}

/// All files, in the order of the configuration.
pub(super) struct Files(Vec<TopologyFile>);

struct TopologyFile {
    path: PathBuf,
    /// Stamp of the last version; `None` if the file was missing.
    seen: Option<Stamp>,
    looked: bool,
    source: Option<TopologySource>,
    error: Option<String>,
}

/// Changes when the file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    changed: Option<SystemTime>,
    bytes: u64,
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("cannot read {path}: {error}; check the path under topology.files, and its permissions")]
    Io { path: String, error: std::io::Error },
    #[error("{path}: {bytes} bytes are more than {SIZE}; give a dump of one fabric")]
    Large { path: String, bytes: u64 },
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl Files {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let watched = |path| TopologyFile { path, seen: None, looked: false, source: None, error: None };
        Self(paths.into_iter().map(watched).collect())
    }

    /// Reads the files that changed.
    pub(super) fn read(&mut self) {
        self.0.iter_mut().for_each(TopologyFile::read);
    }

    pub(super) fn described(&self) -> impl Iterator<Item = &TopologySource> {
        self.0.iter().filter_map(|w| w.source.as_ref())
    }

    pub(super) fn state(&self) -> Vec<SourceFile> {
        let one = |w: &TopologyFile| SourceFile {
            path: w.path.display().to_string(),
            format: w.source.as_ref().map(|d| d.format),
            cables: w.source.as_ref().map_or(0, |d| d.cables.len()),
            complaints: w.source.as_ref().map(|d| d.complaints.clone()).unwrap_or_default(),
            error: w.error.clone(),
        };
        self.0.iter().map(one).collect()
    }
}

impl TopologyFile {
    fn read(&mut self) {
        let stamp = std::fs::metadata(&self.path).ok().map(|m| Stamp { changed: m.modified().ok(), bytes: m.len() });
        if self.looked && stamp == self.seen {
            return;
        }
        (self.looked, self.seen) = (true, stamp);
        match read(&self.path) {
            Ok(source) => {
                let (path, cables) = (self.path.display(), source.cables.len());
                tracing::info!(file = %path, format = source.format, cables, "topology file read");
                for complaint in source.complaints.iter().take(LOGGED) {
                    tracing::warn!(%complaint, left_out = source.left_out, "line of a topology file skipped");
                }
                (self.source, self.error) = (Some(source), None);
            }
            Err(error) => {
                let previous_in_use = self.source.is_some();
                tracing::warn!(%error, previous_in_use, "cannot use a topology file");
                self.error = Some(error.to_string());
            }
        }
    }
}

fn read(path: &Path) -> Result<TopologySource, ReadError> {
    let shown = path.display().to_string();
    let failed = |error| ReadError::Io { path: shown.clone(), error };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > SIZE {
        return Err(ReadError::Large { path: shown, bytes });
    }
    // Node descriptions may contain any bytes.
    let text = std::fs::read(path).map_err(failed)?;
    Ok(parse(&shown, &String::from_utf8_lossy(&text))?)
}
