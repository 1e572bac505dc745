//! Sealed rows of one layout: one list of times, and each column compressed by its kind.

use crate::codec::column::Scratch;
use crate::codec::{Corrupt, column, ints};

/// An immutable chunk of compressed rows; shared with reads that outlive the head.
#[derive(Debug)]
pub struct Chunk {
    rows: usize,
    min: i64,
    max: i64,
    times: Box<[u8]>,
    ends: Box<[u32]>,
    data: Box<[u8]>,
}

impl Chunk {
    /// Compresses rows; `times` must ascend and not be empty, `fill(c, out)` appends one value per row.
    pub fn build(times: &[i64], columns: usize, fill: impl Fn(usize, &mut Vec<f64>)) -> Self {
        let mut packed = Vec::new();
        ints::encode(times, &mut packed);
        let mut data = Vec::new();
        let mut values = Vec::with_capacity(times.len());
        let ends = (0..columns)
            .map(|c| {
                values.clear();
                fill(c, &mut values);
                column::encode(&values, &mut data);
                data.len() as u32
            })
            .collect();
        Self {
            rows: times.len(),
            min: times.first().copied().unwrap_or(0),
            max: times.last().copied().unwrap_or(0),
            times: packed.into(),
            ends,
            data: data.into(),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// First and last time, Unix ms.
    pub fn range(&self) -> (i64, i64) {
        (self.min, self.max)
    }

    /// Whether any row may lie in `[start, end]`.
    pub fn overlaps(&self, start: i64, end: i64) -> bool {
        self.min <= end && self.max >= start
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.times.len() + self.data.len() + 4 * self.ends.len()
    }

    /// All times.
    pub fn times(&self) -> Result<Vec<i64>, Corrupt> {
        ints::decode(&self.times, self.rows)
    }

    /// The encoded times.
    pub fn encoded_times(&self) -> &[u8] {
        &self.times
    }

    /// One column, absent rows included.
    pub fn column(&self, c: usize) -> Result<Vec<f64>, Corrupt> {
        column::decode(self.stream(c), self.rows)
    }

    /// Replaces `out` by a column; returns true if some rows are absent.
    pub fn column_into(&self, c: usize, scratch: &mut Scratch, out: &mut Vec<f64>) -> Result<bool, Corrupt> {
        out.clear();
        column::decode_into(self.stream(c), self.rows, scratch, out)
    }

    fn stream(&self, c: usize) -> &[u8] {
        let start = if c == 0 { 0 } else { self.ends[c - 1] };
        &self.data[start as usize..self.ends[c] as usize]
    }
}
