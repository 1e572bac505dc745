//! Entry points for `fuzz`: decode the bytes of one file as opening and reading a store would. No disk access.

use crate::block::read::Block;
use crate::block_series::BlockSeries;
use crate::head::generation::Generation;
use crate::io::{Files, Input, Output};
use crate::options::SeriesLimits;
use crate::sample_limit::SampleLimit;
use crate::selection::Selection;
use crate::wal::replay;
use fabriclens_model::Unlimited;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Samples that one input may decode to.
const SAMPLES: usize = 1 << 20;

/// A file system with one file.
#[derive(Clone)]
struct Memory(Arc<[u8]>);

impl Input for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let from = usize::try_from(offset).ok();
        let part = from.and_then(|from| self.0.get(from..from.checked_add(len)?));
        part.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Files for Memory {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn create(&self, _: &Path) -> io::Result<Box<dyn Output>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open(&self, _: &Path) -> io::Result<Box<dyn Input>> {
        Ok(Box::new(self.clone()))
    }
    fn list(&self, _: &Path) -> io::Result<Vec<(String, u64)>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Opens a block file and reads all of it.
pub fn block(bytes: &[u8]) {
    let Ok(block) = Block::open(&Memory(bytes.into()), Path::new("000000000001.blk"), 1) else { return };
    let (block, limit) = (Arc::new(block), SampleLimit::new(SAMPLES));
    let mut found = Selection::new(&limit, false, &Unlimited);
    let Ok(sections) = BlockSeries::of(&block, &[], &Unlimited, &|_| {}) else { return };
    let all = (i64::MIN, i64::MAX);
    let mut add = |of: &BlockSeries<'_>| found.add_block(of, 0..of.series.len(), all, &|_| {});
    if sections.iter().try_for_each(&mut add).is_ok() {
        _ = found.finish(i64::MIN, i64::MAX);
    }
    if let Ok(index) = block.index() {
        _ = block.all_series(&index);
    }
}

/// Replays a log segment and reads all of it.
pub fn log(bytes: &[u8]) {
    let mut head = Generation::new(1, 16, &SeriesLimits::default());
    let path = Path::new("000000000001-0000.wal");
    let replayed = replay::segment(&Memory(bytes.into()), Path::new(""), path, &mut head, &[], &mut Vec::new());
    let series: Vec<u32> = (0..head.series.len() as u32).collect();
    let limit = SampleLimit::new(SAMPLES);
    let mut found = Selection::new(&limit, false, &Unlimited);
    if replayed.is_ok() && found.add_head(&head, &series, i64::MIN, i64::MAX).is_ok() {
        _ = found.finish(i64::MIN, i64::MAX);
    }
}
