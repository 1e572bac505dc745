//! Reads a table that a recording may lack: columns by name, errors with file and line.

use super::error::RecordingError;
use crate::model::routes::update::{PortName, RouteUpdate};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// When something became known, Unix nanoseconds, and what.
pub(crate) type TimedUpdate = (i64, RouteUpdate);

/// A compressed CSV file under way.
pub(super) struct Table<const N: usize> {
    path: String,
    lines: BufReader<MultiGzDecoder<File>>,
    /// Place of each wanted column.
    places: [usize; N],
    cells: usize,
    line: String,
    number: usize,
}

impl<const N: usize> Table<N> {
    /// Opens a file of a directory and finds its columns; `None` if there is no such file.
    ///
    /// # Errors
    /// [`RecordingError`] if the file cannot be read or lacks a column.
    pub(super) fn open(dir: &Path, name: &str, columns: [&str; N]) -> Result<Option<Self>, RecordingError> {
        let path = dir.join(name).display().to_string();
        let failed = |error| RecordingError::Read { path: path.clone(), error };
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let mut lines = BufReader::new(MultiGzDecoder::new(file));
        let mut head = String::new();
        lines.read_line(&mut head).map_err(failed)?;
        let names: Vec<&str> = head.trim_end().split(',').collect();
        let mut places = [0; N];
        for (place, column) in places.iter_mut().zip(columns) {
            let at = names.iter().position(|name| *name == column);
            let what = || format!("there is no column {column}");
            *place = at.ok_or_else(|| RecordingError::Row { path: path.clone(), line: 1, what: what() })?;
        }
        let cells = names.len();
        Ok(Some(Self { path, lines, places, cells, line: String::new(), number: 1 }))
    }

    /// The wanted cells of the next row, read by `parse`; `None` at the end of the file.
    ///
    /// # Errors
    /// [`RecordingError`] names the line and what is wrong.
    pub(super) fn next<T>(
        &mut self,
        parse: impl FnOnce([&str; N]) -> Result<T, String>,
    ) -> Result<Option<T>, RecordingError> {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line);
        if read.map_err(|error| RecordingError::Read { path: self.path.clone(), error })? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let wrong = |what| RecordingError::Row { path: self.path.clone(), line: self.number, what };
        let cells: Vec<&str> = self.line.trim_end_matches(['\n', '\r']).split(',').collect();
        if cells.len() != self.cells {
            return Err(wrong(format!("{} cells under {} columns", cells.len(), self.cells)));
        }
        parse(self.places.map(|place| cells[place])).map(Some).map_err(wrong)
    }
}

/// A number of a cell.
pub(super) fn number<T: std::str::FromStr>(cell: &str) -> Result<T, String> {
    cell.parse().map_err(|_| format!("{cell:?} is no number"))
}

/// The same; `None` of an empty cell.
pub(super) fn number_if_known<T: std::str::FromStr>(cell: &str) -> Result<Option<T>, String> {
    if cell.is_empty() { Ok(None) } else { number(cell).map(Some) }
}

/// A time of the recording, nanoseconds, stretched to the time of the samples.
pub(super) fn time_ns(cell: &str, stretch: i64) -> Result<i64, String> {
    Ok(number::<i64>(cell)?.saturating_mul(stretch))
}

/// A port of two cells.
pub(super) fn port(node: &str, port: &str) -> PortName {
    PortName { node: node.to_owned(), port: port.to_owned() }
}
