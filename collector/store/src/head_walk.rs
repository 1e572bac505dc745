//! Finds and visits the matching series of the head. Appends wait for its lock, so it is held only to copy labels and to
//! visit series, a few at a time.

use crate::head::generation::Generation;
use crate::label_ranges::LabelOrdered;
use crate::matching::{LabelTests, asks_for_components};
use crate::store::Store;
use fabriclens_model::{Budget, Labels, MatchOp, Matcher, ReadError};
use std::ops::Range;
use std::sync::Arc;

/// Series of the head that are read per lock: less than a millisecond, and enough that the series of a host stay
/// together.
const SERIES_PER_LOCK: usize = 512;
/// Label sets of the head that are copied per lock; they are shared.
const LABELS_PER_LOCK: usize = 4096;
/// Series of a metric from which on their label order is kept.
const MANY: usize = 1024;

/// A generation of the head.
enum Source<'a> {
    /// One that takes no more appends.
    Cut(Arc<Generation>),
    /// The current one, by number; locked for each look.
    Current(&'a Store, u64),
}

impl Source<'_> {
    /// `None` if its rows have become blocks.
    fn look<T>(&self, read: impl FnOnce(&Generation) -> T) -> Option<T> {
        match self {
            Self::Cut(generation) => Some(read(generation)),
            Self::Current(store, number) => {
                let head = store.shared.head.read();
                let cut = || head.older.iter().map(|g| &**g).find(|g| g.number == *number);
                Some(&head.current).filter(|g| g.number == *number).or_else(cut).map(read)
            }
        }
    }

    /// Copies of the labels of these series.
    fn labels(&self, series: &[u32]) -> Option<Vec<(u32, Labels)>> {
        self.look(|generation| series.iter().map(|s| (*s, generation.labels(*s).clone())).collect())
    }
}

/// Series that may match.
struct Candidates {
    /// Those of a metric, or all.
    series: Vec<u32>,
    /// Whether they are the series of a metric that has at least [`MANY`]. These are sorted by labels.
    many: bool,
    /// Whether some of these were added after the label order of the metric was kept, so that all must be sorted again.
    unordered: bool,
    /// Components of histograms may be among them, and must not match.
    without_components: bool,
}

impl Candidates {
    /// Those of `metric`, or all; components of histograms only if the query `asks` for them.
    fn of(generation: &Generation, metric: Option<&Matcher>, asks: bool) -> Self {
        let has = generation.has_components();
        let without_components = has && !asks;
        let mut found = Self { series: Vec::new(), many: false, unordered: false, without_components };
        if asks && !has {
            return found;
        }
        let Some(metric) = metric else {
            found.series = (0..generation.series.len() as u32).collect();
            return found;
        };
        let all = generation.series.of_metric(&metric.value);
        if all.len() < MANY {
            found.series = all.to_vec();
            return found;
        }
        let ordered = generation.series.orders.get(&metric.value);
        (found.many, found.unordered) = (true, ordered.len() < all.len());
        found.series = ordered.iter().chain(&all[ordered.len()..]).copied().collect();
        found
    }

    /// The candidates that pass the tests; `None` if a flush has written the generation to blocks.
    fn matching(
        self,
        source: &Source<'_>,
        metric: Option<&Matcher>,
        tests: &mut LabelTests<'_>,
        budget: &dyn Budget,
    ) -> Result<Option<Vec<u32>>, ReadError> {
        let mut series = self.series;
        budget.request(2 * size_of_val(&series[..]))?;
        if let Some(metric) = metric.filter(|_| self.unordered) {
            let Some(order) = in_label_order(source, &series, budget)? else { return Ok(None) };
            series.copy_from_slice(&order);
            source.look(|generation| generation.series.orders.keep(&metric.value, order));
        }
        tests.without_components = self.without_components;
        if tests.pass_all() {
            return Ok(Some(series));
        }
        let mut found = Vec::new();
        for some in series.chunks(LABELS_PER_LOCK) {
            let Some(labels) = source.labels(some) else { return Ok(None) };
            tests.matching(labels.iter().map(|(s, labels)| (*s, labels)), &mut found)?;
        }
        Ok(Some(found))
    }
}

/// The matching series of a generation of the head.
pub(crate) struct HeadSeries<'a> {
    source: Source<'a>,
    series: Vec<u32>,
    pub in_label_order: bool,
}

impl HeadSeries<'_> {
    /// Sorts them by their labels.
    pub fn arrange(&mut self, budget: &dyn Budget) -> Result<(), ReadError> {
        if !self.in_label_order {
            self.series = in_label_order(&self.source, &self.series, budget)?.map_or_else(Vec::new, |s| s.to_vec());
            self.in_label_order = true;
        }
        Ok(())
    }

    /// Whether the rows of the generation have become blocks.
    pub fn is_gone(&self) -> bool {
        self.source.look(|_| ()).is_none()
    }

    /// Visits some of them, until the rows of the generation have become blocks.
    pub fn visit(
        &self,
        some: Range<usize>,
        budget: &dyn Budget,
        mut each: impl FnMut(&Generation, &[u32]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        for few in self.series[some].chunks(SERIES_PER_LOCK) {
            budget.check()?;
            if self.source.look(|generation| each(generation, few)).transpose()?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

impl LabelOrdered for HeadSeries<'_> {
    fn len(&self) -> usize {
        self.series.len()
    }

    /// Of a generation whose rows have become blocks, any.
    fn labels(&self, at: usize) -> Labels {
        self.source.look(|generation| generation.labels(self.series[at]).clone()).unwrap_or_default()
    }
}

impl Store {
    /// The matching series of each generation.
    pub(crate) fn head_series(
        &self,
        matchers: &[Matcher],
        budget: &dyn Budget,
    ) -> Result<Vec<HeadSeries<'_>>, ReadError> {
        let sources: Vec<Source<'_>> = {
            let head = self.shared.head.read();
            let current = Source::Current(self, head.current.number);
            head.older.iter().cloned().map(Source::Cut).chain([current]).collect()
        };
        let of_metric = |m: &Matcher| m.name == "__name__" && m.op == MatchOp::Equal && !m.value.is_empty();
        // The series of a metric need no test of its name.
        let mut rest = matchers.to_vec();
        let metric = rest.iter().position(of_metric).map(|at| rest.remove(at));
        let asks = asks_for_components(matchers);
        let mut tests = LabelTests::new(&rest, budget);
        let mut all = Vec::with_capacity(sources.len());
        for source in sources {
            let candidates = source.look(|generation| Candidates::of(generation, metric.as_ref(), asks));
            let Some(candidates) = candidates else { continue };
            let in_label_order = candidates.many;
            let Some(series) = candidates.matching(&source, metric.as_ref(), &mut tests, budget)? else { continue };
            all.push(HeadSeries { source, series, in_label_order });
        }
        Ok(all)
    }
}

/// Sorts series by their labels; `None` if a flush has written the generation to blocks. Series in order are only compared with
/// the next one.
fn in_label_order(source: &Source<'_>, series: &[u32], budget: &dyn Budget) -> Result<Option<Arc<[u32]>>, ReadError> {
    budget.request(2 * series.len() * size_of::<(u32, Labels)>())?;
    let mut labelled = Vec::with_capacity(series.len());
    for some in series.chunks(LABELS_PER_LOCK) {
        budget.check()?;
        let Some(labels) = source.labels(some) else { return Ok(None) };
        labelled.extend(labels);
    }
    labelled.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(Some(labelled.iter().map(|(series, _)| *series).collect()))
}
