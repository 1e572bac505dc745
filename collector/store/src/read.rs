//! The store's answers: samples for the query engine, names and values for whoever explores.

use crate::error::StoreError;
use crate::select::{Found, matching};
use crate::store::Store;
use fabriclens_model::{Budget, Labels, Matcher, Read, ReadError, Series};
use std::collections::BTreeSet;

impl Read for Store {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let limit = self.shared.options.max_read_samples;
        let mut recent = Found::new(limit, budget);
        let head = self.shared.head.read();
        for generation in &head.older {
            recent.add_head(generation, matchers, start_ms, end_ms)?;
        }
        recent.add_head(&head.current, matchers, start_ms, end_ms)?;
        // Taken under the head's lock: a generation is in at least one of the two, and twice does no harm.
        let blocks = self.shared.blocks.read().clone();
        drop(head);
        let mut found = Found::new(limit, budget);
        for block in blocks.iter().filter(|b| b.overlaps(start_ms, end_ms)) {
            found.add_block(block, matchers, start_ms, end_ms, |e| self.shared.report(block, e))?;
        }
        found.append(recent)?;
        found.finish(start_ms, end_ms)
    }
}

impl Store {
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
        let blocks = self.shared.blocks.read().clone();
        drop(head);
        for block in blocks.iter().filter(|b| b.overlaps(start_ms, end_ms)) {
            match block.index() {
                Ok(index) => all.extend(index.matching(matchers).into_iter().map(|s| index.labels(s as usize))),
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
