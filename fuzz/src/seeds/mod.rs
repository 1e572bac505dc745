//! Initial inputs of the targets: written by our own encoders, or files of the repository.

pub(crate) mod disk;
pub(crate) mod host;
pub(crate) mod kernel;
pub(crate) mod method;
pub(crate) mod people;
pub(crate) mod sender;
pub(crate) mod switch;

use crate::paths::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest seed file, bytes; larger ones slow the fuzzer and add little coverage.
const LARGEST: u64 = 64 << 10;

/// Contents of the files below a directory of the repository; empty if it does not exist.
pub fn files(dir: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    below(&root().join(dir), &mut found);
    found.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Files below a directory of at most [`LARGEST`] bytes, sorted.
pub(crate) fn below(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => below(&path, found),
            Ok(meta) if meta.is_file() && meta.len() <= LARGEST => found.push(path),
            _ => {}
        }
    }
}

/// A file of the repository.
pub(crate) fn file(path: &str) -> Vec<Vec<u8>> {
    vec![fs::read(root().join(path)).expect("the file is in the repository")]
}
