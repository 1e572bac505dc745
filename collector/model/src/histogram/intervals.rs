//! Buckets as intervals of values.

use super::Histogram;
use super::buckets::{Bucket, upper_bound};

/// A bucket with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound; may be infinite.
    pub lower: f64,
    /// Upper bound; may be infinite.
    pub upper: f64,
    /// Whether the lower bound belongs to it.
    pub lower_inclusive: bool,
    /// Whether the upper bound belongs to it.
    pub upper_inclusive: bool,
    /// Observations.
    pub count: f64,
}

impl Histogram {
    /// Buckets in ascending order, with the zero bucket if it has observations. A bucket that overlaps the zero bucket
    /// begins at its threshold.
    pub fn intervals(&self) -> impl DoubleEndedIterator<Item = Interval> + '_ {
        let threshold = self.zero_threshold;
        let negative = self.negative.iter().rev().map(move |b| {
            let interval = self.negative_interval(b);
            let overlaps = interval.upper > -threshold && interval.lower < -threshold;
            Interval { upper: if overlaps { -threshold } else { interval.upper }, ..interval }
        });
        let positive = self.positive.iter().map(move |b| {
            let interval = self.positive_interval(b);
            let overlaps = interval.lower < threshold && interval.upper > threshold && !self.is_custom();
            Interval { lower: if overlaps { threshold } else { interval.lower }, ..interval }
        });
        let zero = (self.zero_count > 0.0).then(|| self.zero_interval());
        negative.chain(zero).chain(positive)
    }

    pub(super) fn zero_interval(&self) -> Interval {
        Interval {
            lower: -self.zero_threshold,
            upper: self.zero_threshold,
            lower_inclusive: true,
            upper_inclusive: true,
            count: self.zero_count,
        }
    }

    pub(super) fn positive_interval(&self, b: &Bucket) -> Interval {
        if self.is_custom() {
            let bound = |index: i32| usize::try_from(index).ok().and_then(|i| self.bounds.get(i)).copied();
            let (lower, upper) = (bound(b.index - 1), bound(b.index));
            return Interval {
                lower: lower.unwrap_or(f64::NEG_INFINITY),
                upper: upper.unwrap_or(f64::INFINITY),
                lower_inclusive: b.index == 0,
                upper_inclusive: true,
                count: b.count,
            };
        }
        Interval {
            lower: upper_bound(b.index - 1, self.schema),
            upper: upper_bound(b.index, self.schema),
            lower_inclusive: false,
            upper_inclusive: true,
            count: b.count,
        }
    }

    pub(super) fn negative_interval(&self, b: &Bucket) -> Interval {
        let mirror = self.positive_interval(b);
        Interval {
            lower: -mirror.upper,
            upper: -mirror.lower,
            lower_inclusive: true,
            upper_inclusive: false,
            count: b.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramParts, Side, Span};

    fn side(offset: i32, counts: &[f64]) -> Side {
        Side { spans: vec![Span { offset, length: counts.len() as u32 }], counts: counts.to_vec() }
    }

    #[test]
    fn intervals_ascend_in_both_directions() {
        let parts = HistogramParts {
            zero_threshold: 0.75,
            zero_count: 5.0,
            positive: side(0, &[1.0, 2.0]),
            negative: side(0, &[3.0, 4.0]),
            ..HistogramParts::default()
        };
        let h = Histogram::new(parts).unwrap();
        let seen = |b: Interval| (b.lower, b.upper, b.count);
        let want = [(-2.0, -1.0, 4.0), (-1.0, -0.75, 3.0), (-0.75, 0.75, 5.0), (0.75, 1.0, 1.0), (1.0, 2.0, 2.0)];
        assert_eq!(h.intervals().map(seen).collect::<Vec<_>>(), want);
        assert_eq!(h.intervals().rev().map(seen).collect::<Vec<_>>(), want.into_iter().rev().collect::<Vec<_>>());
        let (schema, positive, custom_bounds) = (-53, side(0, &[1.0, 2.0]), vec![5.0]);
        let custom = Histogram::new(HistogramParts { schema, positive, custom_bounds, ..HistogramParts::default() });
        let inf = f64::INFINITY;
        let custom = custom.unwrap();
        assert_eq!(custom.intervals().map(seen).collect::<Vec<_>>(), [(-inf, 5.0, 1.0), (5.0, inf, 2.0)]);
    }
}
