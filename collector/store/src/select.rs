//! Reads the samples of head and blocks, many series on several threads.

use crate::block::read::Block;
use crate::block_series::BlockSeries;
use crate::block_set::Blocks;
use crate::error::StoreError;
use crate::label_ranges::{LabelOrdered, LabelRanges, label_ranges, on_threads, threads};
use crate::sample_limit::SampleLimit;
use crate::selection::Selection;
use crate::store::Store;
use fabriclens_model::{Budget, Labels, Matcher, ReadError, SharedSeries};
use std::cell::RefCell;
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

impl LabelOrdered for RefCell<Selection<'_>> {
    fn len(&self) -> usize {
        self.borrow().entries.len()
    }

    fn labels(&self, at: usize) -> Labels {
        self.borrow().entries[at].labels.clone()
    }
}

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
        let (start, end) = wanted.times;
        let limit = SampleLimit::new(self.shared.options.max_samples);
        let recent = RefCell::new(self.select_head(wanted, &limit)?);
        // As of afterwards: rows that leave the head meanwhile are in it, and duplicates are harmless.
        let blocks = self.shared.blocks.all();
        let mut found = Vec::new();
        for block in blocks.iter().filter(|b| b.overlaps(start, end) && chosen(b)) {
            let damage = |e: &StoreError| self.shared.report(block, e);
            found.extend(BlockSeries::of(block, wanted.matchers, wanted.budget, &damage)?);
        }
        let mut lists: Vec<&dyn LabelOrdered> = vec![&recent];
        lists.extend(found.iter().map(|of_block| of_block as &dyn LabelOrdered));
        let mut ranges = LabelRanges::of(&lists);
        let threads = threads(ranges.series());
        let mut each = match size {
            PartSize::All => ranges.series().div_ceil(threads),
            PartSize::Some => FIRST_PART,
        };
        loop {
            let part =
                || ranges.next(each).map(|of_lists| (recent.borrow_mut().take_out(of_lists[0].clone()), of_lists));
            let parts: Vec<_> = std::iter::from_fn(part).take(threads).collect();
            if parts.is_empty() {
                return Ok(blocks);
            }
            let (before, limit) = (wanted.budget.taken(), limit.rest());
            let series = on_threads(parts, |(recent, of_lists)| {
                let mut all = Selection::new(&limit, wanted.newest, wanted.budget);
                for (of_block, some) in found.iter().zip(&of_lists[1..]) {
                    let damage = |e: &StoreError| self.shared.report(of_block.block, e);
                    all.add_block(of_block, some.clone(), wanted.times, &damage)?;
                }
                all.append(recent)?;
                all.finish(start, end)
            })?;
            let took = wanted.budget.taken().saturating_sub(before);
            let samples: usize = series.iter().flatten().map(|one| one.values.len()).sum();
            let count: usize = series.iter().map(Vec::len).sum();
            if !series.into_iter().all(&mut *visit) {
                return Ok(blocks);
            }
            if size == PartSize::Some {
                wanted.budget.give_back(took);
                each = (PART_SAMPLES * count / samples.max(1)).clamp(SMALLEST_PART, LARGEST_PART);
            }
        }
    }

    /// The samples of the head, in label order.
    fn select_head<'a>(&self, wanted: &Wanted<'a>, limit: &'a SampleLimit) -> Result<Selection<'a>, ReadError> {
        let mut heads = self.head_series(wanted.matchers, wanted.budget)?;
        if heads.iter().any(|head| threads(head.len()) > 1) {
            heads.iter_mut().try_for_each(|head| head.arrange(wanted.budget))?;
        }
        let ranges = label_ranges(&heads.iter().map(|head| head as &dyn LabelOrdered).collect::<Vec<_>>());
        let parts = on_threads(ranges, |of_heads| {
            let mut part = Selection::new(limit, wanted.newest, wanted.budget);
            for (head, some) in heads.iter().zip(of_heads) {
                let (start, end) = wanted.times;
                head.visit(some, wanted.budget, |generation, series| part.add_head(generation, series, start, end))?;
            }
            // The series of one generation are in order already, and comparing their labels takes as long as reading them.
            if !(heads.len() == 1 && heads[0].in_label_order) {
                part.arrange();
            }
            Ok(part)
        })?;
        let mut all = Selection::new(limit, wanted.newest, wanted.budget);
        parts.into_iter().for_each(|part| all.extend(part));
        Ok(all)
    }
}
