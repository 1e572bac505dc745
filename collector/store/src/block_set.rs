//! Block sets: loaded when the store opens, changed by flush, merge and retention. There are two: raw samples and
//! rollups.

use crate::block::read::{Block, OpenFailure, parse_name};
use crate::dir::DataDir;
use crate::error::{OpenError, StoreError};
use crate::io::Files;
use crate::wal::replay::Damage;
use parking_lot::RwLock;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The block set at one instant, ordered by generation.
pub(crate) type Blocks = Arc<Vec<Arc<Block>>>;

/// One directory of blocks.
pub struct BlockSet {
    /// The directory.
    pub dir: PathBuf,
    /// True for rollups. Of overlapping rollups the newest wins, of raw samples the first.
    pub rollups: bool,
    /// Replaced as a whole, so that reads hold no lock.
    blocks: RwLock<Blocks>,
}

/// Opens all blocks of raw samples or rollups and returns them with the next free number. Removes unfinished files and
/// blocks that a merge has replaced; a damaged block is reported and left alone.
pub fn load(
    data: &DataDir,
    rollups: bool,
    files: &dyn Files,
    damage: &mut Vec<Damage>,
) -> Result<(BlockSet, u64), OpenError> {
    let (root, dir) = (&data.root, if rollups { &data.rollups } else { &data.blocks });
    let list = files.list(dir).map_err(|e| OpenError::io("list", root, dir, e))?;
    let mut blocks = Vec::new();
    let mut next = 1;
    for (name, bytes) in list {
        let path = dir.join(&name);
        if name.ends_with(".part") {
            // Left by a crash; if it cannot be removed now, the next open tries again.
            let _ = files.remove(&path);
            continue;
        }
        let Some(id) = parse_name(&name) else { continue };
        next = next.max(id + 1);
        match Block::open(files, &path, id) {
            Ok(block) => blocks.push(Arc::new(block)),
            Err(OpenFailure::Newer(found)) => {
                let known = crate::block::file::VERSION;
                return Err(OpenError::Newer { path, found, known });
            }
            Err(OpenFailure::Bad(e)) => {
                tracing::warn!(error = %e, "damaged block is ignored");
                damage.push(Damage { path, offset: 0, bytes, message: e.to_string() });
            }
        }
    }
    let replaced: HashSet<u64> = blocks.iter().flat_map(|b| b.footer.parents.iter().copied()).collect();
    blocks.retain(|b| {
        let keep = !replaced.contains(&b.id);
        if !keep {
            let _ = files.remove(&b.path);
        }
        keep
    });
    sort(&mut blocks);
    Ok((BlockSet { dir: dir.into(), rollups, blocks: RwLock::new(Arc::new(blocks)) }, next))
}

/// Earlier generations first: of two samples at one time, the first one found wins.
fn sort(blocks: &mut [Arc<Block>]) {
    blocks.sort_by_key(|b| (b.footer.generations, b.id));
}

impl BlockSet {
    /// All blocks, earlier generations first.
    pub fn all(&self) -> Blocks {
        self.blocks.read().clone()
    }

    /// Adds and removes blocks atomically.
    pub fn exchange(&self, add: Vec<Arc<Block>>, remove: &[u64]) {
        let mut slot = self.blocks.write();
        let kept = slot.iter().filter(|b| !remove.contains(&b.id)).cloned();
        let mut next: Vec<_> = kept.chain(add).collect();
        sort(&mut next);
        *slot = Arc::new(next);
    }

    /// Deletes the files of blocks that are no longer in the set. Open readers keep their file handles.
    pub fn remove_files(&self, files: &dyn Files, blocks: &[Arc<Block>]) -> Result<(), StoreError> {
        for block in blocks {
            files.remove(&block.path).map_err(|e| StoreError::io("remove", &block.path, &e))?;
        }
        files.sync_dir(&self.dir).map_err(|e| StoreError::io("sync", &self.dir, &e))
    }

    /// Total size of the files, bytes.
    pub fn bytes(&self) -> u64 {
        self.all().iter().map(|b| b.bytes).sum()
    }
}
