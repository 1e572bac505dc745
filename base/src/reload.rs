//! Reloads certificates, tokens and other small files when they change. Files are polled with `stat`, not watched: a
//! Kubernetes volume swaps a link and an editor renames, and both show in what `stat` returns.

use crate::error_chain::with_causes;
use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Recommended time between two polls.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Identifies the content of a file: device, inode, length, and the times of the last write and the last change of its
/// metadata. `None` while the file does not exist.
type Fingerprint = Option<[i64; 7]>;

/// Files that are loaded together, as they were when they were last polled.
#[derive(Clone, Debug)]
pub struct WatchedFiles {
    files: Vec<PathBuf>,
    fingerprints: Vec<Fingerprint>,
    polled: Instant,
    failure: Option<String>,
}

impl WatchedFiles {
    /// Takes the present fingerprints. Load the files after this, so that a change in between is found by the next poll.
    pub fn new(files: Vec<PathBuf>) -> Self {
        let fingerprints = fingerprints(&files);
        Self { files, fingerprints, polled: Instant::now(), failure: None }
    }

    /// Calls [`Self::poll`] if the last poll is at least [`POLL_INTERVAL`] ago, and otherwise returns `None`.
    pub fn poll_if_due<T, E: Error>(&mut self, load: impl FnOnce() -> Result<T, E>) -> Option<Result<T, String>> {
        if self.polled.elapsed() < POLL_INTERVAL { None } else { self.poll(load) }
    }

    /// Calls `load` if a file changed since the last poll, or if the last load failed, and returns what it returned.
    /// `None` if nothing is new.
    ///
    /// # Errors
    /// The error of `load` with its causes, once for each change: a failed load is tried again at each poll, since it may
    /// have failed for want of a file descriptor, but later failures are kept quiet.
    pub fn poll<T, E: Error>(&mut self, load: impl FnOnce() -> Result<T, E>) -> Option<Result<T, String>> {
        self.polled = Instant::now();
        let fingerprints = fingerprints(&self.files);
        let changed = fingerprints != self.fingerprints;
        if !changed && self.failure.is_none() {
            return None;
        }
        self.fingerprints = fingerprints;
        match load() {
            Ok(value) => {
                self.failure = None;
                Some(Ok(value))
            }
            Err(error) => {
                let error = with_causes(&error);
                let is_known = self.failure.replace(error.clone()).is_some() && !changed;
                (!is_known).then_some(Err(error))
            }
        }
    }

    /// Why the present content of the files is not in force; `None` if it is.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

fn fingerprints(files: &[PathBuf]) -> Vec<Fingerprint> {
    let fingerprint = |path: &PathBuf| {
        let m = fs::metadata(path).ok()?;
        let [device, inode, length] = [m.dev(), m.ino(), m.len()].map(u64::cast_signed);
        Some([device, inode, length, m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()])
    };
    files.iter().map(fingerprint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_replaced_file_is_loaded_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let link = |to: &str| {
            std::os::unix::fs::symlink(path(to), path("new")).expect("linked");
            fs::rename(path("new"), path("link")).expect("swapped");
        };
        fs::write(path("a"), "same").expect("written");
        fs::write(path("b"), "same").expect("written");
        link("a");
        let mut files = WatchedFiles::new(vec![path("link")]);
        let load = || Ok::<_, io::Error>(7);
        assert_eq!(files.poll(load), None);
        link("b");
        assert_eq!(files.poll_if_due(load), None, "before the interval is over");
        assert_eq!((files.poll(load), files.poll(load)), (Some(Ok(7)), None));
        fs::remove_file(path("b")).expect("removed");
        assert_eq!((files.poll(load), files.poll(load)), (Some(Ok(7)), None));
    }

    /// Without a file descriptor a good file cannot be read, and nothing about it changes once there is one again.
    #[test]
    fn a_failed_load_is_retried_and_reported_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let mut files = WatchedFiles::new(vec![file.clone()]);
        fs::write(&file, "new").expect("written");
        let fail = |errno: rustix::io::Errno| move || Err::<String, _>(io::Error::from(errno));
        let first = files.poll(fail(rustix::io::Errno::MFILE));
        assert!(first.is_some_and(|result| result.is_err_and(|e| e.contains("Too many open files"))));
        for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            assert_eq!(files.poll(fail(errno)), None, "reported again");
        }
        assert!(files.failure().is_some_and(|why| why.contains("system")), "{:?}", files.failure());
        assert_eq!(files.poll(|| fs::read_to_string(&file)), Some(Ok("new".to_owned())));
        assert_eq!(files.failure(), None);
        assert_eq!(files.poll(|| fs::read_to_string(&file)), None);
    }
}
