//! One followed file: what is new in it since the last look.

use super::record::{Context, records};
use super::{Observation, prom};
use crate::growing::{Budget, Growing};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Longest Prometheus file, bytes.
const PROMETHEUS: u64 = 4 << 20;

/// A followed file.
#[derive(Debug)]
pub struct Followed {
    file: Growing,
    prometheus: bool,
    /// Inode and modification of a Prometheus file.
    modified: Option<(u64, i64, i64)>,
    context: Option<Context>,
    /// Records that were cut, of another form, or without a communicator.
    pub lost: u64,
}

impl Followed {
    /// Follows a file; `None` if its name is not one of the plugin's.
    pub fn new(path: &Path) -> Option<Self> {
        let prometheus = match path.extension()?.to_str()? {
            "prom" => true,
            "log" | "json" | "jsonl" => false,
            _ => return None,
        };
        Some(Self { file: Growing::new(path), prometheus, modified: None, context: None, lost: 0 })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes that were skipped because the file grew faster than it may be read.
    pub fn skipped(&self) -> u64 {
        self.file.skipped
    }

    /// Adds the observations that are new.
    ///
    /// # Errors
    /// If the file cannot be opened or read, or is no regular file.
    pub fn read(&mut self, budget: &mut Budget, out: &mut Vec<Observation>) -> io::Result<()> {
        if self.prometheus {
            return self.read_prometheus(budget, out);
        }
        let Some(news) = self.file.news(budget)? else { return Ok(()) };
        if news.is_new_begin {
            self.context = None;
        }
        let (consumed, lost) = records(news.bytes(), &mut self.context, out);
        self.lost += lost;
        self.file.took(&news, consumed);
        Ok(())
    }

    fn read_prometheus(&mut self, budget: &mut Budget, out: &mut Vec<Observation>) -> io::Result<()> {
        let (file, metadata) = self.file.open()?;
        let modified = Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()));
        if self.modified == modified {
            return Ok(());
        }
        self.modified = modified;
        let mut bytes = Vec::new();
        file.take(PROMETHEUS.min(budget.all)).read_to_end(&mut bytes)?;
        budget.all = budget.all.saturating_sub(bytes.len() as u64);
        // The file may be written right now: a last line without its end is not whole.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (observations, lost) = prom::observations(&String::from_utf8_lossy(&bytes[..whole]));
        self.lost += lost;
        out.extend(observations);
        Ok(())
    }
}
