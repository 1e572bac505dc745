//! Files of baselines of the configuration, read when they change. If a new version is invalid, the previous one stays in use.

use std::path::PathBuf;

use fabriclens_base::reload::WatchedFiles;
use serde::Serialize;

use crate::baseline::{BaselineError, SettingsBaseline};

/// Largest file, bytes.
const SIZE: u64 = 4 << 20;

/// State of a configured file, as shown by the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaselineFileState {
    /// Path.
    pub path: String,
    /// Number of baselines in use.
    pub baselines: usize,
    /// Why its last version is not used.
    pub error: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("cannot read {path}; check the path under audit.baselines, and its permissions")]
    Io { path: String, source: std::io::Error },
    #[error("{path} has more than {SIZE} bytes; write one baseline for many hosts, as a host list")]
    Large { path: String },
    #[error("{path}")]
    Baseline { path: String, source: BaselineError },
}

/// All files, in the order of the configuration.
pub(crate) struct Files(Vec<WatchedBaselines>);

struct WatchedBaselines {
    path: PathBuf,
    watched: WatchedFiles,
    baselines: Vec<SettingsBaseline>,
    error: Option<String>,
}

impl Files {
    /// Reads all files, and logs those that it cannot use.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        let new = |path: PathBuf| {
            let mut file = WatchedBaselines {
                watched: WatchedFiles::new(vec![path.clone()]),
                path,
                baselines: Vec::new(),
                error: None,
            };
            let loaded = load(&file.path).map_err(|error| fabriclens_base::error_chain::with_causes(&error));
            file.take(loaded);
            file
        };
        Self(paths.into_iter().map(new).collect())
    }

    /// Reads the files that changed.
    pub(crate) fn refresh(&mut self) {
        for file in &mut self.0 {
            if let Some(loaded) = file.watched.poll(|| load(&file.path)) {
                file.take(loaded);
            }
        }
    }

    /// All baselines in use; of several for one port, the first one counts.
    pub(crate) fn baselines(&self) -> impl Iterator<Item = &SettingsBaseline> {
        self.0.iter().flat_map(|file| &file.baselines)
    }

    pub(crate) fn state(&self) -> Vec<BaselineFileState> {
        let of = |file: &WatchedBaselines| BaselineFileState {
            path: file.path.display().to_string(),
            baselines: file.baselines.len(),
            error: file.error.clone(),
        };
        self.0.iter().map(of).collect()
    }
}

impl WatchedBaselines {
    fn take(&mut self, loaded: Result<Vec<SettingsBaseline>, String>) {
        match loaded {
            Ok(baselines) => (self.baselines, self.error) = (baselines, None),
            Err(error) => {
                tracing::warn!(error, "baselines are not used; those that were read before stay in use");
                self.error = Some(error);
            }
        }
    }
}

fn load(path: &PathBuf) -> Result<Vec<SettingsBaseline>, FileError> {
    let name = || path.display().to_string();
    let io = |source| FileError::Io { path: name(), source };
    if std::fs::metadata(path).map_err(io)?.len() > SIZE {
        return Err(FileError::Large { path: name() });
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    SettingsBaseline::parse(&text).map_err(|source| FileError::Baseline { path: name(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_read_and_invalid_ones_leave_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("baselines.toml");
        let mut files = Files::new(vec![path.clone()]);
        let state = |files: &Files| files.state().into_iter().map(|s| (s.baselines, s.error)).next().unwrap();
        assert!(state(&files).1.unwrap().contains("audit.baselines"), "a missing file is told");
        std::fs::write(&path, "[[baseline]]\nname = \"a\"\nsettings = { trust = \"dscp\" }\n").unwrap();
        files.refresh();
        assert_eq!((state(&files), files.baselines().count()), ((1, None), 1));
        std::fs::write(&path, "[[baseline]]\nname = \"a\"\nsettings = { trusts = \"dscp\" }\n").unwrap();
        files.refresh();
        let (kept, error) = state(&files);
        assert_eq!((kept, files.baselines().count()), (1, 1));
        assert!(error.unwrap().contains("did you mean trust?"));
    }
}
