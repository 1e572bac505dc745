//! Sums and means of many native histograms, for aggregations and for functions of windows.

use super::{Annotation, Combination, Context};
use crate::error::Evaluated;
use fabriclens_model::{Histogram, HistogramAccumulator, IncompatibleHistograms, Reconciled, ResetHint};

impl Context<'_> {
    /// Combines histograms, each with its metric name. `None` if there are none, or if some have custom bounds and others
    /// do not.
    pub(crate) fn combine<'h, T: HistogramAccumulator>(
        &mut self,
        histograms: impl Iterator<Item = (&'h Histogram, &'h str)> + Clone,
        offset: usize,
    ) -> Evaluated<Option<Histogram>> {
        let mut rest = histograms.clone();
        let Some((first, _)) = rest.next() else { return Ok(None) };
        let mut all = T::new(first.clone());
        let mut bounds_differ = false;
        for (h, metric) in rest {
            self.check()?;
            match all.add(h) {
                Ok(reconciled) => bounds_differ |= reconciled.bounds_differ,
                Err(IncompatibleHistograms) => {
                    self.annotate(&Annotation::MixedSchemas(metric), offset);
                    return Ok(None);
                }
            }
            self.afford(all.bytes().div_ceil(size_of::<f64>()))?;
        }
        let hinted = |hint| histograms.clone().any(|(h, _)| h.hint() == hint);
        let hints_collide = hinted(ResetHint::Reset) && hinted(ResetHint::NotReset);
        self.annotate_reconciled(Reconciled { hints_collide, bounds_differ }, Combination::Aggregation, offset);
        Ok(Some(all.finish()))
    }
}
