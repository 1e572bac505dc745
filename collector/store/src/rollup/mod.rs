//! Rollups: minimum, maximum, mean and last value of each minute of a series, and the increase of a counter. They are
//! ordinary blocks in a directory of their own and are kept longer than samples. A block is rolled up once its window
//! is complete for now; later samples form a new block, which is rolled up again. Of two rollups of one minute the
//! newer one wins.

mod read;
mod source;

pub use source::RollupSource;

use crate::block::build::Plan;
use crate::block::read::Block;
use crate::block::source::Source;
use crate::error::StoreError;
use crate::options::millis;
use crate::store::Shared;
use fabriclens_model::{Labels, Rollup};
use parking_lot::Mutex;
use std::cmp::Ordering as Order;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Length of a rollup interval, ms. An interval begins at a multiple of it and is stamped with its end.
pub const RESOLUTION: i64 = 60_000;

/// Label that names the kind of a rollup. No label of a sample can have this name, and it sorts right after
/// `__name__`, so that the rollups of a metric are adjacent.
pub const LABEL: &str = "__name__ rollup";

/// All kinds, ordered by name.
pub const ALL: [Rollup; 5] = [Rollup::Increase, Rollup::Last, Rollup::Max, Rollup::Mean, Rollup::Min];

/// Value of [`LABEL`] for a kind.
pub fn name(rollup: Rollup) -> &'static str {
    match rollup {
        Rollup::Increase => "increase",
        Rollup::Last => "last",
        Rollup::Max => "max",
        Rollup::Mean => "mean",
        Rollup::Min => "min",
    }
}

/// Labels of the samples behind a rollup; labels of samples are returned unchanged.
pub fn sample_labels(of: Labels) -> Labels {
    if of.get(LABEL).is_empty() { of } else { Labels::new(of.iter().filter(|(n, _)| *n != LABEL)) }
}

/// Orders blocks by the time they were made, newest first.
pub fn newest_first(a: &Arc<Block>, b: &Arc<Block>) -> Order {
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

impl Shared {
    /// Rolls up the blocks that are due.
    pub fn roll_up(&self) -> Result<(), StoreError> {
        let span = millis(self.options.block_span);
        // A minute must not span two blocks.
        if self.options.rollups.is_none() || span % RESOLUTION != 0 {
            return Ok(());
        }
        let over = (self.options.clock)().saturating_sub(span / 4);
        for block in self.blocks.all().iter() {
            let sound = |b: &Block| !b.damaged.load(Ordering::Relaxed);
            let end = block.footer.max.div_euclid(span).saturating_add(1).saturating_mul(span);
            if self.rolled_up.has(block.id) || !sound(block) || end >= over {
                continue;
            }
            // A block that shares minutes with it will be merged with it first.
            let (from, to) = (interval_start(block.footer.min), interval_start(block.footer.max));
            let shared = |b: &&Arc<Block>| b.id != block.id && sound(b) && b.overlaps(from, to + RESOLUTION - 1);
            if self.blocks.all().iter().find(shared).is_none() && !self.closed.load(Ordering::Acquire) {
                self.roll_up_one(block)?;
            }
        }
        Ok(())
    }

    fn roll_up_one(&self, block: &Arc<Block>) -> Result<(), StoreError> {
        let plan = Plan { start: i64::MIN, end: i64::MAX, generations: block.footer.generations, parents: Vec::new() };
        let source = |reader| Source::Rollup(Box::new(RollupSource::new(reader)));
        let written = block
            .reader()
            .and_then(|reader| self.write_block(&self.rollups, &mut [source(reader)], plan, self.yield_to_ingest()));
        match written {
            Ok(rollups) => {
                self.rollups.exchange(rollups.into_iter().collect(), &[]);
                self.rolled_up.add(&[block.id])
            }
            Err(e @ StoreError::Damaged { .. }) => {
                self.report(block, &e);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}

/// Start of the interval that contains a time.
fn interval_start(time: i64) -> i64 {
    time.div_euclid(RESOLUTION).saturating_mul(RESOLUTION)
}
