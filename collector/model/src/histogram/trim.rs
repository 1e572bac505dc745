//! Histograms with only the observations below or above a value, estimated within the bucket that contains the value.

use super::buckets::Bucket;
use super::{Histogram, Interval};

/// Which observations remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those below the value.
    Below,
    /// Those above it.
    Above,
}

/// Observations that remain of a bucket, and the value that stands for each of them in the sum.
type Rest = (f64, f64);

impl Histogram {
    /// Removes the observations on the other side of `value`. The sum is estimated from the middles of the buckets, unless
    /// nothing was removed.
    pub fn trim(&mut self, value: f64, keep: Keep) {
        let (mut positive, mut negative) = (std::mem::take(&mut self.positive), std::mem::take(&mut self.negative));
        let populated = |side: &[Bucket]| side.iter().any(|b| b.count != 0.0);
        let (above, below) = (populated(&positive), populated(&negative));
        let (mut count, mut sum, mut changed) = (0.0, 0.0, false);
        let mut take = |(rest, middle): Rest, before: &mut f64| {
            changed |= rest.to_bits() != before.to_bits();
            *before = rest;
            count += rest;
            sum += middle * rest;
        };
        for b in positive.iter_mut().filter(|b| b.count != 0.0) {
            take(self.rest(self.positive_interval(b), value, keep, true), &mut b.count);
        }
        for b in negative.iter_mut().filter(|b| b.count != 0.0) {
            take(self.rest(self.negative_interval(b), value, keep, false), &mut b.count);
        }
        if self.zero_count > 0.0 {
            let mut zero = self.zero_interval();
            // Without negative buckets nothing in the zero bucket is taken as negative.
            if above && !below {
                zero.lower = 0.0;
            } else if below && !above {
                zero.upper = 0.0;
            }
            let mut zero_count = self.zero_count;
            take(linear_rest(zero, value, keep), &mut zero_count);
            self.zero_count = zero_count;
        }
        (self.positive, self.negative) = (positive, negative);
        if changed {
            (self.count, self.sum) = (count, sum);
            self.compact();
        }
    }

    fn rest(&self, b: Interval, value: f64, keep: Keep, positive: bool) -> Rest {
        let whole = (b.count, self.middle(b.lower, b.upper, positive));
        match keep {
            Keep::Below if b.upper <= value => whole,
            Keep::Above if b.lower >= value => whole,
            Keep::Below if b.lower >= value => (0.0, 0.0),
            Keep::Above if b.upper <= value => (0.0, 0.0),
            _ if value.is_nan() => (0.0, 0.0),
            _ if b.lower.is_infinite() || b.upper.is_infinite() => unbounded_rest(b, value, keep),
            Keep::Below => (b.count * self.share_below(b, value), self.middle(b.lower, value, positive)),
            Keep::Above => (b.count - b.count * self.share_below(b, value), self.middle(value, b.upper, positive)),
        }
    }

    /// Share of a bucket's observations that is below a value within it: exponential buckets are interpolated by the
    /// logarithm.
    fn share_below(&self, b: Interval, value: f64) -> f64 {
        if self.is_custom() {
            return (value - b.lower) / (b.upper - b.lower);
        }
        let [lower, upper, value] = [b.lower, b.upper, value].map(|v| v.abs().log2());
        if b.lower >= 0.0 { (value - lower) / (upper - lower) } else { 1.0 - (value - upper) / (lower - upper) }
    }

    /// The value that stands for those between two bounds: their arithmetic or geometric mean.
    fn middle(&self, lower: f64, upper: f64, positive: bool) -> f64 {
        match (lower.is_infinite(), upper.is_infinite()) {
            (true, true) => 0.0,
            (true, false) if upper > 0.0 => upper / 2.0,
            (true, false) => upper,
            (false, true) => lower,
            (false, false) if self.is_custom() => f64::midpoint(lower, upper),
            (false, false) => (lower * upper).abs().sqrt().copysign(if positive { 1.0 } else { -1.0 }),
        }
    }
}

/// Observations in a bucket with one bound that contains the value. Where they are is not known: they go, unless the
/// bucket begins at zero in effect, or the side that remains is the bounded one.
fn unbounded_rest(b: Interval, value: f64, keep: Keep) -> Rest {
    let from_zero = b.lower.is_infinite() && b.upper.is_finite();
    match keep {
        Keep::Below if from_zero && value > 0.0 => (b.count * value / b.upper, value / 2.0),
        Keep::Below if from_zero && b.upper <= 0.0 => (b.count, value),
        Keep::Above if from_zero && value >= 0.0 => (b.count * (1.0 - value / b.upper), f64::midpoint(value, b.upper)),
        Keep::Above if b.upper.is_infinite() && b.lower.is_finite() => (b.count, value),
        _ => (0.0, 0.0),
    }
}

/// Observations in the zero bucket, spread evenly.
fn linear_rest(b: Interval, value: f64, keep: Keep) -> Rest {
    let (whole, none) = ((b.count, f64::midpoint(b.lower, b.upper)), (0.0, 0.0));
    let (below, above) = if keep == Keep::Below { (none, whole) } else { (whole, none) };
    if value <= b.lower {
        return below;
    }
    if value >= b.upper {
        return above;
    }
    let (lower, upper) = if keep == Keep::Below { (b.lower, value) } else { (value, b.upper) };
    (b.count * (upper - lower) / (b.upper - b.lower), f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramParts, Side, Span};

    fn side(offset: i32, counts: &[f64]) -> Side {
        Side { spans: vec![Span { offset, length: counts.len() as u32 }], counts: counts.to_vec() }
    }

    fn trimmed(h: &Histogram, value: f64, keep: Keep) -> (f64, f64, Vec<f64>) {
        let mut h = h.clone();
        h.trim(value, keep);
        (h.count(), h.sum(), h.intervals().map(|b| b.count).collect())
    }

    #[test]
    fn exponential_buckets_are_split_by_the_logarithm() {
        let parts = HistogramParts {
            zero_threshold: 0.5,
            zero_count: 4.0,
            count: 15.0,
            sum: 100.0,
            positive: side(1, &[1.0, 2.0, 8.0]),
            ..HistogramParts::default()
        };
        let h = Histogram::new(parts).unwrap();
        // Half of the bucket (4, 8] is below the square root of its bounds.
        let value = 32.0_f64.sqrt();
        let (count, sum, counts) = trimmed(&h, value, Keep::Below);
        assert_eq!((count, counts), (11.0, vec![4.0, 1.0, 2.0, 4.0]));
        let middle = |lower: f64, upper: f64| (lower * upper).sqrt();
        let want = 4.0 * 0.25 + middle(1.0, 2.0) + 2.0 * middle(2.0, 4.0) + 4.0 * middle(4.0, value);
        assert!((sum - want).abs() < 1e-12);
        assert_eq!(trimmed(&h, value, Keep::Above).2, [4.0]);
        // Nothing is removed, so the sum is as it was.
        assert_eq!(trimmed(&h, 8.0, Keep::Below), (15.0, 100.0, vec![4.0, 1.0, 2.0, 8.0]));
        // Only the positive half of the zero bucket is taken to have observations.
        assert_eq!(trimmed(&h, 0.25, Keep::Below), (2.0, 0.25, vec![2.0]));
        assert_eq!(trimmed(&h, 0.0, Keep::Above).0, 15.0);
        assert_eq!(trimmed(&h, f64::NEG_INFINITY, Keep::Below), (0.0, 0.0, vec![]));
        assert!(trimmed(&h, f64::NAN, Keep::Below).0.is_nan());
    }

    #[test]
    fn custom_buckets_are_split_evenly_and_unbounded_ones_not_at_all() {
        let (positive, custom_bounds) = (side(0, &[4.0, 8.0, 16.0]), vec![2.0, 4.0]);
        let parts = HistogramParts { schema: -53, count: 28.0, positive, custom_bounds, ..HistogramParts::default() };
        let h = Histogram::new(parts).unwrap();
        assert_eq!(trimmed(&h, 3.0, Keep::Below), (8.0, 4.0 + 4.0 * 2.5, vec![4.0, 4.0]));
        assert_eq!(trimmed(&h, 1.0, Keep::Below), (2.0, 1.0, vec![2.0]));
        assert_eq!(trimmed(&h, -1.0, Keep::Below), (0.0, 0.0, vec![]));
        assert_eq!(trimmed(&h, 1.0, Keep::Above).2, [2.0, 8.0, 16.0]);
        assert_eq!(trimmed(&h, 9.0, Keep::Above), (16.0, 16.0 * 9.0, vec![16.0]));
        assert_eq!(trimmed(&h, 9.0, Keep::Below).2, [4.0, 8.0]);
    }
}
