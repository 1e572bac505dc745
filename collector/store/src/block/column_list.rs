//! Where the columns of series are in a block.

use super::tables::ChunkMeta;

/// Places of the columns of series.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ColumnList {
    rows: Vec<Row>,
    lens: Vec<u32>,
}

/// The columns of a series, which are contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    layout: u32,
    lens: u32,
    offset: u64,
}

impl ColumnList {
    /// Adds a series; the lengths of its column in each chunk of the layout follow.
    pub fn begin(&mut self, layout: u32, offset: u64) {
        self.rows.push(Row { layout, lens: self.lens.len() as u32, offset });
    }

    /// Adds the length of its column in the next chunk.
    pub fn push(&mut self, len: u32) {
        self.lens.push(len);
    }

    /// Appends the columns of other series.
    pub fn append(&mut self, other: &Self) {
        let first = self.lens.len() as u32;
        self.rows.extend(other.rows.iter().map(|row| Row { lens: first + row.lens, ..*row }));
        self.lens.extend(&other.lens);
    }

    /// Gives back room that is not used.
    pub fn shrink_to_fit(&mut self) {
        self.rows.shrink_to_fit();
        self.lens.shrink_to_fit();
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of_val(&self.rows[..]) + size_of_val(&self.lens[..])
    }

    /// Layout index of a series.
    pub fn layout(&self, series: usize) -> usize {
        self.rows[series].layout as usize
    }

    /// Offset and length of the column of a series in each chunk of its layout.
    pub fn of(&self, series: usize, layouts: &[Vec<ChunkMeta>]) -> impl Iterator<Item = (u64, u32)> + '_ {
        let row = self.rows[series];
        let chunks = layouts[row.layout as usize].len();
        let lens = &self.lens[row.lens as usize..row.lens as usize + chunks];
        lens.iter().scan(row.offset, |at, len| {
            let here = *at;
            *at = at.wrapping_add(u64::from(*len));
            Some((here, *len))
        })
    }
}
