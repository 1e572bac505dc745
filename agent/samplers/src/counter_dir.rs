//! Directory of single-number files (`counters/`, `hw_counters/`, `statistics/`), kept open and read with `pread`.
//!
//! An unreadable file costs one row. A file that keeps failing is skipped for a while: on some functions each read
//! writes a line to the kernel log. Used by the samplers of such directories.

use crate::sampler::Sampler;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::sysfile::{CachedFile, FileError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Consecutive failures after which a file is skipped.
const FAILURES: u8 = 3;
/// Time for which a failing file is skipped.
const PAUSE: Duration = Duration::from_secs(600);
/// Interval between checks of the directory for changes. A lookup by path costs as much as reading ten counters; a
/// removed device is noticed at once when its open files fail.
const RECHECK: Duration = Duration::from_secs(5);

/// Selected files of a directory.
#[derive(Debug)]
pub struct CounterDir {
    dir: PathBuf,
    names: Arc<[Arc<str>]>,
    rows: Vec<Row>,
    modified: Option<SystemTime>,
    checked: Instant,
    unknown: usize,
}

#[derive(Debug)]
struct Row {
    file: CachedFile,
    failures: u8,
    retry: Option<Instant>,
}

impl CounterDir {
    /// Lists `dir` and keeps the names that `wanted` accepts.
    ///
    /// # Errors
    /// `Absent` if the directory does not exist or holds no wanted file.
    pub fn open(dir: PathBuf, wanted: &dyn Fn(&str) -> bool) -> Result<Self, SampleError> {
        let checked = Instant::now();
        let mut opened = Self { dir, names: Arc::from([]), rows: Vec::new(), modified: None, checked, unknown: 0 };
        opened.list(wanted)?;
        Ok(opened)
    }

    /// Lists again if the directory has changed (a recreated device, the next tick of a recording); checked at an
    /// interval.
    ///
    /// # Errors
    /// As [`CounterDir::open`]; `Gone` if the directory has vanished.
    pub fn refresh(&mut self, wanted: &dyn Fn(&str) -> bool) -> Result<(), SampleError> {
        if self.checked.elapsed() < RECHECK { Ok(()) } else { self.check(wanted) }
    }

    fn check(&mut self, wanted: &dyn Fn(&str) -> bool) -> Result<(), SampleError> {
        self.checked = Instant::now();
        let modified = modified(&self.dir);
        if modified.is_none() {
            return Err(SampleError::Gone(format!("{}: directory is gone", self.dir.display())));
        }
        if modified != self.modified { self.list(wanted) } else { Ok(()) }
    }

    fn list(&mut self, wanted: &dyn Fn(&str) -> bool) -> Result<(), SampleError> {
        self.modified = modified(&self.dir);
        let absent = |why: &str| SampleError::Absent(format!("{}: {why}", self.dir.display()));
        let entries = std::fs::read_dir(&self.dir).map_err(|e| match FileError::io(&self.dir, e) {
            short @ FileError::Shortage { .. } => short.into(),
            other => absent(&other.to_string()),
        })?;
        let mut names: Vec<String> =
            entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let all = names.len();
        names.retain(|name| wanted(name));
        names.sort_unstable();
        self.unknown = all - names.len();
        if names.is_empty() {
            return Err(absent("nothing in it that means anything on this link"));
        }
        self.rows =
            names.iter().map(|n| Row { file: CachedFile::new(self.dir.join(n)), failures: 0, retry: None }).collect();
        self.names = names.into_iter().map(Arc::from).collect();
        Ok(())
    }

    /// Reads the rows selected by `mask`; all rows if its length differs.
    ///
    /// # Errors
    /// `Gone` if the device vanished under an open file; `Failed` or `Absent` if no row could be read.
    pub fn read(&mut self, mask: &[bool], batch: &mut Batch) -> Result<(), SampleError> {
        batch.set_names(&self.names);
        batch.unknown = self.unknown;
        let masked = mask.len() == self.rows.len();
        let mut last = None;
        let mut any = false;
        for (i, row) in self.rows.iter_mut().enumerate() {
            let value = if masked && !mask[i] { None } else { row.read(batch, &mut last)? };
            any |= value.is_some();
            batch.values.push(value);
        }
        match last {
            Some(error) if !any => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Row {
    fn read(&mut self, batch: &mut Batch, last: &mut Option<FileError>) -> Result<Option<u64>, SampleError> {
        if let Some(retry) = self.retry {
            if Instant::now() < retry {
                return Ok(None);
            }
            self.retry = None;
        }
        match self.file.number() {
            Ok(value) => {
                self.failures = 0;
                Ok(Some(value))
            }
            Err(error @ FileError::Gone { .. }) => Err(error.into()),
            Err(error) => {
                let own = !matches!(error, FileError::Shortage { .. });
                self.failures = self.failures.saturating_add(u8::from(own));
                if self.failures >= FAILURES {
                    self.file.close();
                    self.retry = Some(Instant::now() + PAUSE);
                }
                batch.drop_row(&error);
                *last = Some(error);
                Ok(None)
            }
        }
    }
}

fn modified(dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(dir).ok()?.modified().ok()
}

/// Sampler that consists of one directory.
pub struct Files {
    dir: CounterDir,
    wanted: Box<dyn Fn(&str) -> bool + Send>,
}

impl Files {
    /// Opens the files of `dir` that are `wanted`, now and after each change of the directory.
    ///
    /// # Errors
    /// As [`CounterDir::open`].
    pub fn open(dir: PathBuf, wanted: impl Fn(&str) -> bool + Send + 'static) -> Result<Self, SampleError> {
        Ok(Self { dir: CounterDir::open(dir, &wanted)?, wanted: Box::new(wanted) })
    }
}

impl Sampler for Files {
    fn sample(&mut self, mask: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.dir.refresh(&self.wanted)?;
        self.dir.read(mask, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    #[test]
    fn one_bad_file_drops_one_row() {
        let dir = tree(&[("a", "1\n"), ("b", "N/A (no PMA)\n"), ("c", "garbage\n"), ("d", ""), ("e", "5\n")]);
        std::fs::create_dir(dir.path().join("f")).unwrap();
        let mut counters = CounterDir::open(dir.path().to_path_buf(), &|_| true).unwrap();
        let mut batch = Batch::default();
        batch.begin();
        counters.read(&[], &mut batch).unwrap();
        assert_eq!(batch.values, [Some(1), None, None, None, Some(5), None]);
        assert_eq!(batch.bad, 2, "text and a directory; absent ones are no errors");
        assert!(batch.example.as_deref().is_some_and(|e| e.contains("garbage")));
    }

    #[test]
    fn masked_rows_are_not_read() {
        let dir = tree(&[("a", "1\n"), ("b", "2\n")]);
        let mut counters = CounterDir::open(dir.path().to_path_buf(), &|_| true).unwrap();
        let mut batch = Batch::default();
        batch.begin();
        counters.read(&[false, true], &mut batch).unwrap();
        assert_eq!(batch.values, [None, Some(2)]);
    }

    #[test]
    fn a_changed_directory_is_listed_again_and_a_lost_one_is_gone() {
        let dir = tree(&[("a", "1\n")]);
        let mut counters = CounterDir::open(dir.path().to_path_buf(), &|_| true).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        std::fs::write(dir.path().join("b"), "2\n").unwrap();
        counters.check(&|_| true).unwrap();
        let mut batch = Batch::default();
        let before = batch.generation();
        batch.begin();
        counters.read(&[], &mut batch).unwrap();
        assert_eq!(batch.values, [Some(1), Some(2)]);
        assert_ne!(batch.generation(), before);
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(matches!(counters.check(&|_| true), Err(SampleError::Gone(_))));
    }

    #[test]
    fn failing_file_is_skipped_for_a_while() {
        let dir = tree(&[("a", "1\n"), ("b", "x\n")]);
        let mut counters = CounterDir::open(dir.path().to_path_buf(), &|_| true).unwrap();
        let mut batch = Batch::default();
        let mut bad = 0;
        for _ in 0..10 {
            batch.begin();
            counters.read(&[], &mut batch).unwrap();
            bad += batch.bad;
        }
        assert_eq!(bad, usize::from(FAILURES));
    }
}
