//! Table of the blocks that are rolled up, kept in the metadata database.

use crate::block::read::Block;
use crate::error::StoreError;
use crate::metadata::{MetadataBatch, MetadataDb, MetadataTable};
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// Orders blocks by the time they were made, newest first.
pub fn newest_first(a: &Arc<Block>, b: &Arc<Block>) -> Ordering {
    let made = |block: &Block| (block.footer.generations.1, block.id);
    made(b).cmp(&made(a))
}

/// Name of the table.
pub const TABLE: &str = "rolled";

/// Numbers of the blocks that are rolled up. A block missing here is rolled up again.
pub struct RolledUp {
    table: MetadataTable,
    known: Mutex<HashSet<u64>>,
    /// Held while the table is written, so that reads do not wait for the disk.
    writing: Mutex<()>,
}

impl RolledUp {
    /// Loads the entries of existing `blocks`; drops the others, because their numbers will be reused.
    pub fn open(db: &Arc<MetadataDb>, blocks: &[Arc<Block>]) -> Result<Self, StoreError> {
        let (table, mut known, mut gone) = (db.table(TABLE), HashSet::new(), MetadataBatch::default());
        let there: HashSet<u64> = blocks.iter().map(|b| b.id).collect();
        table.each(|key, _| match key.try_into().map(u64::from_be_bytes) {
            Ok(id) if there.contains(&id) => _ = known.insert(id),
            _ => gone.remove(&table, key),
        })?;
        table.commit(&gone)?;
        Ok(Self { table, known: Mutex::new(known), writing: Mutex::default() })
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
        let _writing = self.writing.lock();
        let mut batch = MetadataBatch::default();
        gone.iter().for_each(|id| batch.remove(&self.table, id.to_be_bytes()));
        add.iter().for_each(|id| batch.put(&self.table, id.to_be_bytes(), []));
        self.table.commit(&batch)?;
        let mut known = self.known.lock();
        gone.iter().for_each(|id| _ = known.remove(id));
        known.extend(add);
        Ok(())
    }
}
