//! Rolls up the blocks whose window is complete.

use super::kind::{RESOLUTION, interval_start};
use super::source::RollupSource;
use crate::block::build::Plan;
use crate::block::read::Block;
use crate::block::source::Source;
use crate::error::StoreError;
use crate::options::millis;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        let source = |rollups| Source::Rollup(Box::new(rollups));
        let written = RollupSource::of(block)
            .and_then(|all| self.write_block(&self.rollups, &mut [source(all)], plan, self.yield_to_ingest()));
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
