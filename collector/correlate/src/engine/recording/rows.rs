//! Reads `ports.csv.gz` row by row.

use super::columns::{CellReader, number};
use super::error::RecordingError;
use flate2::read::MultiGzDecoder;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Bytes that are decompressed at a time.
const BUFFER: usize = 1 << 18;

/// A row: all columns of a port at an instant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Index of the port, in the order in which ports first appear.
    pub port: u32,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// Values by column; absent where a cell is empty.
    pub values: Vec<f64>,
}

/// Node and name of a port, with its first row.
pub(super) type NewPort = Option<[String; 2]>;

/// The rows of a file. Unknown columns and unwanted nodes are skipped.
pub(super) struct Rows<W> {
    path: String,
    lines: BufReader<MultiGzDecoder<File>>,
    stretch: i64,
    wanted: W,
    /// Places of time, node and port, and the number of cells.
    tick: usize,
    node: usize,
    port: usize,
    cells: usize,
    /// Places of each column, of which the first that is not empty counts, and its reader.
    columns: Vec<(Vec<usize>, CellReader)>,
    /// Index of each port by node and name, separated by a comma; `None` if it is not wanted.
    known: HashMap<String, Option<u32>>,
    ports: u32,
    line: Vec<u8>,
    number: usize,
    key: String,
    /// Index of the port whose key is in `key`.
    same: Option<u32>,
    /// Ends of the cells of `line`.
    ends: Vec<usize>,
}

impl<W: Fn(&str) -> bool> Rows<W> {
    /// Opens `ports.csv.gz` of a directory. Only rows of nodes for which `wanted` holds are given.
    ///
    /// # Errors
    /// [`RecordingError`] if the file cannot be read, or has no column for time, node or port.
    pub(super) fn open(dir: &Path, stretch: i64, wanted: W) -> Result<Self, RecordingError> {
        let path = dir.join("ports.csv.gz");
        let shown = path.display().to_string();
        let failed = |error| RecordingError::Read { path: shown.clone(), error };
        let file = File::open(&path).map_err(failed)?;
        let mut lines = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file));
        let mut head = String::new();
        lines.read_line(&mut head).map_err(failed)?;
        let names: Vec<&str> = head.trim_end().split(',').collect();
        let place = |name: &str| {
            let at = names.iter().position(|n| *n == name);
            let what = format!("there is no column {name}");
            at.ok_or_else(|| RecordingError::Row { path: shown.clone(), line: 1, what })
        };
        let (tick, node, port) = (place("tick_ns")?, place("node")?, place("port")?);
        let read = |(at, name): (usize, &&str)| Some((at, CellReader::of(name, stretch)?));
        let mut columns: Vec<(Vec<usize>, CellReader)> = Vec::new();
        for (at, reader) in names.iter().enumerate().filter_map(read) {
            match columns.iter_mut().find(|(_, known)| known.is_same_series(&reader)) {
                Some((places, _)) => places.push(at),
                None => columns.push((vec![at], reader)),
            }
        }
        let cells = names.len();
        Ok(Self {
            path: shown,
            lines,
            stretch,
            wanted,
            tick,
            node,
            port,
            cells,
            columns,
            known: HashMap::new(),
            ports: 0,
            line: Vec::new(),
            number: 1,
            key: String::new(),
            same: None,
            ends: Vec::new(),
        })
    }

    /// The columns that are read, in the order of [`Row::values`].
    pub(super) fn columns(&self) -> impl Iterator<Item = &CellReader> {
        self.columns.iter().map(|(_, column)| column)
    }

    /// The next row, with node and name of its port if it is the port's first; `None` at the end of the file.
    ///
    /// # Errors
    /// [`RecordingError`] names the line and what is wrong.
    pub(super) fn next(&mut self) -> Result<Option<(Row, NewPort)>, RecordingError> {
        loop {
            self.line.clear();
            let read = self.lines.read_until(b'\n', &mut self.line);
            if read.map_err(|error| RecordingError::Read { path: self.path.clone(), error })? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let wrong = |what: String| RecordingError::Row { path: self.path.clone(), line: self.number, what };
            let end = self.line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
            let line = &self.line[..end.map_or(0, |last| last + 1)];
            self.ends.clear();
            for (at, byte) in line.iter().enumerate() {
                if *byte == b',' {
                    self.ends.push(at);
                }
            }
            self.ends.push(line.len());
            let ends = &self.ends[..];
            if ends.len() != self.cells {
                return Err(wrong(format!("{} cells under {} columns", ends.len(), self.cells)));
            }
            let cell = |at: usize| &line[at.checked_sub(1).map_or(0, |before| ends[before] + 1)..ends[at]];
            let text = |at: usize| {
                let bytes = cell(at);
                std::str::from_utf8(bytes)
                    .map_err(|_| wrong(format!("{:?} is no text", String::from_utf8_lossy(bytes))))
            };
            let (node, port) = (text(self.node)?, text(self.port)?);
            let mut new = false;
            let is_same = self.key.split_once(',').is_some_and(|known| known == (node, port));
            if !is_same {
                self.key.clear();
                self.key.extend([node, ",", port]);
                self.same = match self.known.get(&self.key) {
                    Some(index) => *index,
                    None => {
                        let index = (self.wanted)(node).then_some(self.ports);
                        self.ports += u32::from(index.is_some());
                        self.known.insert(self.key.clone(), index);
                        new = index.is_some();
                        index
                    }
                };
            }
            let Some(index) = self.same else { continue };
            let bad = |at: usize| wrong(format!("{:?} is no number", String::from_utf8_lossy(cell(at))));
            let tick = number(cell(self.tick)).ok_or_else(|| bad(self.tick))?;
            let time_ms = (tick as i64).saturating_mul(self.stretch) / 1_000_000;
            let mut values = Vec::with_capacity(self.columns.len());
            for (places, column) in &self.columns {
                let told = places.iter().copied().find(|at| !cell(*at).is_empty()).unwrap_or(places[0]);
                values.push(column.value(cell(told)).ok_or_else(|| bad(told))?);
            }
            let name = new.then(|| [node.to_owned(), port.to_owned()]);
            return Ok(Some((Row { port: index, time_ms, values }, name)));
        }
    }
}
