//! Aggregations over label groups: sum, avg, min, max, count, group, stddev, stdvar, quantile, `count_values`. `topk`
//! and `bottomk` select series instead of combining them and are in [`super::topk`].

use super::group_keys::GroupKeys;
use super::{ABSENT, Column, Context, Grid, Point, names_metric};
use crate::error::{Evaluated, QueryError};
use crate::functions::histogram_text;
use crate::number;
use crate::plan::{Aggregate, AggregateOp, Expr, Grouping, Node};
use fabriclens_model::{Labels, is_stale, kahan};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Columns of one group, in order of appearance.
pub(super) struct Group {
    pub labels: Labels,
    pub members: Vec<usize>,
}

pub(super) fn groups(columns: &[Column], grouping: &Grouping) -> Vec<Group> {
    let mut keys = GroupKeys::new(grouping);
    let mut members: Vec<Vec<usize>> = vec![];
    for (i, c) in columns.iter().enumerate() {
        let at = keys.number(&c.labels);
        if at == members.len() {
            members.push(vec![]);
        }
        members[at].push(i);
    }
    let group = |(example, members)| Group { labels: grouping.labels_of(example), members };
    keys.into_examples().into_iter().zip(members).map(group).collect()
}

impl Context<'_> {
    pub(super) fn aggregate(&mut self, a: &Aggregate, grid: Grid) -> Evaluated<Vec<Column>> {
        let Some(first) = self.elsewhere(a, grid)? else { return self.aggregate_here(a, grid) };
        if first.steps == grid.steps {
            return Ok(first.columns);
        }
        let rest = Grid { start: grid.time(first.steps), steps: grid.steps - first.steps, ..grid };
        let last = self.aggregate_here(a, rest)?;
        // Readers compute floats only.
        if last.iter().any(|c| c.histograms.any()) {
            return self.aggregate_here(a, grid);
        }
        self.continued(first, last, grid)
    }

    fn aggregate_here(&mut self, a: &Aggregate, grid: Grid) -> Evaluated<Vec<Column>> {
        if a.op == AggregateOp::CountValues {
            return self.count_values(a, grid);
        }
        let param = a.param.as_ref().map(|p| self.scalar(p, grid)).transpose()?;
        let columns = self.vector_for(&a.expr, grid, Some(&a.grouping).filter(|_| a.op.drops_labels()))?;
        match a.op {
            AggregateOp::TopK | AggregateOp::BottomK => {
                return self.topk(a, columns, &param.unwrap_or_default(), grid);
            }
            AggregateOp::LimitK => return self.limit(a, columns, &param.unwrap_or_default(), grid),
            AggregateOp::LimitRatio => return self.limit_ratio(a, columns, &param.unwrap_or_default()),
            _ => {}
        }
        if let (AggregateOp::Quantile, Some(q), Some(expr)) = (a.op, &param, &a.param) {
            self.warn_invalid_quantiles(q, expr, &columns);
        }
        let native = columns.iter().any(|c| c.histograms.any());
        if native && !a.op.takes_histograms() {
            self.ignore_histograms(a, &columns);
        }
        let mut out = vec![];
        for group in groups(&columns, &a.grouping) {
            self.check()?;
            let members: Vec<&[f64]> = group.members.iter().map(|m| columns[*m].values.as_slice()).collect();
            let values = combine(a.op, &members, param.as_deref(), grid.steps);
            // The name is a label of the group only if `by` lists it.
            let named = group.labels.iter().any(|(n, _)| names_metric(n));
            let nameless = named && group.members.iter().any(|m| columns[*m].nameless);
            let mut column = Column { nameless, ..Column::new(group.labels, values) };
            if native {
                let members: Vec<&Column> = group.members.iter().map(|m| &columns[*m]).collect();
                self.aggregate_histograms(a, &members, &mut column)?;
                if !column.any() {
                    continue;
                }
            }
            out.push(column);
        }
        Ok(out)
    }

    /// Warns of a φ outside `[0, 1]` at steps that have values.
    pub(crate) fn warn_invalid_quantiles(&mut self, q: &[f64], expr: &Expr, columns: &[Column]) {
        for (i, q) in q.iter().enumerate() {
            let used = columns.iter().any(|c| c.present(i));
            if used && !(0.0..=1.0).contains(q) {
                self.warn_quantile(*q, expr);
            }
        }
    }

    pub(crate) fn warn_quantile(&mut self, q: f64, expr: &Expr) {
        let message = format!("quantile value should be between 0 and 1, got {}", number::general(q));
        self.warn(&message, expr.offset);
    }

    fn count_values(&mut self, a: &Aggregate, grid: Grid) -> Evaluated<Vec<Column>> {
        let label = match a.param.as_ref().map(|p| &p.node) {
            Some(Node::Text(t)) => t.clone(),
            _ => String::new(),
        };
        if label.is_empty() {
            return Err(QueryError::Execution(format!("invalid label name {label:?}")));
        }
        let mut grouping = a.grouping.clone();
        if grouping.keep {
            grouping.labels.push(label.clone());
        }
        let columns = self.vector(&a.expr, grid)?;
        let name: Arc<str> = label.into();
        let mut index: HashMap<Labels, usize> = HashMap::new();
        let mut out: Vec<Column> = vec![];
        for c in &columns {
            self.check()?;
            let mut latest: Option<(Point, usize)> = None;
            for (i, point) in (0..grid.steps).filter_map(|i| Some((i, c.point(i)?))) {
                let at = match &latest {
                    Some((known, at)) if same(known, &point) => *at,
                    _ => {
                        let text = match &point {
                            Point::Float(v) => number::decimal(*v),
                            Point::Histogram(h) => histogram_text(h),
                        };
                        self.charge(text.len().div_ceil(size_of::<f64>()))?;
                        let value = (name.clone(), text.into());
                        let labels = Labels::new(c.labels.to_pairs().chain([value]));
                        let labels = grouping.labels_of(&labels);
                        if let Some(at) = index.get(&labels) {
                            *at
                        } else {
                            // One column may have a different value at each step.
                            self.afford((out.len() + 1).saturating_mul(grid.steps))?;
                            index.insert(labels.clone(), out.len());
                            out.push(Column::new(labels, vec![ABSENT; grid.steps]));
                            out.len() - 1
                        }
                    }
                };
                latest = Some((point, at));
                let slot = &mut out[at].values[i];
                *slot = if is_stale(*slot) { 1.0 } else { *slot + 1.0 };
            }
        }
        Ok(out)
    }
}

/// Whether two samples have the same text for certain.
fn same(a: &Point, b: &Point) -> bool {
    match (a, b) {
        (Point::Float(a), Point::Float(b)) => a.to_bits() == b.to_bits(),
        (Point::Histogram(a), Point::Histogram(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

fn combine(op: AggregateOp, members: &[&[f64]], param: Option<&[f64]>, steps: usize) -> Vec<f64> {
    match op {
        AggregateOp::Sum => sum(members, steps),
        AggregateOp::Min => fold(members, steps, |v| v, |a, v| if v < a || a.is_nan() { v } else { a }),
        AggregateOp::Max => fold(members, steps, |v| v, |a, v| if v > a || a.is_nan() { v } else { a }),
        AggregateOp::Count => fold(members, steps, |_| 1.0, |a, _| a + 1.0),
        AggregateOp::Group => fold(members, steps, |_| 1.0, |a, _| a),
        AggregateOp::Avg => per_step(members, steps, |_, v| number::mean(v)),
        AggregateOp::Stdvar => per_step(members, steps, |_, v| variance(v)),
        AggregateOp::Stddev => per_step(members, steps, |_, v| variance(v).sqrt()),
        AggregateOp::Quantile => {
            let q = param.unwrap_or_default();
            per_step(members, steps, |i, v| number::quantile(q.get(i).copied().unwrap_or(f64::NAN), v))
        }
        AggregateOp::TopK
        | AggregateOp::BottomK
        | AggregateOp::LimitK
        | AggregateOp::LimitRatio
        | AggregateOp::CountValues => vec![ABSENT; steps],
    }
}

fn fold(members: &[&[f64]], steps: usize, first: impl Fn(f64) -> f64, next: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut out = vec![ABSENT; steps];
    for column in members {
        for (a, v) in out.iter_mut().zip(*column).filter(|(_, v)| !is_stale(**v)) {
            *a = if is_stale(*a) { first(*v) } else { next(*a, *v) };
        }
    }
    out
}

/// Compensated sums: small terms are not lost beside large ones.
fn sum(members: &[&[f64]], steps: usize) -> Vec<f64> {
    let mut out = vec![ABSENT; steps];
    let mut lost = vec![0.0; steps];
    for column in members {
        for ((a, c), v) in out.iter_mut().zip(&mut lost).zip(*column).filter(|(_, v)| !is_stale(**v)) {
            if is_stale(*a) {
                *a = *v;
            } else {
                (*a, *c) = kahan(*v, *a, *c);
            }
        }
    }
    for (a, c) in out.iter_mut().zip(lost).filter(|(a, _)| !is_stale(**a)) {
        *a += c;
    }
    out
}

/// Calls `f` with each step's index and present values; absent where there are none.
fn per_step(members: &[&[f64]], steps: usize, f: impl Fn(usize, &mut [f64]) -> f64) -> Vec<f64> {
    let mut present = Vec::with_capacity(members.len());
    let mut out = Vec::with_capacity(steps);
    for i in 0..steps {
        present.clear();
        present.extend(members.iter().map(|m| m[i]).filter(|v| !is_stale(*v)));
        out.push(if present.is_empty() { ABSENT } else { f(i, &mut present) });
    }
    out
}

/// Population variance by Welford's algorithm.
fn variance(values: &[f64]) -> f64 {
    let (mut mean, mut count, mut aux) = (0.0, 0.0, 0.0);
    for (i, v) in values.iter().enumerate() {
        count += 1.0;
        if i == 0 {
            // The variance of a single infinity is as unknown as that of several.
            (mean, aux) = (*v, if v.is_finite() { 0.0 } else { f64::NAN });
            continue;
        }
        let delta = v - mean;
        mean += delta / count;
        aux += delta * (v - mean);
    }
    aux / count
}
