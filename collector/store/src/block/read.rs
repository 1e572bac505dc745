//! An open block: its footer is in memory, its index and each section of that are loaded on first use, its pages are read and
//! verified on demand.

use super::file::{Footer, HEADER, MAGIC, TRAILER, VERSION, decode_footer};
use super::index::{self, Index, Page, Section};
use super::series_list::SeriesList;
use crate::codec::crc_matches;
use crate::codec::varint::Cursor;
use crate::error::StoreError;
use crate::io::{Files, Input};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Why a block could not be opened.
pub enum OpenFailure {
    /// Written by a newer release, with this format version.
    Newer(u32),
    /// Damaged or unreadable.
    Bad(StoreError),
}

/// An open block file.
pub struct Block {
    /// Number in its file name.
    pub id: u64,
    /// The file.
    pub path: PathBuf,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Summary from the end of the file.
    pub footer: Footer,
    version: u32,
    file: Box<dyn Input>,
    index: Mutex<Option<Arc<Index>>>,
    /// Maintenance rounds since the index was last used.
    idle: AtomicU32,
    /// A checksum failed: readable parts are still read, but it is never merged.
    pub damaged: AtomicBool,
}

/// File name of a block.
pub fn name(id: u64) -> String {
    format!("{id:012}.blk")
}

/// Number in the file name of a block.
pub fn parse_name(name: &str) -> Option<u64> {
    name.strip_suffix(".blk")?.parse().ok()
}

impl Block {
    /// Reads and verifies header, trailer and footer.
    pub fn open(files: &dyn Files, path: &Path, id: u64) -> Result<Self, OpenFailure> {
        let io = |e: std::io::Error| OpenFailure::Bad(StoreError::io("read", path, &e));
        let bad = |m: &str| OpenFailure::Bad(StoreError::damaged(path, m));
        let file = files.open(path).map_err(io)?;
        let size = file.size();
        if size < HEADER + TRAILER {
            return Err(bad("file is shorter than the smallest block"));
        }
        let head = file.read_at(0, HEADER as usize).map_err(io)?;
        let tail = file.read_at(size - TRAILER, TRAILER as usize).map_err(io)?;
        let word = |b: &[u8], i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        if head[..8] != MAGIC || !crc_matches(&head[..12], word(&head, 12)) {
            return Err(bad("header checksum mismatch"));
        }
        if word(&head, 8) > VERSION {
            return Err(OpenFailure::Newer(word(&head, 8)));
        }
        let len = u64::from(word(&tail, 0));
        if tail[8..] != MAGIC || len > size - HEADER - TRAILER {
            return Err(bad("trailer is invalid"));
        }
        let footer = file.read_at(size - TRAILER - len, len as usize).map_err(io)?;
        if !crc_matches(&footer, word(&tail, 4)) {
            return Err(bad("footer checksum mismatch"));
        }
        let footer = decode_footer(&footer).map_err(|e| bad(e.0))?;
        Ok(Self {
            id,
            path: path.into(),
            bytes: size,
            footer,
            version: word(&head, 8),
            file,
            index: Mutex::new(None),
            idle: AtomicU32::new(0),
            damaged: AtomicBool::new(false),
        })
    }

    /// Whether any sample may lie in `[start, end]`.
    pub fn overlaps(&self, start: i64, end: i64) -> bool {
        self.footer.min <= end && self.footer.max >= start
    }

    /// Its index, loaded on first use and kept until it has been idle for a while.
    pub fn index(&self) -> Result<Arc<Index>, StoreError> {
        self.idle.store(0, Ordering::Relaxed);
        let mut slot = self.index.lock();
        if let Some(index) = &*slot {
            return Ok(index.clone());
        }
        let Footer { index_offset, index_len, index_crc, .. } = self.footer;
        let bytes = self.bytes_at(index_offset, usize::try_from(index_len).unwrap_or(usize::MAX))?;
        if !crc_matches(&bytes, index_crc) {
            return Err(self.damage("index checksum mismatch"));
        }
        let index = index::decode(&bytes, self.version, HEADER, index_offset).map_err(|e| self.damage(e))?;
        let index = Arc::new(index);
        *slot = Some(index.clone());
        Ok(index)
    }

    /// The series of a section, loaded on first use and kept as long as the index.
    pub fn series(&self, section: &Section, index: &Index) -> Result<Arc<SeriesList>, StoreError> {
        let mut slot = section.list.lock();
        if let Some(list) = &*slot {
            return Ok(list.clone());
        }
        let mut list = SeriesList::default();
        self.decode(section, index, &mut list)?;
        let list = Arc::new(list.shrunk());
        *slot = Some(list.clone());
        Ok(list)
    }

    /// The series of a section, which are not kept.
    pub fn series_once(&self, section: &Section, index: &Index) -> Result<Arc<SeriesList>, StoreError> {
        if let Some(list) = &*section.list.lock() {
            return Ok(list.clone());
        }
        let mut list = SeriesList::default();
        self.decode(section, index, &mut list)?;
        Ok(Arc::new(list))
    }

    /// The series of all sections.
    pub fn all_series(&self, index: &Index) -> Result<Arc<SeriesList>, StoreError> {
        if let [only] = &index.sections[..] {
            return self.series(only, index);
        }
        let mut all = SeriesList::default();
        index.sections.iter().try_for_each(|section| self.decode(section, index, &mut all))?;
        Ok(Arc::new(all.shrunk()))
    }

    /// Appends the series of a section.
    fn decode(&self, section: &Section, index: &Index, list: &mut SeriesList) -> Result<(), StoreError> {
        let bytes = self.page(section.page)?;
        let mut cursor = Cursor::new(&bytes);
        list.decode(&mut cursor, section.series, 0, &index.tables).map_err(|e| self.damage(e))?;
        if cursor.rest().is_empty() { Ok(()) } else { Err(self.damage("a section is longer than its series")) }
    }

    /// The bytes of a page, verified.
    pub fn page(&self, page: Page) -> Result<Vec<u8>, StoreError> {
        let bytes = self.bytes_at(page.offset, page.len as usize)?;
        if crc_matches(&bytes, page.crc) {
            return Ok(bytes);
        }
        Err(self.damage(format!("checksum mismatch in the page of {} bytes at offset {}", page.len, page.offset)))
    }

    fn bytes_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        self.file.read_at(offset, len).map_err(|e| StoreError::io("read", &self.path, &e))
    }

    fn damage(&self, what: impl ToString) -> StoreError {
        StoreError::damaged(&self.path, what)
    }

    /// Bytes of memory that its loaded index takes; 0 while it is being loaded.
    pub fn index_memory(&self) -> usize {
        self.index.try_lock().and_then(|slot| slot.as_ref().map(|index| index.memory())).unwrap_or(0)
    }

    /// Drops an index that was not used during the last `rounds` calls.
    pub fn drop_idle_indexes(&self, rounds: u32) {
        if self.idle.fetch_add(1, Ordering::Relaxed) >= rounds {
            *self.index.lock() = None;
        }
    }
}
