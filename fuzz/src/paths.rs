//! Directories that seeds and targets use.

use std::path::PathBuf;

use tempfile::TempDir;

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Directory of the recorded hosts.
pub(crate) fn host_fixtures() -> PathBuf {
    root().join("tests/fixtures/hosts")
}

/// Creates a temporary directory, in memory where possible.
pub(crate) fn scratch() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a temporary directory can be made")
}
