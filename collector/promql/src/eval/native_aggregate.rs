//! Aggregations of groups with native histograms: sums and means of histograms, counts of samples of both kinds. The
//! other aggregations leave histograms out.

use super::{ABSENT, Annotation, Column, Context, Point};
use crate::error::Evaluated;
use crate::plan::{AGGREGATIONS, Aggregate, AggregateOp};
use fabriclens_model::{HistogramMean, HistogramSum};

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
            self.annotate(&Annotation::IgnoredInAggregation(a.op.name()), a.expr.offset);
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
                        self.annotate(&Annotation::MixedAggregation, a.expr.offset);
                        out.put(i, None);
                        continue;
                    }
                    let each = histograms().map(|(h, metric)| (&**h, metric));
                    let combined = if a.op == AggregateOp::Sum {
                        self.combine::<HistogramSum>(each, a.expr.offset)?
                    } else {
                        self.combine::<HistogramMean>(each, a.expr.offset)?
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
}
