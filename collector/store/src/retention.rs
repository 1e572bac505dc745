//! Retention: removes blocks that are too old, and the oldest ones while there are too many bytes.

use crate::block::read::Block;
use crate::block_set::BlockSet;
use crate::error::StoreError;
use crate::options::millis;
use crate::shared::Shared;
use std::sync::Arc;
use std::time::Duration;

/// Rollups are removed last when bytes are short, unless they exceed this fraction (1/n) of the limit.
const ROLLUPS: u64 = 4;

impl Shared {
    /// Applies retention to rollups and blocks.
    pub fn retain(&self) -> Result<(), StoreError> {
        let mut bytes = self.blocks.bytes() + self.rollups.bytes() + self.log.lock().bytes;
        let most = self.options.max_bytes.unwrap_or(u64::MAX);
        let spare = self.rollups.bytes().saturating_sub(most / ROLLUPS);
        self.retain_on(
            &self.rollups,
            self.options.rollup_retention(),
            bytes.saturating_sub(most).min(spare),
            &mut bytes,
        )?;
        let gone = self.retain_on(&self.blocks, self.options.retention, bytes.saturating_sub(most), &mut bytes)?;
        self.rolled_up.forget(&gone)
    }

    /// Removes blocks older than `age`, and at least `surplus` bytes if there are that many; returns their numbers.
    fn retain_on(
        &self,
        set: &BlockSet,
        age: Option<Duration>,
        surplus: u64,
        bytes: &mut u64,
    ) -> Result<Vec<u64>, StoreError> {
        let mut by_age: Vec<Arc<Block>> = set.all().iter().cloned().collect();
        by_age.sort_by_key(|b| b.footer.max);
        let oldest = age.map(|age| self.retention_clock.times((self.options.clock)()).age.saturating_sub(millis(age)));
        let mut freed = 0;
        by_age.retain(|block| {
            let goes = oldest.is_some_and(|oldest| block.footer.max < oldest) || freed < surplus;
            freed += if goes { block.bytes } else { 0 };
            goes
        });
        *bytes = bytes.saturating_sub(freed);
        let gone: Vec<u64> = by_age.iter().map(|b| b.id).collect();
        if !gone.is_empty() {
            tracing::info!(blocks = gone.len(), dir = %set.dir.display(), "removing expired blocks");
            set.exchange(Vec::new(), &gone);
            self.head.write().changed.record(i64::MIN);
            set.remove_files(&*self.files, &by_age)?;
        }
        Ok(gone)
    }
}
