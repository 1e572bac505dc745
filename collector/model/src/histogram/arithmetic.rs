//! Sums, differences and multiples of histograms.

use super::buckets;
use super::{Histogram, IncompatibleHistograms, ResetHint};

/// What had to be reconciled to combine two histograms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// One is a counter reset and the other says that it is none.
    pub hints_collide: bool,
    /// Custom bounds that only one of them has were given up.
    pub bounds_differ: bool,
}

impl Reconciled {
    /// What had to be reconciled in either case.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            hints_collide: self.hints_collide || other.hints_collide,
            bounds_differ: self.bounds_differ || other.bounds_differ,
        }
    }
}

impl Histogram {
    /// Adds the observations of `other`, at the lower of both resolutions.
    ///
    /// # Errors
    /// [`IncompatibleHistograms`] if only one has custom bounds.
    pub fn add(&mut self, other: &Self) -> Result<Reconciled, IncompatibleHistograms> {
        self.combine(other, 1.0)
    }

    /// Subtracts the observations of `other`. The hint becomes that of a sum.
    ///
    /// # Errors
    /// See [`Self::add`].
    pub fn subtract(&mut self, other: &Self) -> Result<Reconciled, IncompatibleHistograms> {
        self.combine(other, -1.0)
    }

    fn combine(&mut self, other: &Self, sign: f64) -> Result<Reconciled, IncompatibleHistograms> {
        let aligned = self.align(None, other)?;
        self.zero_count += sign * aligned.zero_count;
        self.count += sign * other.count;
        self.sum += sign * other.sum;
        buckets::add(&mut self.positive, &aligned.positive, sign);
        buckets::add(&mut self.negative, &aligned.negative, sign);
        if aligned.reconciled.bounds_differ {
            self.compact();
        }
        Ok(aligned.reconciled)
    }

    /// Multiplies all counts and the sum. A negative factor makes a gauge.
    pub fn scale(&mut self, factor: f64) {
        self.each_count(|count| count * factor);
        if factor < 0.0 {
            self.hint = ResetHint::Gauge;
        }
    }

    /// Divides all counts and the sum; division by zero leaves no buckets. A negative divisor makes a gauge.
    pub fn divide(&mut self, divisor: f64) {
        if divisor == 0.0 {
            self.positive.clear();
            self.negative.clear();
        }
        self.each_count(|count| count / divisor);
        if divisor < 0.0 {
            self.hint = ResetHint::Gauge;
        }
    }

    fn each_count(&mut self, of: impl Fn(f64) -> f64) {
        for count in [&mut self.zero_count, &mut self.count, &mut self.sum] {
            *count = of(*count);
        }
        for b in self.positive.iter_mut().chain(&mut self.negative) {
            b.count = of(b.count);
        }
        if self.is_custom() {
            self.zero_count = 0.0;
        }
    }

    /// Removes empty buckets.
    pub fn compact(&mut self) {
        self.positive.retain(|b| b.count != 0.0);
        self.negative.retain(|b| b.count != 0.0);
    }

    /// Lowers the resolution to that of `schema` if both are exponential and it is lower.
    pub fn limit_schema(&mut self, schema: i8) {
        if !self.is_custom() && super::EXPONENTIAL_SCHEMAS.contains(&schema) && schema < self.schema {
            self.reduce(schema);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramAccumulator as _, HistogramMean, HistogramSum};
    use crate::{HistogramParts, Side, Span};

    fn side(offset: i32, counts: &[f64]) -> Side {
        Side { spans: vec![Span { offset, length: counts.len() as u32 }], counts: counts.to_vec() }
    }

    fn exponential(schema: i32, zero: (f64, f64), positive: Side, negative: Side) -> Histogram {
        let count = zero.1 + positive.counts.iter().chain(&negative.counts).sum::<f64>();
        let (zero_threshold, zero_count) = zero;
        let parts = HistogramParts {
            schema,
            zero_threshold,
            zero_count,
            count,
            positive,
            negative,
            ..HistogramParts::default()
        };
        Histogram::new(parts).unwrap()
    }

    fn custom(bounds: &[f64], counts: &[f64]) -> Histogram {
        let count = counts.iter().sum();
        let (schema, positive, custom_bounds) = (-53, side(0, counts), bounds.to_vec());
        Histogram::new(HistogramParts { schema, count, positive, custom_bounds, ..HistogramParts::default() }).unwrap()
    }

    #[test]
    fn sums_take_the_lower_schema() {
        let mut fine = exponential(2, (0.0, 1.0), side(1, &[1.0, 2.0, 3.0, 4.0, 5.0]), side(0, &[1.0]));
        let coarse = exponential(0, (0.0, 0.0), side(1, &[10.0]), side(1, &[7.0]));
        let mut other = coarse.clone();
        assert_eq!(fine.add(&coarse), Ok(Reconciled::default()));
        let want = exponential(0, (0.0, 1.0), side(1, &[20.0, 5.0]), side(0, &[1.0, 7.0]));
        assert_eq!(fine, want);
        other.subtract(&want).unwrap();
        assert_eq!(other, exponential(0, (0.0, -1.0), side(1, &[-10.0, -5.0]), side(0, &[-1.0, 0.0])));
    }

    #[test]
    fn zero_buckets_grow_to_the_end_of_a_populated_bucket() {
        // A threshold of 3 is within the bucket (2, 4] of the other histogram.
        let mut wide = exponential(0, (3.0, 5.0), side(4, &[1.0]), Side::default());
        let narrow = exponential(0, (0.5, 1.0), side(0, &[2.0, 3.0, 4.0, 6.0]), side(2, &[9.0]));
        wide.add(&narrow).unwrap();
        let want = exponential(0, (4.0, 5.0 + 1.0 + 2.0 + 3.0 + 4.0 + 9.0), side(3, &[6.0, 1.0]), Side::default());
        assert_eq!(wide, want);
        // Positive buckets alone raise the threshold too.
        let mut positive = exponential(0, (0.5, 1.0), side(2, &[4.0]), Side::default());
        positive.add(&exponential(0, (3.0, 5.0), Side::default(), Side::default())).unwrap();
        assert_eq!(positive, exponential(0, (4.0, 10.0), Side::default(), Side::default()));
        let mut narrow = narrow;
        narrow.add(&exponential(0, (3.0, 5.0), side(4, &[1.0]), Side::default())).unwrap();
        assert_eq!(narrow, want);
    }

    #[test]
    fn custom_bounds_are_reduced_to_those_of_both() {
        let mut a = custom(&[1.0, 2.0, 5.0], &[1.0, 2.0, 3.0, 4.0]);
        let b = custom(&[2.0, 3.0, 5.0], &[10.0, 20.0, 30.0, 40.0]);
        assert_eq!(a.add(&b), Ok(Reconciled { bounds_differ: true, hints_collide: false }));
        assert_eq!(a, custom(&[2.0, 5.0], &[13.0, 53.0, 44.0]));
        let mut c = custom(&[7.0], &[1.0, 2.0]);
        c.subtract(&custom(&[8.0], &[1.0, 1.0])).unwrap();
        assert_eq!(c, custom(&[], &[1.0]));
        let mut exponential = exponential(0, (0.0, 0.0), Side::default(), Side::default());
        assert_eq!(exponential.add(&a), Err(IncompatibleHistograms));
    }

    #[test]
    fn hints_follow_the_operands() {
        use ResetHint::{Gauge, NotReset, Reset, Unknown};
        for (a, b, want, collide) in [
            (Reset, Reset, Reset, false),
            (Gauge, Reset, Gauge, false),
            (NotReset, Gauge, Gauge, false),
            (Unknown, Reset, Unknown, false),
            (NotReset, Unknown, Unknown, false),
            (Reset, NotReset, Unknown, true),
        ] {
            let mut sum = custom(&[1.0], &[1.0]).with_hint(a);
            let got = sum.add(&custom(&[1.0], &[1.0]).with_hint(b)).unwrap();
            assert_eq!((sum.hint(), got.hints_collide), (want, collide), "{a:?} {b:?}");
        }
        let mut negated = custom(&[1.0], &[1.0, 3.0]);
        negated.scale(-1.0);
        assert_eq!((negated.hint(), negated.count()), (Gauge, -4.0));
        negated.divide(0.0);
        assert!(negated.count() == f64::NEG_INFINITY && !negated.has_positive() && negated.zero_count() == 0.0);
    }

    /// Pseudo-random histograms with any schema, zero bucket, spans and counts, also useless ones.
    fn any(seed: &mut u64) -> Histogram {
        let mut next = |below: u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % below
        };
        loop {
            let custom = next(4) == 0;
            let values = [0.0, 1.0, 2.5, -3.0, 1e300, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE];
            let mut side = |of_custom: bool| {
                let spans: Vec<Span> = (0..next(4))
                    .map(|i| {
                        let first = if of_custom { 0 } else { next(600_000) as i32 - 300_000 };
                        let offset = if i == 0 { first >> next(20) } else { next(5) as i32 };
                        Span { offset, length: next(4) as u32 }
                    })
                    .collect();
                let length = spans.iter().map(|s| s.length).sum::<u32>();
                let counts = (0..length).map(|_| values[next(8) as usize]).collect();
                Side { spans, counts }
            };
            let (positive, negative) = (side(custom), if custom { Side::default() } else { side(false) });
            let parts = HistogramParts {
                schema: if custom { -53 } else { next(13) as i32 - 4 },
                zero_threshold: if custom { 0.0 } else { [0.0, 1e-9, 0.7, 5.0, f64::MAX][next(5) as usize] },
                zero_count: if custom { 0.0 } else { values[next(8) as usize] },
                count: values[next(8) as usize],
                sum: values[next(8) as usize],
                positive,
                negative,
                custom_bounds: if custom {
                    (0..next(30)).map(|i| (i * (1 + next(3))) as f64).collect()
                } else {
                    vec![]
                },
                hint: ResetHint::Unknown,
            };
            if let Ok(histogram) = Histogram::new(parts) {
                return histogram;
            }
        }
    }

    #[test]
    fn any_two_histograms_are_combined_or_refused() {
        let mut seed = 7;
        let mut combined = 0;
        for _ in 0..3000 {
            let (a, b) = (any(&mut seed), any(&mut seed));
            let (mut sum, mut difference) = (a.clone(), a.clone());
            let refused = sum.add(&b).is_err();
            assert_eq!((refused, difference.subtract(&b).is_err()), (a.is_custom() != b.is_custom(), refused));
            let mut all = HistogramSum::new(a.clone());
            let mut mean = HistogramMean::new(a.clone());
            assert_eq!((all.add(&b).is_err(), mean.add(&b).is_err()), (refused, refused));
            for h in [sum, difference, all.finish(), mean.finish()] {
                combined += 1;
                // The result is a histogram whose parts are accepted.
                assert_eq!(Histogram::new(h.parts()).map(|again| again.same_observations(&h)), Ok(true));
                assert!(h.intervals().all(|i| i.lower <= i.upper), "{h:?}");
                let _ = (h.is_reset_after(&a), a.is_reset_after(&h));
                for (value, keep) in [(1.0, crate::Keep::Below), (-0.5, crate::Keep::Above)] {
                    h.clone().trim(value, keep);
                }
            }
        }
        assert!(combined > 10_000);
    }
}
