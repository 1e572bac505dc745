//! The columns of a block's series while it is built.

/// A series of the block, and the location of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Index of the series in label order of the sources.
    pub series: u32,
    /// Index of its layout.
    pub layout: u32,
    /// Index of its first length in [`Entries::lengths`].
    pub lengths: u32,
    /// Offset of its column in the file; in the batch while it is not written.
    pub offset: u64,
}

/// Series with samples, and the bytes of their columns in each chunk of their layout.
#[derive(Default)]
pub struct Entries {
    /// In label order, once all are written.
    pub all: Vec<Entry>,
    /// Bytes of each column in each chunk.
    pub lengths: Vec<u32>,
}

impl Entries {
    /// Bytes of a column in each of the chunks of its layout.
    pub fn lengths_of(&self, entry: &Entry, chunks: usize) -> &[u32] {
        &self.lengths[entry.lengths as usize..][..chunks]
    }
}
