//! What the sections of a block refer to: label texts and layouts.

use std::sync::Arc;

/// Rows of one layout that are compressed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkMeta {
    /// Number of rows.
    pub rows: u32,
    /// First time, Unix ms.
    pub min: i64,
    /// Last time, Unix ms.
    pub max: i64,
    /// Offset of the encoded times in the file.
    pub offset: u64,
    /// Bytes of the times.
    pub len: u32,
}

/// Texts and layouts by number.
#[derive(Debug, Default)]
pub struct Tables {
    /// Label texts, sorted.
    pub texts: Vec<Arc<str>>,
    /// Chunks by layout.
    pub layouts: Vec<Vec<ChunkMeta>>,
}

impl Tables {
    /// Number of a text.
    pub fn number(&self, text: &str) -> Option<u32> {
        self.texts.binary_search_by(|known| (**known).cmp(text)).ok().map(|at| at as u32)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        // An `Arc` has two counters before the text.
        let texts: usize = self.texts.iter().map(|t| t.len() + size_of::<Arc<str>>() + 2 * size_of::<usize>()).sum();
        texts + self.layouts.iter().map(|l| size_of_val(l) + size_of_val(&l[..])).sum::<usize>()
    }
}
