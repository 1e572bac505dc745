//! Histograms in the rows of a store: which columns a histogram has there, and the histograms that columns make up.

use crate::histogram::{Component, Histogram, HistogramError, HistogramSeries, histogram_of, is_component};
use crate::{Budget, Labels, Layout, ReadError, RowGroup, SharedSeries, is_absent, present};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Histograms that are put together between two checks of the budget.
const PER_CHECK: usize = 256;
/// Most column lists that are remembered; beyond it all are forgotten.
const MAX_LISTS: usize = 1 << 16;

/// Turns histograms into rows. Remembers the columns of each series, so that the next sample of it has the same list.
#[derive(Default)]
pub struct HistogramColumns {
    lists: HashMap<(Labels, Box<[Component]>), Layout>,
}

impl HistogramColumns {
    /// A row group with this one sample, time in Unix ms.
    ///
    /// # Errors
    /// See [`Histogram::to_components`].
    pub fn row(&mut self, labels: &Labels, time: i64, histogram: &Histogram) -> Result<RowGroup, HistogramError> {
        let components = histogram.to_components()?;
        let key: (Labels, Box<[Component]>) = (labels.clone(), components.iter().map(|(c, _)| *c).collect());
        if self.lists.len() >= MAX_LISTS {
            self.lists = HashMap::new();
        }
        let list = |(labels, components): &(Labels, Box<[Component]>)| {
            components.iter().map(|component| component.labels(labels)).collect::<Layout>()
        };
        let series = self.lists.entry(key).or_insert_with_key(list).clone();
        Ok(RowGroup { series, times: vec![time], values: components.into_iter().map(|(_, v)| v).collect() })
    }

    /// Forgets lists that nobody else uses any more.
    pub fn forget_unused(&mut self) {
        self.lists.retain(|_, list| list.is_shared());
        self.lists.shrink_to(2 * self.lists.len());
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether no list is remembered.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

/// Whether the columns of a group are those of histograms. A group has columns of histograms only, or none.
pub fn is_of_histograms(group: &RowGroup) -> bool {
    group.series.first().is_some_and(is_component)
}

/// Number of samples in a group; a histogram is one.
pub fn samples_in(group: &RowGroup) -> u64 {
    if is_of_histograms(group) { group.times.len() as u64 } else { present(&group.values) }
}

/// Samples of the histogram series in a row group: labels, Unix ms, and the histogram.
pub fn histograms_in(group: &RowGroup) -> Vec<(Labels, i64, Histogram)> {
    let rows = group.times.len();
    let mut of: HashMap<Labels, Vec<(Component, usize)>> = HashMap::new();
    let mut order = Vec::new();
    for (column, labels) in group.series.iter().enumerate() {
        let Some((labels, component)) = histogram_of(labels) else { continue };
        let columns = of.entry(labels.clone()).or_default();
        if columns.is_empty() {
            order.push(labels);
        }
        columns.push((component, column));
    }
    let mut all = Vec::new();
    for labels in order {
        let columns = of.get(&labels).map_or(&[][..], |columns| columns);
        for (row, time) in group.times.iter().enumerate() {
            let values = columns.iter().map(|(component, column)| (*component, group.values[column * rows + row]));
            if let Some(histogram) = Histogram::from_components(values) {
                all.push((labels.clone(), *time, histogram));
            }
        }
    }
    all
}

/// Puts histograms together from the series of their components, and sorts them by labels. Samples whose components do not
/// make up a histogram are left out.
///
/// # Errors
/// Those of `budget`.
pub fn assembled(components: Vec<SharedSeries>, budget: &dyn Budget) -> Result<Vec<HistogramSeries>, ReadError> {
    let mut of: HashMap<Labels, Vec<(Component, SharedSeries, usize)>> = HashMap::new();
    for series in components {
        if let Some((labels, component)) = histogram_of(&series.labels) {
            of.entry(labels).or_default().push((component, series, 0));
        }
    }
    let mut all = Vec::with_capacity(of.len());
    let mut made = 0;
    for (labels, mut columns) in of {
        let Some((_, counts, _)) = columns.iter().find(|(component, ..)| *component == Component::Count) else {
            continue;
        };
        let mut found = HistogramSeries { labels, ..HistogramSeries::default() };
        for time in counts.times.clone().iter() {
            if made % PER_CHECK == 0 {
                budget.check()?;
            }
            made += 1;
            let values = columns.iter_mut().filter_map(|(component, series, next)| {
                while series.times.get(*next).is_some_and(|t| t < time) {
                    *next += 1;
                }
                let here = series.times.get(*next) == Some(time);
                here.then(|| (*component, series.values[*next])).filter(|(_, v)| !is_absent(*v))
            });
            if let Some(histogram) = Histogram::from_components(values) {
                budget.request(size_of::<i64>() + size_of::<Arc<Histogram>>() + histogram.bytes())?;
                found.times.push(*time);
                found.values.push(Arc::new(histogram));
            }
        }
        if !found.times.is_empty() {
            all.push(found);
        }
    }
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramParts, Side, Span, Unlimited};

    fn histogram(first: i32, counts: &[f64]) -> Histogram {
        let positive =
            Side { spans: vec![Span { offset: first, length: counts.len() as u32 }], counts: counts.to_vec() };
        Histogram::new(HistogramParts { count: counts.iter().sum(), positive, ..HistogramParts::default() }).unwrap()
    }

    #[test]
    fn rows_of_a_series_share_their_columns_and_are_read_again() {
        let (mut columns, labels) = (HistogramColumns::default(), Labels::new([("__name__", "h"), ("host", "a")]));
        let samples = [histogram(1, &[1.0, 2.0]), histogram(1, &[2.0, 2.0, 5.0]), histogram(20, &[7.0])];
        let rows: Vec<RowGroup> = (1..).zip(&samples).map(|(time, h)| columns.row(&labels, time, h).unwrap()).collect();
        assert_eq!(rows[0].series.id(), rows[1].series.id());
        assert_ne!(rows[0].series.id(), rows[2].series.id());
        assert!(rows.iter().all(|row| row.is_consistent() && is_of_histograms(row)));
        let read: Vec<_> = rows.iter().flat_map(histograms_in).collect();
        let want: Vec<_> = (1..).zip(&samples).map(|(time, h)| (labels.clone(), time, h.clone())).collect();
        assert_eq!(read, want);

        let mut series: HashMap<Labels, (Vec<i64>, Vec<f64>)> = HashMap::new();
        for row in &rows {
            for (labels, value) in row.series.iter().zip(&row.values).filter(|(_, v)| !is_absent(**v)) {
                let (times, values) = series.entry(labels.clone()).or_default();
                times.push(row.times[0]);
                values.push(*value);
            }
        }
        let parts = series.into_iter().map(|(labels, (t, values))| SharedSeries { labels, times: t.into(), values });
        let all = assembled(parts.collect(), &Unlimited).unwrap();
        assert_eq!((all.len(), &all[0].labels, &all[0].times[..]), (1, &labels, &[1, 2, 3][..]));
        assert!(all[0].values.iter().map(|h| &**h).eq(&samples));

        drop(rows);
        columns.forget_unused();
        assert!(columns.is_empty());
    }
}
