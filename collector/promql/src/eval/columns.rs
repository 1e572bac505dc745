//! Columns of values over a grid of steps, and checks on their label sets.

use super::point::{HistogramColumn, Point};
use crate::error::{Evaluated, QueryError};
use fabriclens_model::{Labels, STALE_NAN, is_stale};
use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

/// Marks a step without a value. Arithmetic cannot produce it, because it is a signaling NaN, and selectors never pass
/// a staleness marker on.
pub(crate) const ABSENT: f64 = f64::from_bits(STALE_NAN);

/// The instants at which an expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Unix milliseconds of the first step.
    pub start: i64,
    /// Milliseconds between steps, positive.
    pub step: i64,
    /// Number of steps; none for an empty subquery.
    pub steps: usize,
}

impl Grid {
    pub fn time(&self, step: usize) -> i64 {
        self.start + self.step * step as i64
    }

    /// Time of the last step.
    pub fn end(&self) -> i64 {
        self.time(self.steps.saturating_sub(1))
    }

    /// Milliseconds between steps; 0 if there is only one step.
    pub fn distance(&self) -> i64 {
        if self.steps > 1 { self.step } else { 0 }
    }

    pub fn times(self) -> impl Iterator<Item = i64> {
        (0..self.steps).map(move |i| self.time(i))
    }
}

/// One series over the steps of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub labels: Labels,
    /// Whether the result is another quantity, so that its name is dropped at the end of the query.
    pub nameless: bool,
    /// One per step; [`ABSENT`] where there is no float (NaN is a float).
    pub values: Vec<f64>,
    /// Samples that are histograms; there is no float at their steps.
    pub histograms: HistogramColumn,
}

impl Column {
    /// A column that keeps its name, if it has one.
    pub fn new(labels: Labels, values: Vec<f64>) -> Self {
        Self { labels, nameless: false, values, histograms: HistogramColumn::default() }
    }

    /// The same without values.
    pub fn shell(&self) -> Self {
        Self { nameless: self.nameless, ..Self::new(self.labels.clone(), vec![]) }
    }

    /// Whether there is a sample at any step.
    pub fn any(&self) -> bool {
        self.values.iter().any(|v| !is_stale(*v)) || self.histograms.any()
    }

    /// Whether there is a sample at a step.
    pub fn present(&self, step: usize) -> bool {
        !is_stale(self.values[step]) || self.histograms.at(step).is_some()
    }

    /// The sample at a step.
    pub fn point(&self, step: usize) -> Option<Point> {
        match self.histograms.at(step) {
            Some(h) => Some(Point::Histogram(h.clone())),
            None => Some(self.values[step]).filter(|v| !is_stale(*v)).map(Point::Float),
        }
    }

    /// Replaces the sample at a step.
    pub fn put(&mut self, step: usize, point: Option<Point>) {
        self.values[step] = if let Some(Point::Float(v)) = point { v } else { ABSENT };
        match point {
            Some(Point::Histogram(h)) => self.histograms.set(step, self.values.len(), h),
            _ => drop(self.histograms.clear(step)),
        }
    }

    /// Moves the sample at a step here from another column.
    pub fn take(&mut self, step: usize, from: &mut Self) {
        self.values[step] = from.values[step];
        if let Some(h) = from.histograms.clear(step) {
            self.histograms.set(step, self.values.len(), h);
        }
    }
}

/// Value of an expression over a grid.
#[derive(Clone, Debug)]
pub(crate) enum Columns {
    Scalar(Vec<f64>),
    Vector(Vec<Column>),
}

impl Columns {
    /// Number of values.
    pub fn size(&self) -> usize {
        match self {
            Self::Scalar(v) => v.len(),
            Self::Vector(c) => c.iter().map(|c| c.values.len() + c.histograms.size()).sum(),
        }
    }
}

/// Labels of name, type and unit of a metric.
const METRIC: [&str; 3] = ["__name__", "__type__", "__unit__"];

/// Whether a label says what a metric is: its name, type or unit.
pub(crate) fn names_metric(label: &str) -> bool {
    METRIC.contains(&label)
}

/// The labels without the metric's name, type and unit.
pub(crate) fn drop_name(labels: &Labels) -> Labels {
    relabel(labels, |label| !names_metric(label))
}

/// Drops the names of columns that have become another quantity.
///
/// # Errors
/// [`QueryError::Execution`] if two columns then have the same labels and values at the same step.
pub(crate) fn finish(mut columns: Vec<Column>) -> Evaluated<Vec<Column>> {
    if !columns.iter().any(|c| c.nameless) {
        return Ok(columns);
    }
    // Series of one metric differ in other labels.
    let metric = |c: &Column| METRIC.map(|label| c.labels.get(label).to_owned());
    let first = columns.first().map(metric);
    let alike = columns.iter().all(|c| {
        c.nameless
            && first
                .as_ref()
                .is_some_and(|first| METRIC.iter().zip(first).all(|(label, value)| c.labels.get(label) == value))
    });
    for c in columns.iter_mut().filter(|c| c.nameless) {
        (c.labels, c.nameless) = (drop_name(&c.labels), false);
    }
    if alike { Ok(columns) } else { merge(columns) }
}

/// The labels whose names satisfy `keep`.
pub(crate) fn relabel(labels: &Labels, keep: impl Fn(&str) -> bool) -> Labels {
    let (metric, others) = labels.parts();
    let named = metric.is_some() && keep("__name__");
    let all = others.iter().all(|(n, _)| keep(n));
    if all && named == metric.is_some() {
        return labels.clone();
    }
    let kept = if all { others.clone() } else { others.iter().filter(|(n, _)| keep(n)).cloned().collect() };
    Labels::from_parts(metric.filter(|_| named).cloned(), kept)
}

fn duplicate_labels() -> QueryError {
    QueryError::Execution("vector cannot contain metrics with the same labelset".into())
}

/// Merges columns with equal labels; two values at the same step are an error. Drops columns without any value.
pub(crate) fn merge(mut columns: Vec<Column>) -> Evaluated<Vec<Column>> {
    columns.retain(Column::any);
    let mut seen: HashMap<Labels, usize> = HashMap::with_capacity(columns.len());
    let mut out: Vec<Column> = Vec::with_capacity(columns.len());
    for c in columns {
        match seen.get(&c.labels) {
            None => {
                seen.insert(c.labels.clone(), out.len());
                out.push(c);
            }
            Some(&at) => {
                out[at].nameless |= c.nameless;
                let mut c = c;
                for i in (0..c.values.len()).filter(|i| c.present(*i)).collect::<Vec<_>>() {
                    if out[at].present(i) {
                        return Err(duplicate_labels());
                    }
                    out[at].take(i, &mut c);
                }
            }
        }
    }
    Ok(out)
}

/// Fails if two columns have equal labels, regardless of their steps, where Prometheus checks whole matrices.
pub(crate) fn reject_duplicates(columns: &[Column]) -> Evaluated<()> {
    let mut seen = HashSet::with_capacity(columns.len());
    if columns.iter().all(|c| seen.insert(&c.labels)) { Ok(()) } else { Err(duplicate_labels()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, values: &[f64]) -> Column {
        Column::new(Labels::new([("a", name)]), values.to_vec())
    }

    #[test]
    fn equal_labels_merge_unless_values_collide() {
        let merged = merge(vec![column("x", &[1.0, ABSENT]), column("x", &[ABSENT, 2.0]), column("y", &[ABSENT; 2])]);
        let merged = merged.unwrap();
        assert_eq!((merged.len(), merged[0].values.clone()), (1, vec![1.0, 2.0]));
        assert!(merge(vec![column("x", &[1.0]), column("x", &[2.0])]).is_err());
        assert!(reject_duplicates(&[column("x", &[1.0, ABSENT]), column("x", &[ABSENT, 1.0])]).is_err());
    }

    #[test]
    fn arithmetic_never_yields_the_absent_mark() {
        let results = [ABSENT + 1.0, -ABSENT * 0.0, ABSENT.sqrt(), ABSENT % 2.0, f64::NAN];
        assert!(results.iter().all(|v| !is_stale(*v)) && is_stale(ABSENT));
    }
}
