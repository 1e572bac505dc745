//! Sums and means of many native histograms, for aggregations and for functions of windows.

use super::{Annotation, Combination, Context};
use crate::error::Evaluated;
use fabriclens_model::{Histogram, HistogramMean, HistogramSum, IncompatibleHistograms, Reconciled, ResetHint};

/// Combines histograms one after the other.
pub(crate) trait Accumulator {
    fn start(first: Histogram) -> Self;
    fn add(&mut self, other: &Histogram) -> Result<Reconciled, IncompatibleHistograms>;
    /// Bytes of memory.
    fn bytes(&self) -> usize;
    fn finish(self) -> Histogram;
}

impl Accumulator for HistogramSum {
    fn start(first: Histogram) -> Self {
        Self::new(first)
    }

    fn add(&mut self, other: &Histogram) -> Result<Reconciled, IncompatibleHistograms> {
        self.add(other)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn finish(self) -> Histogram {
        self.finish()
    }
}

impl Accumulator for HistogramMean {
    fn start(first: Histogram) -> Self {
        Self::new(first)
    }

    fn add(&mut self, other: &Histogram) -> Result<Reconciled, IncompatibleHistograms> {
        self.add(other)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn finish(self) -> Histogram {
        self.finish()
    }
}

impl Context<'_> {
    /// Combines histograms, each with its metric name. `None` if there are none, or if some have custom bounds and others
    /// do not.
    pub(crate) fn combine<'h, T: Accumulator>(
        &mut self,
        histograms: impl Iterator<Item = (&'h Histogram, &'h str)> + Clone,
        offset: usize,
    ) -> Evaluated<Option<Histogram>> {
        let mut rest = histograms.clone();
        let Some((first, _)) = rest.next() else { return Ok(None) };
        let mut all = T::start(first.clone());
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
