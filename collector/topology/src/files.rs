//! Files of the config: read when they change. One whose new version tells nothing keeps what it told before.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fabriclens_correlate::topology::{TopologyError, TopologySource, parse};

use super::SourceFile;

/// Largest file that is read, bytes: a dump of 20,000 ports has 10 MB.
const SIZE: u64 = 64 << 20;
/// Complaints that are logged of each version.
const LOGGED: usize = 3;

/// All of them, in the order of the config.
pub(super) struct Files(Vec<Watched>);

struct Watched {
    path: PathBuf,
    /// Of the version that was looked at last; `None`: it was not there.
    seen: Option<Stamp>,
    looked: bool,
    told: Option<TopologySource>,
    error: Option<String>,
}

/// What changes when a file is written.
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
        let watched = |path| Watched { path, seen: None, looked: false, told: None, error: None };
        Self(paths.into_iter().map(watched).collect())
    }

    /// Reads those that are different from what was read.
    pub(super) fn read(&mut self) {
        self.0.iter_mut().for_each(Watched::read);
    }

    pub(super) fn described(&self) -> impl Iterator<Item = &TopologySource> {
        self.0.iter().filter_map(|w| w.told.as_ref())
    }

    pub(super) fn told(&self) -> Vec<SourceFile> {
        let one = |w: &Watched| SourceFile {
            path: w.path.display().to_string(),
            format: w.told.as_ref().map(|d| d.format),
            cables: w.told.as_ref().map_or(0, |d| d.cables.len()),
            complaints: w.told.as_ref().map(|d| d.complaints.clone()).unwrap_or_default(),
            error: w.error.clone(),
        };
        self.0.iter().map(one).collect()
    }
}

impl Watched {
    fn read(&mut self) {
        let stamp = std::fs::metadata(&self.path).ok().map(|m| Stamp { changed: m.modified().ok(), bytes: m.len() });
        if self.looked && stamp == self.seen {
            return;
        }
        (self.looked, self.seen) = (true, stamp);
        match read(&self.path) {
            Ok(told) => {
                let (path, cables) = (self.path.display(), told.cables.len());
                tracing::info!(file = %path, format = told.format, cables, "topology file read");
                for complaint in told.complaints.iter().take(LOGGED) {
                    tracing::warn!(left_out = told.left_out, "{complaint}");
                }
                (self.told, self.error) = (Some(told), None);
            }
            Err(error) => {
                let kept = if self.told.is_some() { "; what it told before is kept" } else { "" };
                tracing::warn!("{error}{kept}");
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
    // Node descriptions may hold any bytes.
    let text = std::fs::read(path).map_err(failed)?;
    Ok(parse(&shown, &String::from_utf8_lossy(&text))?)
}
