//! Aggregations of groups with native histograms: sums and means of histograms, counts of samples of both kinds. The
//! other aggregations leave histograms out.

use super::{ABSENT, Column, Combination, Context, Point, Remark};
use crate::error::Evaluated;
use crate::plan::{AGGREGATIONS, Aggregate, AggregateOp};
use fabriclens_model::{Histogram, HistogramMean, HistogramSum, IncompatibleHistograms, Reconciled, ResetHint};
use std::sync::Arc;

impl AggregateOp {
    /// As queries write it.
    pub(super) fn name(self) -> &'static str {
        AGGREGATIONS.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }
}

impl Context<'_> {
    /// Says that histograms are left out of an aggregation.
    pub(super) fn ignore_histograms(&mut self, a: &Aggregate, columns: &[Column]) {
        if columns.iter().any(|c| c.histograms.any()) {
            self.remark(&Remark::IgnoredInAggregation(a.op.name()), a.expr.offset);
        }
    }

    /// Aggregates the members of a group that has histograms. `out` has the result of its floats.
    pub(super) fn aggregate_histograms(
        &mut self,
        a: &Aggregate,
        members: &[&Column],
        out: &mut Column,
    ) -> Evaluated<()> {
        for i in 0..out.values.len() {
            match a.op {
                AggregateOp::Count | AggregateOp::Group => {
                    let present = members.iter().filter(|c| c.present(i)).count();
                    let value = if a.op == AggregateOp::Group { 1.0 } else { present as f64 };
                    out.values[i] = if present == 0 { ABSENT } else { value };
                }
                AggregateOp::Sum | AggregateOp::Avg => {
                    self.check()?;
                    let histograms = || members.iter().filter_map(|c| Some((c.histograms.at(i)?, c.labels.metric())));
                    if histograms().next().is_none() {
                        continue;
                    }
                    if histograms().count() < members.iter().filter(|c| c.present(i)).count() {
                        self.remark(&Remark::MixedAggregation, a.expr.offset);
                        out.put(i, None);
                        continue;
                    }
                    let combined = if a.op == AggregateOp::Sum {
                        let first = |h: &Histogram| HistogramSum::new(h.clone());
                        self.combined(a, histograms(), first, HistogramSum::add, HistogramSum::finish)
                    } else {
                        let first = |h: &Histogram| HistogramMean::new(h.clone());
                        self.combined(a, histograms(), first, HistogramMean::add, HistogramMean::finish)
                    };
                    if let Some(h) = &combined {
                        self.charge_histogram(h)?;
                    }
                    out.put(i, combined.map(Point::from));
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// `None` if some have custom bounds and others none.
    fn combined<'c, T>(
        &mut self,
        a: &Aggregate,
        histograms: impl Iterator<Item = (&'c Arc<Histogram>, &'c str)> + Clone,
        start: impl Fn(&Histogram) -> T,
        add: impl Fn(&mut T, &Histogram) -> Result<Reconciled, IncompatibleHistograms>,
        finish: impl Fn(T) -> Histogram,
    ) -> Option<Histogram> {
        let mut rest = histograms.clone();
        let (first, _) = rest.next()?;
        let mut all = start(first);
        let mut bounds_differ = false;
        for (h, metric) in rest {
            match add(&mut all, h) {
                Ok(reconciled) => bounds_differ |= reconciled.bounds_differ,
                Err(IncompatibleHistograms) => {
                    self.remark(&Remark::MixedSchemas(metric), a.expr.offset);
                    return None;
                }
            }
        }
        let hinted = |hint| histograms.clone().any(|(h, _)| h.hint() == hint);
        let hints_collide = hinted(ResetHint::Reset) && hinted(ResetHint::NotReset);
        self.remark_reconciled(Reconciled { hints_collide, bounds_differ }, Combination::Aggregation, a.expr.offset);
        Some(finish(all))
    }
}
