//! Writes `ports.csv.gz` with some columns left out, and if asked the rows of each instant in the order of their names.

use super::row::{Columns, Row};
use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Writer of rows.
pub struct RowWriter {
    output: GzEncoder<File>,
    kept: Vec<usize>,
    /// Places of time, node and port, by which rows are ordered.
    order: Option<[usize; 3]>,
    /// Rows of the present instant, with their order.
    instant: Vec<([String; 3], String)>,
}

impl RowWriter {
    /// A new file with the columns at the places `kept`; `ordered` sorts the rows of an instant by their names.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, columns: &Columns, kept: Vec<usize>, ordered: bool) -> Result<Self> {
        let mut output = GzEncoder::new(File::create(path)?, Compression::fast());
        let head: Vec<&str> = kept.iter().map(|at| columns.names[*at].as_str()).collect();
        writeln!(output, "{}", head.join(","))?;
        let order = ordered.then_some([columns.tick, columns.node, columns.port]);
        Ok(Self { output, kept, order, instant: Vec::new() })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, row: &Row<'_>) -> Result<()> {
        let line = self.kept.iter().map(|at| row.cells[*at].as_str()).collect::<Vec<_>>().join(",");
        let Some(order) = self.order else { return Ok(writeln!(self.output, "{line}")?) };
        let key = order.map(|at| row.cells[at].clone());
        if self.instant.first().is_some_and(|(first, _)| first[0] != key[0]) {
            self.flush()?;
        }
        self.instant.push((key, line));
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.output.finish()?;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.instant.sort();
        for (_, line) in self.instant.drain(..) {
            writeln!(self.output, "{line}")?;
        }
        Ok(())
    }
}
