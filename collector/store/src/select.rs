//! Reads the samples of head and blocks, many series on several threads.

use crate::block::read::Block;
use crate::block_series::BlockSeries;
use crate::block_set::Blocks;
use crate::error::StoreError;
use crate::head_walk::HeadSeries;
use crate::label_ranges::{LabelOrdered, LabelRanges, on_threads, threads};
use crate::sample_limit::SampleLimit;
use crate::selection::Selection;
use crate::store::Store;
use fabriclens_model::{Budget, Labels, Matcher, ReadError, SharedSeries};
use std::sync::Arc;

/// What a read asks for.
pub(crate) struct Wanted<'a> {
    pub matchers: &'a [Matcher],
    /// First and last time, Unix ms.
    pub times: (i64, i64),
    /// Only the newest sample of each series.
    pub newest: bool,
    pub budget: &'a dyn Budget,
}

/// How many series a read visits at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartSize {
    /// All.
    All,
    /// As many as have about [`PART_SAMPLES`] samples, on each thread.
    Some,
}

/// Samples of a part: 4 MB, of which the caches keep most until they are visited.
const PART_SAMPLES: usize = 1 << 18;
/// Series of the first part, of which the number of samples is not known.
const FIRST_PART: usize = 1024;
/// Bounds of the series of a part: each has to find its place in each block.
const SMALLEST_PART: usize = 256;
const LARGEST_PART: usize = 1 << 14;

impl Store {
    /// Samples of the head and of the chosen blocks, in label order, and the current block set.
    pub(crate) fn select_blocks(
        &self,
        wanted: &Wanted<'_>,
        chosen: impl Fn(&Arc<Block>) -> bool,
    ) -> Result<(Vec<SharedSeries>, Blocks), ReadError> {
        let mut all = Vec::new();
        let blocks = self.visit_blocks(wanted, chosen, PartSize::All, &mut |mut some| {
            all.append(&mut some);
            true
        })?;
        Ok((all, blocks))
    }

    /// Visits the same, some of the series after the other, until `visit` returns false.
    pub(crate) fn visit_blocks(
        &self,
        wanted: &Wanted<'_>,
        chosen: impl Fn(&Arc<Block>) -> bool,
        size: PartSize,
        visit: &mut dyn FnMut(Vec<SharedSeries>) -> bool,
    ) -> Result<Blocks, ReadError> {
        let mut last: Option<Labels> = None;
        loop {
            let heads = self.head_series(wanted.matchers, wanted.budget)?;
            // As of afterwards: rows that had left the head are in them.
            let blocks = self.shared.blocks.all();
            if self.visit_from(wanted, (heads, &blocks), &chosen, size, (&mut last, visit))? {
                return Ok(blocks);
            }
        }
    }

    /// Visits series of these generations and blocks after the `last` one that was visited; false if rows that were not read yet have
    /// left the head for blocks that are not among these.
    fn visit_from(
        &self,
        wanted: &Wanted<'_>,
        (mut heads, blocks): (Vec<HeadSeries<'_>>, &Blocks),
        chosen: &dyn Fn(&Arc<Block>) -> bool,
        size: PartSize,
        (last, visit): (&mut Option<Labels>, &mut dyn FnMut(Vec<SharedSeries>) -> bool),
    ) -> Result<bool, ReadError> {
        let (start, end) = wanted.times;
        let mut found = Vec::new();
        for block in blocks.iter().filter(|b| b.overlaps(start, end) && chosen(b)) {
            let damage = |e: &StoreError| self.shared.report(block, e);
            found.extend(BlockSeries::of(block, wanted.matchers, wanted.budget, &damage)?);
        }
        let longest = heads.iter().map(LabelOrdered::len).chain(found.iter().map(LabelOrdered::len)).max().unwrap_or(0);
        let threads = threads(longest);
        let mut each = match size {
            PartSize::All => longest.div_ceil(threads),
            PartSize::Some => FIRST_PART,
        };
        if longest > each || last.is_some() {
            heads.iter_mut().try_for_each(|head| head.arrange(wanted.budget))?;
        }
        let sorted = heads.len() < 2 && heads.iter().all(|head| head.in_label_order);
        let of_heads = heads.iter().map(|head| head as &dyn LabelOrdered);
        let lists: Vec<_> = of_heads.chain(found.iter().map(|of_block| of_block as &dyn LabelOrdered)).collect();
        let mut ranges = LabelRanges::after(&lists, last.as_ref());
        loop {
            let parts: Vec<_> = std::iter::from_fn(|| ranges.next(each)).take(threads).collect();
            if parts.is_empty() {
                return Ok(true);
            }
            let (before, limit) = (wanted.budget.taken(), SampleLimit::new(self.shared.options.max_samples));
            let series = on_threads(parts, |of_lists| {
                let (of_heads, of_blocks) = of_lists.split_at(heads.len());
                let new = || Selection::new(&limit, wanted.newest, wanted.budget);
                let (mut all, mut recent) = (new(), new());
                for (of_block, some) in found.iter().zip(of_blocks) {
                    let damage = |e: &StoreError| self.shared.report(of_block.block, e);
                    all.add_block(of_block, some.clone(), wanted.times, &damage)?;
                }
                for (head, some) in heads.iter().zip(of_heads) {
                    let add = |generation: &_, series: &[u32]| recent.add_head(generation, series, start, end);
                    head.visit(some.clone(), wanted.budget, add)?;
                }
                // The series of one generation are in order already, and comparing their labels takes as long as reading them.
                if !sorted {
                    recent.arrange();
                }
                all.append(recent)?;
                all.finish(start, end)
            })?;
            if heads.iter().any(HeadSeries::is_gone) {
                return Ok(false);
            }
            let took = wanted.budget.taken().saturating_sub(before);
            let samples: usize = series.iter().flatten().map(|one| one.values.len()).sum();
            let count: usize = series.iter().map(Vec::len).sum();
            if let Some(newest) = series.iter().rev().find_map(|some| some.last()) {
                *last = Some(newest.labels.clone());
            }
            if !series.into_iter().all(&mut *visit) {
                return Ok(true);
            }
            if size == PartSize::Some {
                wanted.budget.give_back(took);
                each = (PART_SAMPLES * count / samples.max(1)).clamp(SMALLEST_PART, LARGEST_PART);
            }
        }
    }
}
