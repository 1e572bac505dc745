//! Reads columns of a block.

use super::index::Index;
use super::read::Block;
use crate::codec::column::Scratch;
use crate::codec::{Corrupt, column};
use crate::error::StoreError;
use crate::series_builder::TimesCache;
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Bytes of pages that a reader of a build keeps: the columns of a layout lie in all of a batch.
pub const BUILD_PAGES: usize = 96 << 20;

/// Reads columns; verifies each page once.
pub struct Reader {
    /// The block's index.
    pub index: Arc<Index>,
    block: Arc<Block>,
    pages: HashMap<usize, Arc<Vec<u8>>>,
    times: HashMap<(usize, usize), Arc<[i64]>>,
    decoded: TimesCache,
    /// Bytes of cached pages, and from how many on they are dropped.
    kept: usize,
    keep: usize,
}

impl Reader {
    /// A reader that caches about `keep` bytes of pages.
    pub fn new(block: Arc<Block>, index: Arc<Index>, keep: usize) -> Self {
        let (pages, times, decoded) = (HashMap::new(), HashMap::new(), TimesCache::default());
        Self { index, block, pages, times, decoded, kept: 0, keep }
    }

    fn stream(&mut self, offset: u64, len: u32) -> Result<(Arc<Vec<u8>>, std::ops::Range<usize>), StoreError> {
        let damaged = |e: Corrupt| StoreError::damaged(&self.block.path, e);
        let number = self.index.page_of(offset, len).map_err(damaged)?;
        let page = self.index.pages[number];
        let start = (offset - page.offset) as usize;
        let range = start..start + len as usize;
        if let Some(bytes) = self.pages.get(&number) {
            return Ok((bytes.clone(), range));
        }
        let bytes = self.block.page(page)?;
        if self.kept > self.keep {
            self.pages.clear();
            self.kept = 0;
        }
        self.kept += bytes.len();
        let bytes = Arc::new(bytes);
        self.pages.insert(number, bytes.clone());
        Ok((bytes, range))
    }

    /// Times of a chunk, cached for the other columns of the layout.
    pub fn times(&mut self, layout: usize, chunk: usize) -> Result<Arc<[i64]>, StoreError> {
        if let Some(t) = self.times.get(&(layout, chunk)) {
            return Ok(t.clone());
        }
        let meta = self.index.tables.layouts[layout][chunk];
        let (page, range) = self.stream(meta.offset, meta.len)?;
        let times = self.decoded.times(&page[range], meta.rows as usize);
        let times = times.map_err(|e| StoreError::damaged(&self.block.path, e))?;
        self.times.insert((layout, chunk), times.clone());
        Ok(times)
    }

    /// Drops cached times; merges call it after each layout.
    pub fn forget_times(&mut self) {
        self.times.clear();
        self.decoded.clear();
    }

    /// The column of a series in one chunk; `at` comes from `ColumnList::of`.
    pub fn column(&mut self, at: (u64, u32), rows: usize) -> Result<Vec<f64>, StoreError> {
        if at.1 == 0 {
            return Ok(vec![fabriclens_model::absent(); rows]);
        }
        let mut values = Vec::with_capacity(rows);
        self.column_into(at, rows, &mut Scratch::default(), &mut values)?;
        Ok(values)
    }

    /// Replaces `out` by that column; returns true if some rows are absent.
    pub fn column_into(
        &mut self,
        at: (u64, u32),
        rows: usize,
        scratch: &mut Scratch,
        out: &mut Vec<f64>,
    ) -> Result<bool, StoreError> {
        out.clear();
        let (page, range) = self.stream(at.0, at.1)?;
        column::decode_into(&page[range], rows, scratch, out).map_err(|e| StoreError::damaged(&self.block.path, e))
    }
}
