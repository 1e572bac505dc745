//! What goes: blocks that are too old, and the oldest ones while there are too many bytes.

use crate::block::read::Block;
use crate::blocks::Shelf;
use crate::error::StoreError;
use crate::options::millis;
use crate::store::Shared;
use std::sync::Arc;
use std::time::Duration;

/// Rollups are the last to go when bytes are short, unless they have more than this part of them.
const ROLLUPS: u64 = 4;

impl Shared {
    /// Applies retention to blocks and rollups.
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
        self.rolled.forget(&gone)
    }

    /// Removes what is older than `age`, and at least `surplus` bytes as far as there are any; returns their numbers.
    fn retain_on(
        &self,
        shelf: &Shelf,
        age: Option<Duration>,
        surplus: u64,
        bytes: &mut u64,
    ) -> Result<Vec<u64>, StoreError> {
        let mut by_age: Vec<Arc<Block>> = shelf.all().iter().cloned().collect();
        by_age.sort_by_key(|b| b.facts.max);
        let oldest = age.map(|age| self.aging.times((self.options.clock)()).age.saturating_sub(millis(age)));
        let mut freed = 0;
        by_age.retain(|block| {
            let goes = oldest.is_some_and(|oldest| block.facts.max < oldest) || freed < surplus;
            freed += if goes { block.bytes } else { 0 };
            goes
        });
        *bytes = bytes.saturating_sub(freed);
        let gone: Vec<u64> = by_age.iter().map(|b| b.id).collect();
        if !gone.is_empty() {
            tracing::info!(blocks = gone.len(), dir = %shelf.dir.display(), "retention removes blocks");
            shelf.exchange(Vec::new(), &gone);
            shelf.remove_files(&*self.files, &by_age)?;
        }
        Ok(gone)
    }
}
