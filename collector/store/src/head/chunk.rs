//! Sealed rows of one layout: one list of times, and each column compressed by its kind.

use crate::codec::column::Scratch;
use crate::codec::{Corrupt, column, ints};

/// An immutable chunk of compressed rows; shared with reads that outlive the head.
#[derive(Debug)]
pub struct Chunk {
    rows: u32,
    /// Bytes of the times.
    times: u32,
    min: i64,
    max: i64,
    /// The times, then the columns.
    bytes: Box<[u8]>,
    ends: Ends,
}

/// End of each column in a chunk's bytes.
#[derive(Debug)]
enum Ends {
    /// Of a chunk of less than 64 KiB, as most are.
    Short(Box<[u16]>),
    Long(Box<[u32]>),
}

impl Ends {
    fn new(ends: &[u32]) -> Self {
        let short = ends.iter().map(|end| u16::try_from(*end)).collect::<Result<_, _>>();
        short.map_or_else(|_| Self::Long(ends.into()), Self::Short)
    }

    fn get(&self, column: usize) -> usize {
        match self {
            Self::Short(ends) => usize::from(ends[column]),
            Self::Long(ends) => ends[column] as usize,
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Short(ends) => size_of_val(&ends[..]),
            Self::Long(ends) => size_of_val(&ends[..]),
        }
    }
}

impl Chunk {
    /// Compresses rows; `times` must ascend and not be empty, `fill(c, out)` appends one value per row.
    pub fn build(times: &[i64], columns: usize, fill: impl Fn(usize, &mut Vec<f64>)) -> Self {
        let mut bytes = Vec::new();
        ints::encode(times, &mut bytes);
        let length_of_times = bytes.len() as u32;
        let mut values = Vec::with_capacity(times.len());
        let ends: Vec<u32> = (0..columns)
            .map(|c| {
                values.clear();
                fill(c, &mut values);
                column::encode(&values, &mut bytes);
                bytes.len() as u32
            })
            .collect();
        Self {
            rows: times.len() as u32,
            times: length_of_times,
            min: times.first().copied().unwrap_or(0),
            max: times.last().copied().unwrap_or(0),
            bytes: bytes.into(),
            ends: Ends::new(&ends),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// First and last time, Unix ms.
    pub fn range(&self) -> (i64, i64) {
        (self.min, self.max)
    }

    /// Whether any row may lie in `[start, end]`.
    pub fn overlaps(&self, start: i64, end: i64) -> bool {
        self.min <= end && self.max >= start
    }

    /// Bytes of the compressed rows.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.ends.memory()
    }

    /// All times.
    pub fn times(&self) -> Result<Vec<i64>, Corrupt> {
        ints::decode(self.encoded_times(), self.rows())
    }

    /// The encoded times.
    pub fn encoded_times(&self) -> &[u8] {
        &self.bytes[..self.times as usize]
    }

    /// One column, absent rows included.
    pub fn column(&self, c: usize) -> Result<Vec<f64>, Corrupt> {
        column::decode(self.stream(c), self.rows())
    }

    /// Replaces `out` by a column; returns true if some rows are absent.
    pub fn column_into(&self, c: usize, scratch: &mut Scratch, out: &mut Vec<f64>) -> Result<bool, Corrupt> {
        out.clear();
        column::decode_into(self.stream(c), self.rows(), scratch, out)
    }

    fn stream(&self, c: usize) -> &[u8] {
        let start = if c == 0 { self.times as usize } else { self.ends.get(c - 1) };
        &self.bytes[start..self.ends.get(c)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_short_and_long_chunks_are_found() {
        let times: Vec<i64> = (0..30).collect();
        let value = |column: usize, row: usize| ((column * 31 + row * row) as f64).sqrt();
        for (columns, short) in [(0, true), (100, true), (1000, false)] {
            let chunk = Chunk::build(&times, columns, |c, out| out.extend((0..30).map(|row| value(c, row))));
            assert_eq!((matches!(chunk.ends, Ends::Short(_)), chunk.times().unwrap()), (short, times.clone()));
            for c in 0..columns {
                assert_eq!(chunk.column(c).unwrap(), (0..30).map(|row| value(c, row)).collect::<Vec<_>>());
            }
        }
    }
}
