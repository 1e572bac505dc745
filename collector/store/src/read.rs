//! Reads: samples for the query engine, label names and values for exploration.

use crate::block_series::BlockSeries;
use crate::label_ranges::LabelOrdered as _;
use crate::matching::{SERIES_PER_CHECK, of_caller};
use crate::rollup;
use crate::select::{PartSize, Wanted};
use crate::store::Store;
use fabriclens_model::names::COMPONENT;
use fabriclens_model::{
    Budget, Component, Hint, HistogramSeries, Labels, Matcher, Pair, Read, ReadError, Rollup, Selected, Series,
    assembled, histogram_of,
};
use foldhash::{HashSet, HashSetExt as _};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of an entry of a list: of a series, a name or a value.
const LISTED: usize = 64;

impl Read for Store {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let Some(matchers) = of_caller(matchers) else { return Ok(Vec::new()) };
        let wanted = Wanted { matchers: &matchers, times: (start_ms, end_ms), newest: false, budget };
        let series = self.select_blocks(&wanted, |_| true)?.0;
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
        let Some(of_caller) = of_caller(matchers) else { return Ok(Selected::default()) };
        let floats = self.select_rolled(&of_caller, (start_ms, end_ms), hint, budget)?;
        Ok(Selected { histograms: self.select_histograms(matchers, start_ms, end_ms, budget)?, ..floats })
    }

    /// Where rollups or histograms may match, the parts are one: they are put together from several series.
    fn visit_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
        visit: &mut dyn FnMut(Selected) -> bool,
    ) -> Result<(), ReadError> {
        let Some(of_caller) = of_caller(matchers) else { return Ok(()) };
        let times = (start_ms, end_ms);
        let histograms = self.select_histograms(matchers, start_ms, end_ms, budget)?;
        if !histograms.is_empty() || self.may_be_rolled(times, hint) {
            let floats = self.select_rolled(&of_caller, times, hint, budget)?;
            visit(Selected { histograms, ..floats });
            return Ok(());
        }
        let wanted = Wanted { matchers: &of_caller, times, newest: hint.newest(), budget };
        let mut visit = |series| visit(Selected { series, in_label_order: true, ..Selected::default() });
        self.visit_blocks(&wanted, |_| true, PartSize::Some, &mut visit).map(drop)
    }

    /// Includes the last histogram of each minute whose samples are expired.
    fn select_histograms(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<HistogramSeries>, ReadError> {
        let Some(matchers) = of_caller(matchers) else { return Ok(Vec::new()) };
        let matchers = [&matchers[..], &[Matcher::not_equal(COMPONENT, "")]].concat();
        let components = self.select_rolled(&matchers, (start_ms, end_ms), Hint::default(), budget)?;
        assembled(components.series, budget)
    }
}

impl Store {
    /// Visits the labels of the series that match all matchers and may have samples in `[start_ms, end_ms]`, some twice.
    /// Blocks are tested as a whole, so a series that ended shortly before may be included.
    fn each_series(
        &self,
        matchers: &[Matcher],
        times: (i64, i64),
        budget: &dyn Budget,
        mut each: impl FnMut(&Labels) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let Some(matchers) = of_caller(matchers) else { return Ok(()) };
        self.each_stored(&matchers, times, budget, &mut each)?;
        let histograms = [&matchers[..], &[Matcher::equal(COMPONENT, Component::COUNT)]].concat();
        self.each_stored(&histograms, times, budget, |labels| {
            histogram_of(labels).map_or(Ok(()), |(labels, _)| each(&labels))
        })
    }

    /// The same without the histograms, or only components of these.
    fn each_stored(
        &self,
        matchers: &[Matcher],
        (start_ms, end_ms): (i64, i64),
        budget: &dyn Budget,
        mut each: impl FnMut(&Labels) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        for head in self.head_series(matchers, budget)? {
            head.visit(0..head.len(), budget, |generation, series| {
                for series in series {
                    let live = generation.series.locations(*series).any(|(l, _)| {
                        generation.layouts[l as usize].range().is_some_and(|(a, b)| a <= end_ms && b >= start_ms)
                    });
                    if live {
                        each(generation.labels(*series))?;
                    }
                }
                Ok(())
            })?;
        }
        // As of afterwards: series that leave the head meanwhile are in them.
        let blocks = self.shared.blocks.all();
        let rollups = self.shared.rollups.all();
        let last = [matchers, &[Matcher::equal(rollup::LABEL, rollup::name(Rollup::Last))]].concat();
        let rollups = rollups.iter().map(|b| (b, &*last));
        let blocks = blocks.iter().map(|b| (b, matchers)).chain(rollups);
        for (block, matchers) in blocks.filter(|(b, _)| b.overlaps(start_ms, end_ms)) {
            for found in BlockSeries::of(block, matchers, budget, &|e| self.shared.report(block, e))? {
                for at in 0..found.len() {
                    if at % SERIES_PER_CHECK == 0 {
                        budget.check()?;
                    }
                    each(&rollup::sample_labels(found.labels(at)))?;
                }
            }
        }
        Ok(())
    }

    /// Label sets of the series that match all matchers and may have samples in `[start_ms, end_ms]`, sorted. Blocks
    /// are tested as a whole, so a series that ended shortly before may be included.
    ///
    /// # Errors
    /// [`ReadError::Storage`] if the index of a block cannot be read; those of `budget`.
    pub fn series(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Labels>, ReadError> {
        let mut all = BTreeSet::new();
        self.each_series(matchers, (start_ms, end_ms), budget, |labels| {
            if !all.contains(labels) {
                budget.request(LISTED + labels.len() * size_of::<Pair>())?;
                all.insert(labels.clone());
            }
            Ok(())
        })?;
        Ok(all.into_iter().collect())
    }

    /// Label names of the series that [`Store::series`] returns, sorted.
    ///
    /// # Errors
    /// See [`Store::series`].
    pub fn label_names(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<String>, ReadError> {
        let mut names = Texts::new(budget);
        self.each_series(matchers, (start_ms, end_ms), budget, |labels| {
            labels.pairs().try_for_each(|(name, _)| names.add(name))
        })?;
        Ok(names.sorted())
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
        budget: &dyn Budget,
    ) -> Result<Vec<String>, ReadError> {
        let mut values = Texts::new(budget);
        self.each_series(matchers, (start_ms, end_ms), budget, |labels| {
            labels.pairs().filter(|(n, _)| ***n == *name).try_for_each(|(_, value)| values.add(value))
        })?;
        Ok(values.sorted())
    }
}

/// Distinct names or values.
struct Texts<'a> {
    all: HashSet<Arc<str>>,
    budget: &'a dyn Budget,
}

impl<'a> Texts<'a> {
    fn new(budget: &'a dyn Budget) -> Self {
        Self { all: HashSet::new(), budget }
    }

    fn add(&mut self, text: &Arc<str>) -> Result<(), ReadError> {
        if self.all.contains(text) {
            return Ok(());
        }
        self.budget.request(LISTED + text.len())?;
        self.all.insert(text.clone());
        Ok(())
    }

    fn sorted(self) -> Vec<String> {
        let mut all: Vec<String> = self.all.iter().map(|text| (**text).to_owned()).collect();
        all.sort_unstable();
        all
    }
}
