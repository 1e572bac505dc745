//! Compensated sums and means of many histograms: large counts do not swallow small ones.

use super::buckets::add_compensated;
use super::{Histogram, IncompatibleHistograms, Reconciled};
use crate::kahan;

/// Combines histograms one after the other.
pub trait HistogramAccumulator {
    /// The combination of one histogram.
    fn new(first: Histogram) -> Self;

    /// Adds a histogram.
    ///
    /// # Errors
    /// [`IncompatibleHistograms`] if it has custom bounds and those before have none, or the other way round.
    fn add(&mut self, other: &Histogram) -> Result<Reconciled, IncompatibleHistograms>;

    /// Bytes of memory.
    fn bytes(&self) -> usize;

    /// The result without empty buckets.
    fn finish(self) -> Histogram;
}

/// A compensated sum.
#[derive(Clone, Debug)]
pub struct HistogramSum {
    sum: Histogram,
    /// What rounding took from each count.
    lost: Histogram,
}

impl HistogramSum {
    fn scale(&mut self, factor: f64) {
        self.sum.scale(factor);
        self.lost.scale(factor);
    }

    fn divide(&mut self, divisor: f64) {
        self.sum.divide(divisor);
        self.lost.divide(divisor);
    }

    fn overflows(&self) -> bool {
        let h = &self.sum;
        let counts = h.positive.iter().chain(&h.negative).map(|b| b.count);
        counts.chain([h.zero_count, h.count, h.sum]).any(f64::is_infinite)
    }
}

impl HistogramAccumulator for HistogramSum {
    fn new(first: Histogram) -> Self {
        let mut lost = first.emptied();
        lost.zero_threshold = first.zero_threshold;
        Self { sum: first, lost }
    }

    fn add(&mut self, other: &Histogram) -> Result<Reconciled, IncompatibleHistograms> {
        let Self { sum, lost } = self;
        let aligned = sum.align(Some(lost), other)?;
        (sum.zero_count, lost.zero_count) = kahan(aligned.zero_count, sum.zero_count, lost.zero_count);
        (sum.count, lost.count) = kahan(other.count, sum.count, lost.count);
        (sum.sum, lost.sum) = kahan(other.sum, sum.sum, lost.sum);
        add_compensated(&mut sum.positive, &mut lost.positive, &aligned.positive);
        add_compensated(&mut sum.negative, &mut lost.negative, &aligned.negative);
        Ok(aligned.reconciled)
    }

    fn bytes(&self) -> usize {
        self.sum.bytes() + self.lost.bytes()
    }

    fn finish(self) -> Histogram {
        let Self { mut sum, lost } = self;
        // Both have the same buckets, so nothing can be refused.
        if sum.add(&lost).is_ok() {
            sum.compact();
        }
        sum
    }
}

/// A mean: the compensated sum divided by the number of histograms, or, where the sum would overflow, updated by each.
#[derive(Clone, Debug)]
pub struct HistogramMean {
    sum: HistogramSum,
    number: f64,
    /// Whether `sum` is a mean already.
    updated: bool,
}

impl HistogramAccumulator for HistogramMean {
    fn new(first: Histogram) -> Self {
        Self { sum: HistogramSum::new(first), number: 1.0, updated: false }
    }

    fn add(&mut self, other: &Histogram) -> Result<Reconciled, IncompatibleHistograms> {
        let before = self.number;
        self.number += 1.0;
        if !self.updated {
            let mut next = self.sum.clone();
            let reconciled = next.add(other)?;
            if !next.overflows() {
                self.sum = next;
                return Ok(reconciled);
            }
            self.sum.divide(before);
            self.updated = true;
        }
        let mut part = other.clone();
        part.divide(self.number);
        self.sum.scale(before / self.number);
        self.sum.add(&part)
    }

    fn bytes(&self) -> usize {
        self.sum.bytes()
    }

    fn finish(mut self) -> Histogram {
        if !self.updated {
            self.sum.divide(self.number);
        }
        self.sum.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramParts, Side, Span};

    fn of(schema: i32, offset: i32, count: f64) -> Histogram {
        let positive = Side { spans: vec![Span { offset, length: 1 }], counts: vec![count] };
        Histogram::new(HistogramParts { schema, count, sum: count, positive, ..HistogramParts::default() }).unwrap()
    }

    #[test]
    fn small_counts_survive_large_ones() {
        let mut sum = HistogramSum::new(of(3, 1, 1e100));
        // The resolution is lowered on the way.
        for other in [of(3, 1, 1.0), of(0, 1, 2.0), of(2, 3, -1e100)] {
            sum.add(&other).unwrap();
        }
        assert_eq!(sum.finish(), of(0, 1, 3.0));
    }

    #[test]
    fn means_do_not_overflow() {
        let mut mean = HistogramMean::new(of(0, 1, f64::MAX));
        for _ in 0..3 {
            mean.add(&of(0, 1, f64::MAX)).unwrap();
        }
        let mean = mean.finish();
        assert!((mean.count() / f64::MAX - 1.0).abs() < 1e-12, "{mean:?}");
        let mut small = HistogramMean::new(of(0, 1, 1.0));
        small.add(&of(0, 2, 3.0)).unwrap();
        let small = small.finish();
        assert_eq!((small.count(), small.intervals().map(|b| b.count).collect::<Vec<_>>()), (2.0, vec![0.5, 1.5]));
    }
}
