//! `absent` and `absent_over_time`: one series where none exist.

use crate::error::Evaluated;
use crate::eval::{ABSENT, Column, Columns, Context, Grid, between};
use crate::plan::{Expr, Node, Selector};
use fabriclens_model::{Labels, MatchOp, Rollup, is_stale};
use std::collections::BTreeMap;

pub(super) fn absent(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let columns = cx.vector(&args[0], grid)?;
    let mut values = vec![1.0; grid.steps];
    for c in &columns {
        for i in (0..grid.steps).filter(|i| c.present(*i)) {
            values[i] = ABSENT;
        }
    }
    Ok(gaps(&args[0], values))
}

pub(super) fn absent_over_time(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let ranged = cx.ranged(&args[0], grid, Some(Rollup::Last))?;
    let mut values = vec![1.0; grid.steps];
    for s in &ranged.series {
        for (gap, time) in values.iter_mut().zip(grid.times()) {
            let (start, end) = ranged.window(time);
            let start = cx.limits.version.first_within(start);
            let histograms = between(&s.histograms, (start, end)).len();
            let floats = s.times.partition_point(|t| *t <= end) - s.times.partition_point(|t| *t < start);
            let found = floats + histograms;
            cx.count_samples(found);
            if found > 0 {
                *gap = ABSENT;
            }
        }
    }
    Ok(gaps(&args[0], values))
}

fn gaps(arg: &Expr, values: Vec<f64>) -> Columns {
    if values.iter().all(|v| is_stale(*v)) {
        return Columns::Vector(vec![]);
    }
    let labels = match &arg.node {
        Node::Select(s) | Node::Range(s, _) => labels_sought(s),
        _ => Labels::default(),
    };
    Columns::Vector(vec![Column::new(labels, values)])
}

/// Labels of the missing series: the equality matchers, except labels that are matched more than once.
fn labels_sought(s: &Selector) -> Labels {
    let mut sought: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for m in s.matchers.iter().filter(|m| m.name != "__name__") {
        let first = !sought.contains_key(m.name.as_str());
        let value = (m.op == MatchOp::Equal && first).then_some(m.value.as_str());
        if value.is_some() || !first {
            sought.insert(&m.name, value);
        }
    }
    Labels::new(sought.into_iter().filter_map(|(n, v)| Some((n, v?))))
}
