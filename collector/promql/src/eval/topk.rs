//! `topk` and `bottomk`: select whole series, per step and group.

use super::aggregate::groups;
use super::{ABSENT, Column, Context, Grid};
use crate::error::{Evaluated, QueryError};
use crate::plan::{Aggregate, AggregateOp};
use fabriclens_model::is_stale;
use std::cmp::Ordering;

impl Context<'_> {
    /// Results keep their labels. At a single step they are ordered by value, NaN last; equal values keep their order.
    pub(super) fn topk(
        &mut self,
        a: &Aggregate,
        columns: Vec<Column>,
        k: &[f64],
        grid: Grid,
    ) -> Evaluated<Vec<Column>> {
        if columns.is_empty() {
            return Ok(columns);
        }
        check_k(k)?;
        if k.iter().any(|k| *k >= 1.0) {
            self.ignore_histograms(a, &columns);
        }
        let top = a.op == AggregateOp::TopK;
        let mut chosen: Vec<Vec<f64>> = vec![vec![]; columns.len()];
        let mut order: Vec<usize> = vec![];
        for group in groups(&columns, &a.grouping) {
            self.check()?;
            let mut present: Vec<usize> = Vec::with_capacity(group.members.len());
            for i in 0..grid.steps {
                present.clear();
                present.extend(group.members.iter().copied().filter(|m| !is_stale(columns[*m].values[i])));
                let order_of =
                    |x: &usize, y: &usize| compare(columns[*x].values[i], columns[*y].values[i], top).then(x.cmp(y));
                // A k larger than the number of series selects all of them.
                let keep = (k[i].max(0.0) as usize).min(present.len());
                if (1..present.len()).contains(&keep) {
                    present.select_nth_unstable_by(keep - 1, order_of);
                }
                present.truncate(keep);
                present.sort_unstable_by(order_of);
                for m in &present {
                    if chosen[*m].is_empty() {
                        chosen[*m] = vec![ABSENT; grid.steps];
                        order.push(*m);
                    }
                    chosen[*m][i] = columns[*m].values[i];
                }
            }
        }
        Ok(order.into_iter().map(|m| Column { values: std::mem::take(&mut chosen[m]), ..columns[m].shell() }).collect())
    }
}

/// Refuses numbers of series that are no 64-bit integers.
pub(super) fn check_k(k: &[f64]) -> Evaluated<()> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let bad = |what: &str, v: f64| {
        Err(QueryError::Execution(format!("Scalar value {} {what} int64", crate::number::general(v))))
    };
    // No series are wanted, whatever the numbers are.
    if k.iter().all(|k| *k < 1.0) {
        return Ok(());
    }
    if k.iter().any(|k| k.is_nan()) {
        return Err(QueryError::Execution("Parameter value is NaN".to_owned()));
    }
    match k.iter().find(|k| !(-LIMIT..LIMIT).contains(*k)) {
        Some(v) if *v < 0.0 => bad("underflows", *v),
        Some(v) => bad("overflows", *v),
        None => Ok(()),
    }
}

/// Orders the best value first; NaN is last in both directions.
pub(crate) fn compare(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => {
            let ascending = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
            if descending { ascending.reverse() } else { ascending }
        }
    }
}
