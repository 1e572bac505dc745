//! Table of the blocks that are rolled up, kept in the metadata database.

use crate::block::read::Block;
use crate::error::StoreError;
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// Orders blocks by the time they were made, newest first.
pub fn newest_first(a: &Arc<Block>, b: &Arc<Block>) -> Ordering {
    let made = |block: &Block| (block.footer.generations.1, block.id);
    made(b).cmp(&made(a))
}

/// Numbers of the blocks that are rolled up. A block missing here is rolled up again.
pub struct RolledUp {
    tree: sled::Tree,
    known: Mutex<HashSet<u64>>,
}

impl RolledUp {
    /// Opens the table without loading it.
    pub fn open(db: &sled::Db) -> Result<Self, sled::Error> {
        Ok(Self { tree: db.open_tree("rolled")?, known: Mutex::default() })
    }

    /// Loads the entries of existing `blocks`; drops the others, because their numbers will be reused.
    pub fn keep(self, blocks: &[Arc<Block>]) -> Result<Self, sled::Error> {
        let there: HashSet<u64> = blocks.iter().map(|b| b.id).collect();
        let mut changed = false;
        for entry in &self.tree {
            let (key, _) = entry?;
            match key.as_ref().try_into().map(u64::from_be_bytes) {
                Ok(id) if there.contains(&id) => _ = self.known.lock().insert(id),
                _ => changed |= self.tree.remove(key)?.is_some(),
            }
        }
        if changed {
            self.tree.flush()?;
        }
        Ok(self)
    }

    /// Whether a block is rolled up.
    pub fn has(&self, id: u64) -> bool {
        self.known.lock().contains(&id)
    }

    /// All rolled-up blocks.
    pub fn all(&self) -> Vec<u64> {
        self.known.lock().iter().copied().collect()
    }

    /// Adds blocks.
    pub fn add(&self, ids: &[u64]) -> Result<(), StoreError> {
        self.change(&[], ids)
    }

    /// Removes blocks.
    pub fn forget(&self, gone: &[u64]) -> Result<(), StoreError> {
        self.change(gone, &[])
    }

    /// Replaces merged blocks by their result, which is rolled up if all of them were.
    pub fn merged(&self, gone: &[u64], into: Option<u64>) -> Result<(), StoreError> {
        let into = into.filter(|_| gone.iter().all(|id| self.has(*id)));
        self.change(gone, into.as_slice())
    }

    fn change(&self, gone: &[u64], add: &[u64]) -> Result<(), StoreError> {
        let mut known = self.known.lock();
        let write = || {
            gone.iter().try_for_each(|id| self.tree.remove(id.to_be_bytes()).map(|_| ()))?;
            add.iter().try_for_each(|id| self.tree.insert(id.to_be_bytes(), &[]).map(|_| ()))?;
            if gone.is_empty() && add.is_empty() { Ok(0) } else { self.tree.flush() }
        };
        write().map_err(|e| StoreError::Metadata(e.to_string()))?;
        gone.iter().for_each(|id| _ = known.remove(id));
        known.extend(add);
        Ok(())
    }
}
