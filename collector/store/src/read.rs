//! Reads: samples for the query engine, label names and values for exploration.

use crate::block::read::Block;
use crate::error::StoreError;
use crate::head::generation::Generation;
use crate::rollup;
use crate::selection::{Selection, candidates, matching};
use crate::store::Store;
use fabriclens_model::{Budget, Hint, Labels, Matcher, Read, ReadError, Rollup, Selected, Series, SharedSeries};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Series of the head that are read per lock: less than a millisecond, and enough that the series of a host stay
/// together.
const SERIES_PER_LOCK: usize = 512;

/// The block set at one instant.
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
    /// Samples of the head and of the chosen blocks in a range (only the `newest` of each series, or all), and the
    /// current block set.
    pub(crate) fn select_blocks(
        &self,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        newest: bool,
        budget: &dyn Budget,
        chosen: impl Fn(&Arc<Block>) -> bool,
    ) -> Result<(Vec<SharedSeries>, Blocks), ReadError> {
        let limit = self.shared.options.max_read_samples;
        let mut recent = Selection::new(limit, newest, budget);
        let blocks = self.walk_head(matchers, |generation, series| recent.add_head(generation, series, start, end))?;
        let mut found = Selection::new(limit, newest, budget);
        for block in blocks.iter().filter(|b| b.overlaps(start, end) && chosen(b)) {
            found.add_block(block, matchers, start, end, |e| self.shared.report(block, e))?;
        }
        found.append(recent)?;
        Ok((found.finish(start, end)?, blocks))
    }

    /// Visits the matching series of the head in small steps, because appends wait for the read lock. Returns the
    /// block set as of afterwards: rows that leave the head meanwhile are in it, and duplicates are harmless.
    fn walk_head(
        &self,
        matchers: &[Matcher],
        mut each: impl FnMut(&Generation, &[u32]) -> Result<(), ReadError>,
    ) -> Result<Blocks, ReadError> {
        let (older, number) = {
            let head = self.shared.head.read();
            (head.older.clone(), head.current.number)
        };
        for generation in &older {
            each(generation, &matching(generation, &candidates(generation, matchers), matchers))?;
        }
        let (mut all, mut done): (Option<Vec<u32>>, usize) = (None, 0);
        loop {
            let head = self.shared.head.read();
            let cut = || head.older.iter().map(|g| &**g).find(|g| g.number == number);
            let Some(generation) = Some(&head.current).filter(|g| g.number == number).or_else(cut) else { break };
            let all = all.get_or_insert_with(|| candidates(generation, matchers));
            let some = &all[done..all.len().min(done + SERIES_PER_LOCK)];
            done += some.len();
            each(generation, &matching(generation, some, matchers))?;
            if done == all.len() {
                break;
            }
        }
        Ok(self.shared.blocks.all())
    }

    /// Label sets of the series that match all matchers and may have samples in `[start_ms, end_ms]`, sorted. Blocks
    /// are tested as a whole, so a series that ended shortly before may be included.
    ///
    /// # Errors
    /// [`ReadError::Storage`] if the index of a block cannot be read.
    pub fn series(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<Labels>, ReadError> {
        let mut all = BTreeSet::new();
        let blocks = self.walk_head(matchers, |generation, series| {
            for series in series.iter().map(|s| &generation.series[*s as usize]) {
                let live = series.locations.iter().any(|(l, _)| {
                    generation.layouts[*l as usize].range().is_some_and(|(a, b)| a <= end_ms && b >= start_ms)
                });
                if live {
                    all.insert(series.labels.clone());
                }
            }
            Ok(())
        })?;
        let rollups = self.shared.rollups.all();
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

    /// Label names of the series that [`Store::series`] returns, sorted.
    ///
    /// # Errors
    /// See [`Store::series`].
    pub fn label_names(&self, matchers: &[Matcher], start_ms: i64, end_ms: i64) -> Result<Vec<String>, ReadError> {
        let series = self.series(matchers, start_ms, end_ms)?;
        let names: BTreeSet<&str> = series.iter().flat_map(|l| l.iter().map(|(n, _)| n)).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// Values of one label of the series that [`Store::series`] returns, sorted.
    ///
    /// # Errors
    /// See [`Store::series`].
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
