//! Decoded times of sealed chunks, kept for the late rows of one append: the columns of a row, and rows that follow each
//! other, are compared with the same chunks.

use super::chunk::Chunk;
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Chunks whose times are kept, about a kilobyte each.
const CHUNKS: usize = 64;

/// Times by address of their chunk. No chunk is dropped while an append holds the head, so an address stays its own.
pub struct SealedTimes(HashMap<*const Chunk, Vec<i64>>);

impl Default for SealedTimes {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl SealedTimes {
    /// The row of a chunk at a time, Unix ms.
    pub fn row(&mut self, chunk: &Arc<Chunk>, time: i64) -> Option<usize> {
        if !chunk.overlaps(time, time) {
            return None;
        }
        if self.0.len() == CHUNKS && !self.0.contains_key(&Arc::as_ptr(chunk)) {
            self.0.clear();
        }
        // Chunks in memory were encoded by this process, so a decode error is impossible here.
        let times = self.0.entry(Arc::as_ptr(chunk)).or_insert_with(|| chunk.times().unwrap_or_default());
        times.binary_search(&time).ok()
    }
}
