//! One followed log: the events that are new.

use super::{Event, Reader};
use crate::growing::{Budget, Growing};
use std::io;
use std::path::Path;

/// A followed log.
#[derive(Debug)]
pub struct FollowedLog {
    file: Growing,
    reader: Reader,
}

impl FollowedLog {
    /// Follows a log.
    pub fn new(path: &Path) -> Self {
        Self { file: Growing::new(path), reader: Reader::default() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes that were skipped because the log grew faster than it may be read.
    pub fn skipped(&self) -> u64 {
        self.file.skipped
    }

    /// Adds the events that are new.
    ///
    /// # Errors
    /// If the log cannot be opened or read, or is no regular file.
    pub fn read(&mut self, budget: &mut Budget, out: &mut Vec<Event>) -> io::Result<()> {
        let Some(news) = self.file.news(budget)? else { return Ok(()) };
        if news.is_new_begin {
            self.reader = Reader::default();
        }
        // A last line without its end is read again.
        let whole = news.bytes().iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = news.bytes()[..whole].split(|byte| *byte == b'\n');
        out.extend(lines.filter_map(|line| self.reader.line(&String::from_utf8_lossy(line))));
        self.file.took(&news, whole);
        Ok(())
    }
}
