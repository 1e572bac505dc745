//! Rows that are not sealed yet: row-major, sorted by time, one row per time.

use super::chunk::Chunk;
use super::memory;
use fabriclens_model::is_absent;
use std::ops::Range;

/// The open row buffer of one layout.
#[derive(Debug, Default)]
pub struct Rows {
    columns: usize,
    times: Vec<i64>,
    values: Vec<f64>,
}

impl Rows {
    /// An empty buffer for `columns` columns.
    pub fn new(columns: usize) -> Self {
        Self { columns, times: Vec::new(), values: Vec::new() }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        memory::vec(&self.times) + memory::vec(&self.values)
    }

    /// Times of the rows, ascending, Unix ms.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Appends row `r` of a column-major group; its time must be after the last row.
    pub fn push(&mut self, time: i64, group: &[f64], rows: usize, r: usize) {
        self.times.push(time);
        if rows == 1 {
            self.values.extend_from_slice(group);
        } else {
            self.values.extend((0..self.columns).map(|c| group[c * rows + r]));
        }
    }

    /// Merges present values into the row at `time`, inserting it if needed. Values already present are kept.
    pub fn merge(&mut self, time: i64, row: &[f64]) {
        let n = self.columns;
        match self.times.binary_search(&time) {
            Ok(i) => {
                for (old, new) in self.values[i * n..(i + 1) * n].iter_mut().zip(row) {
                    if is_absent(*old) {
                        *old = *new;
                    }
                }
            }
            Err(i) => {
                self.times.insert(i, time);
                self.values.splice(i * n..i * n, row.iter().copied());
            }
        }
    }

    /// The value of a column at a time.
    pub fn at(&self, time: i64, column: usize) -> Option<f64> {
        let i = self.times.binary_search(&time).ok()?;
        Some(self.values[i * self.columns + column]).filter(|v| !is_absent(*v))
    }

    /// One column, including absent rows.
    pub fn column(&self, column: usize) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().skip(column).step_by(self.columns.max(1)).copied()
    }

    /// The last of these rows with a value in the column, as a range of one or zero rows.
    pub fn newest(&self, column: usize, rows: Range<usize>) -> Range<usize> {
        let has = |r: &usize| !is_absent(self.values[r * self.columns + column]);
        rows.rev().find(has).map_or(0..0, |r| r..r + 1)
    }

    /// Compresses all rows and empties the buffer, keeping its capacity.
    pub fn seal(&mut self) -> Option<Chunk> {
        if self.times.is_empty() {
            return None;
        }
        let chunk = Chunk::build(&self.times, self.columns, |c, out| out.extend(self.column(c)));
        self.times.clear();
        self.values.clear();
        Some(chunk)
    }
}
