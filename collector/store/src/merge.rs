//! Chooses blocks to merge. Few large blocks read faster and compress better than many small ones.

use crate::block::build::Plan;
use crate::block::read::Block;
use crate::block::source::{BlockSource, Source};
use crate::block_set::BlockSet;
use crate::error::StoreError;
use crate::options::millis;
use crate::rollup;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of similar size that are merged while their window still grows.
const FAN: usize = 4;
/// Window widths in block spans; when a window is over it is merged into the next wider one.
const LEVELS: [i64; 3] = [1, 6, 36];

impl Shared {
    /// Merges until no merge is worthwhile.
    pub fn merge(&self, set: &BlockSet) -> Result<(), StoreError> {
        while !self.closed.load(Ordering::Acquire) {
            let blocks = set.all();
            let span = millis(self.options.block_span).max(1);
            let Some(chosen) = choose(&blocks, span, self.widest(span), (self.options.clock)()) else {
                return Ok(());
            };
            if !self.merge_these(set, chosen)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Blocks expire as a whole, so none may cover a large part of the retention.
    fn widest(&self, span: i64) -> i64 {
        self.options.retention.map_or(i64::MAX, |r| (millis(r) / 10).max(span))
    }

    /// Returns false if a block is damaged: it stays unmerged and is not chosen again.
    fn merge_these(&self, set: &BlockSet, mut chosen: Vec<Arc<Block>>) -> Result<bool, StoreError> {
        if set.rollups {
            chosen.sort_by(rollup::newest_first);
        }
        let mut sources = Vec::with_capacity(chosen.len());
        for block in &chosen {
            match BlockSource::of(block) {
                Ok(source) => sources.push(Source::Block(Box::new(source))),
                Err(e @ StoreError::Damaged { .. }) => {
                    self.report(block, &e);
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        let plan = Plan {
            start: i64::MIN,
            end: i64::MAX,
            generations: (
                chosen.iter().map(|b| b.footer.generations.0).min().unwrap_or(0),
                chosen.iter().map(|b| b.footer.generations.1).max().unwrap_or(0),
            ),
            parents: chosen.iter().map(|b| b.id).collect(),
        };
        match self.write_block(set, &mut sources, plan, self.yield_to_ingest()) {
            Ok(merged) => {
                let gone: Vec<u64> = chosen.iter().map(|b| b.id).collect();
                if !set.rollups {
                    self.rolled_up.merged(&gone, merged.as_ref().map(|b| b.id))?;
                }
                set.exchange(merged.into_iter().collect(), &gone);
                set.remove_files(&*self.files, &chosen)?;
                Ok(true)
            }
            Err(StoreError::Damaged { path, message }) => {
                let e = StoreError::Damaged { path, message };
                for block in chosen.iter().filter(|b| matches!(&e, StoreError::Damaged { path, .. } if *path == b.path))
                {
                    self.report(block, &e);
                }
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }
}

/// The next merge, if any: all blocks of a window that is over, or a run of similar size in one that is not.
fn choose(blocks: &[Arc<Block>], span: i64, widest: i64, now: i64) -> Option<Vec<Arc<Block>>> {
    for (level, width) in LEVELS.iter().enumerate() {
        let width = span.saturating_mul(*width);
        if width > widest {
            break;
        }
        let mut sound: Vec<&Arc<Block>> =
            blocks.iter().filter(|b| !b.damaged.load(Ordering::Relaxed) && window(b, width).is_some()).collect();
        sound.sort_by_key(|b| (window(b, width), b.footer.generations, b.id));
        for group in sound.chunk_by(|a, b| window(a, width) == window(b, width)) {
            if group.len() < 2 {
                continue;
            }
            let end = window(group[0], width).map_or(i64::MAX, |w| (w + 1).saturating_mul(width));
            // Late samples arrive for a while after a window is over.
            let over = end.saturating_add(width / 4) < now;
            let candidate = if over {
                group.to_vec()
            } else if level == 0 {
                match run_of_like_size(group) {
                    Some(run) => run.to_vec(),
                    None => continue,
                }
            } else {
                continue;
            };
            if keeps_order(blocks, &candidate) {
                return Some(candidate.into_iter().cloned().collect());
            }
        }
    }
    None
}

/// The window that contains all of a block.
fn window(b: &Block, width: i64) -> Option<i64> {
    let w = b.footer.min.div_euclid(width);
    (b.footer.max.div_euclid(width) == w).then_some(w)
}

fn run_of_like_size<'a, 'b>(group: &'a [&'b Arc<Block>]) -> Option<&'a [&'b Arc<Block>]> {
    group.windows(FAN).find(|run| {
        let bytes = run.iter().map(|b| b.bytes);
        let (min, max) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
        max <= min.saturating_mul(8)
    })
}

/// Whether no remaining block lies between the chosen ones in generations and overlaps them in time. Otherwise it
/// would change sides in "the first sample wins".
fn keeps_order(blocks: &[Arc<Block>], chosen: &[&Arc<Block>]) -> bool {
    let all = |f: fn(&Block) -> i64| chosen.iter().map(move |b| f(b));
    let (start, end) = (all(|b| b.footer.min).min(), all(|b| b.footer.max).max());
    let first = chosen.iter().map(|b| b.footer.generations.0).min();
    let last = chosen.iter().map(|b| b.footer.generations.1).max();
    let (Some(start), Some(end), Some(first), Some(last)) = (start, end, first, last) else {
        return false;
    };
    !blocks.iter().any(|b| {
        let (from, to) = b.footer.generations;
        !chosen.iter().any(|c| c.id == b.id) && b.overlaps(start, end) && from <= last && to >= first
    })
}
