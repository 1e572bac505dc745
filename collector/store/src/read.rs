//! The store's answers: samples for the query engine, names and values for whoever explores.

use crate::block::read::Block;
use crate::error::StoreError;
use crate::rollup;
use crate::select::{Found, matching};
use crate::store::Store;
use fabriclens_model::{Budget, Hint, Labels, Matcher, Read, ReadError, Rollup, Selected, Series, SharedSeries};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All blocks of a moment.
pub(crate) type Blocks = Arc<Vec<Arc<Block>>>;

impl Read for Store {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let series = self.select_blocks(matchers, (start_ms, end_ms), false, budget, |_| true)?.0;
        Ok(series.into_iter().map(Into::into).collect())
    }

    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        self.select_rolled(matchers, (start_ms, end_ms), hint, budget)
    }
}

impl Store {
    /// Samples of head and chosen blocks in a range, of each series the `newest` alone or all, and all blocks there are.
    pub(crate) fn select_blocks(
        &self,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        newest: bool,
        budget: &dyn Budget,
        chosen: impl Fn(&Arc<Block>) -> bool,
    ) -> Result<(Vec<SharedSeries>, Blocks), ReadError> {
        let limit = self.shared.options.max_read_samples;
        let mut recent = Found::new(limit, newest, budget);
        let head = self.shared.head.read();
        for generation in &head.older {
            recent.add_head(generation, matchers, start, end)?;
        }
        recent.add_head(&head.current, matchers, start, end)?;
        // Taken under the head's lock: a generation is in at least one of the two, and twice does no harm.
        let blocks = self.shared.blocks.all();
        drop(head);
        let mut found = Found::new(limit, newest, budget);
        for block in blocks.iter().filter(|b| b.overlaps(start, end) && chosen(b)) {
            found.add_block(block, matchers, start, end, |e| self.shared.report(block, e))?;
        }
        found.append(recent)?;
        Ok((found.finish(start, end)?, blocks))
    }

    /// Label sets of the series that match all matchers and may have samples in `[start_ms, end_ms]`, sorted.
    /// What is in blocks is told apart by block, so a series that ended shortly before may be included.
    ///
    /// # Errors
    /// [`ReadError::Storage`] when a block's index cannot be read.
    pub fn series(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<Labels>, ReadError> {
        let mut all = BTreeSet::new();
        let head = self.shared.head.read();
        for generation in head.older.iter().map(|g| &**g).chain([&head.current]) {
            for s in matching(generation, matchers) {
                let series = &generation.series[s as usize];
                let live = series.homes.iter().any(|(l, _)| {
                    generation.layouts[*l as usize].range().is_some_and(|(a, b)| a <= end_ms && b >= start_ms)
                });
                if live {
                    all.insert(series.labels.clone());
                }
            }
        }
        let (blocks, rollups) = (self.shared.blocks.all(), self.shared.rollups.all());
        drop(head);
        let last = [matchers, &[Matcher::equal(rollup::LABEL, rollup::name(Rollup::Last))]].concat();
        let rollups = rollups.iter().map(|b| (b, &*last));
        let blocks = blocks.iter().map(|b| (b, matchers)).chain(rollups);
        for (block, matchers) in blocks.filter(|(b, _)| b.overlaps(start_ms, end_ms)) {
            match block.index() {
                Ok(index) => {
                    let labels = |s: u32| index.labels(s as usize);
                    all.extend(index.matching(matchers).into_iter().map(labels).map(rollup::sample_labels));
                }
                Err(e @ StoreError::Damaged { .. }) => self.shared.report(block, &e),
                Err(e) => return Err(ReadError::Storage(e.to_string())),
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Label names of the series that [`Store::series`] would give, sorted.
    ///
    /// # Errors
    /// As [`Store::series`].
    pub fn label_names(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<String>, ReadError> {
        let series = self.series(matchers, start_ms, end_ms)?;
        let names: BTreeSet<&str> = series.iter().flat_map(|l| l.iter().map(|(n, _)| n)).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// Values of one label of the series that [`Store::series`] would give, sorted.
    ///
    /// # Errors
    /// As [`Store::series`].
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Vec<String>, ReadError> {
        let series = self.series(matchers, start_ms, end_ms)?;
        let values: BTreeSet<&str> = series.iter().map(|l| l.get(name)).filter(|v| !v.is_empty()).collect();
        Ok(values.into_iter().map(str::to_owned).collect())
    }
}
