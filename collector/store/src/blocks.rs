//! The set of block files: found when the store opens, changed by flush, merge and retention.

use crate::block::read::{Block, OpenFailure, parse_name};
use crate::dir::DataDir;
use crate::error::{OpenError, StoreError};
use crate::io::Files;
use crate::store::Shared;
use crate::wal::replay::Damage;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Opens all blocks, in order of their generations, and gives the next free number. Unfinished files and blocks that a
/// merge has replaced are removed; a block that does not check is reported and left alone.
pub fn load(dir: &DataDir, files: &dyn Files, damage: &mut Vec<Damage>) -> Result<(Vec<Arc<Block>>, u64), OpenError> {
    let list = files.list(&dir.blocks).map_err(|e| OpenError::io("list", &dir.root, &dir.blocks, e))?;
    let mut blocks = Vec::new();
    let mut next = 1;
    for (name, bytes) in list {
        let path = dir.blocks.join(&name);
        if name.ends_with(".part") {
            // Left over by a crash; if it cannot be removed now, the next open tries again.
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
                tracing::warn!(error = %e, "block is left out");
                damage.push(Damage { path, offset: 0, bytes, message: e.to_string() });
            }
        }
    }
    let replaced: HashSet<u64> = blocks.iter().flat_map(|b| b.facts.parents.iter().copied()).collect();
    blocks.retain(|b| {
        let keep = !replaced.contains(&b.id);
        if !keep {
            let _ = files.remove(&b.path);
        }
        keep
    });
    sort(&mut blocks);
    Ok((blocks, next))
}

/// Earlier generations first: of two samples at one time the first one found counts.
pub fn sort(blocks: &mut [Arc<Block>]) {
    blocks.sort_by_key(|b| (b.facts.generations, b.id));
}

impl Shared {
    /// Swaps blocks in and out at once.
    pub fn exchange(&self, add: Vec<Arc<Block>>, remove: &[u64]) {
        let mut slot = self.blocks.write();
        let kept = slot.iter().filter(|b| !remove.contains(&b.id)).cloned();
        let mut next: Vec<_> = kept.chain(add).collect();
        sort(&mut next);
        *slot = Arc::new(next);
    }

    /// Removes the files of blocks that are no longer in the set. Open readers keep theirs until they are done.
    pub fn remove_files(&self, blocks: &[Arc<Block>]) -> Result<(), StoreError> {
        for block in blocks {
            self.files.remove(&block.path).map_err(|e| StoreError::io("remove", &block.path, &e))?;
        }
        let dir = &self.dir.blocks;
        self.files.sync_dir(dir).map_err(|e| StoreError::io("sync", dir, &e))
    }

    /// Notes damage in a block, once for each message.
    pub fn report(&self, block: &Block, e: &StoreError) {
        block.damaged.store(true, Ordering::Relaxed);
        let message = e.to_string();
        let mut damage = self.damage.lock();
        if damage.len() >= 1000 || damage.iter().any(|d| d.message == message) {
            return;
        }
        tracing::warn!(error = %message, "damaged block");
        damage.push(Damage { path: block.path.clone(), offset: 0, bytes: 0, message });
    }
}
