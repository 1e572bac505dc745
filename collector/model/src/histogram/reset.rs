//! Detection of counter resets: a histogram whose counts are not those of its predecessor and more.

use super::buckets::{Bucket, above, reduced};
use super::{Histogram, ResetHint, same_bounds};
use std::borrow::Cow;

impl Histogram {
    /// Whether this histogram has started from zero after `previous`: by its hint, else because any count is smaller or a
    /// populated bucket is missing. A finer resolution or a smaller zero bucket needs a restart too.
    #[expect(clippy::float_cmp, reason = "the threshold is returned unchanged, or raised to the end of a bucket")]
    pub fn is_reset_after(&self, previous: &Self) -> bool {
        match self.hint {
            ResetHint::Reset => return true,
            ResetHint::NotReset => return false,
            ResetHint::Unknown | ResetHint::Gauge => {}
        }
        if self.count < previous.count || self.is_custom() && !previous.is_custom() {
            return true;
        }
        if self.is_custom() && !same_bounds(&self.bounds, &previous.bounds) {
            return self.is_reset_between_common_bounds(previous);
        }
        if self.schema > previous.schema || self.zero_threshold < previous.zero_threshold {
            return true;
        }
        let (zero_count, threshold) = previous.zero_bucket_for(self.zero_threshold);
        if threshold != self.zero_threshold || self.zero_count < zero_count {
            return true;
        }
        let by = (previous.schema - self.schema).unsigned_abs();
        let decreased = |now: &[Bucket], before: &[Bucket]| {
            let before = if by == 0 { Cow::Borrowed(before) } else { Cow::Owned(reduced(before, by.into())) };
            let [now, before] = [now, &before].map(|side| above(side, self.zero_threshold, self.schema));
            decreases(now, before)
        };
        decreased(&self.positive, &previous.positive) || decreased(&self.negative, &previous.negative)
    }

    fn is_reset_between_common_bounds(&self, previous: &Self) -> bool {
        let (mut now, mut before) = (self.clone(), previous.clone());
        let aligned = now.align(None, previous).is_ok() && before.align(None, self).is_ok();
        !aligned || decreases(&now.positive, &before.positive)
    }
}

/// Whether a bucket has fewer observations than before, or lacks those that it had.
fn decreases(now: &[Bucket], before: &[Bucket]) -> bool {
    let mut current = now.iter().peekable();
    before.iter().any(|b| {
        while current.next_if(|c| c.index < b.index).is_some() {}
        match current.peek() {
            Some(c) if c.index == b.index => c.count < b.count,
            _ => b.count != 0.0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramParts, Side, Span};

    fn of(schema: i32, zero: (f64, f64), offset: i32, counts: &[f64]) -> Histogram {
        let positive = Side { spans: vec![Span { offset, length: counts.len() as u32 }], counts: counts.to_vec() };
        let (zero_threshold, zero_count) = zero;
        let count = zero_count + counts.iter().sum::<f64>();
        let parts = HistogramParts { schema, zero_threshold, zero_count, count, positive, ..HistogramParts::default() };
        Histogram::new(parts).unwrap()
    }

    #[test]
    fn any_smaller_count_is_a_reset() {
        let before = of(1, (0.1, 1.0), 0, &[1.0, 0.0, 3.0]);
        for (now, want) in [
            (before.clone(), false),
            (of(1, (0.1, 1.0), 0, &[2.0, 5.0, 3.0]), false),
            (of(1, (0.1, 1.0), 0, &[9.0, 0.0, 2.0]), true),
            (of(1, (0.1, 0.0), 0, &[9.0, 0.0, 3.0]), true),
            // A bucket that was empty may be missing, a populated one may not.
            (of(1, (0.1, 1.0), 2, &[9.0]), true),
            (of(1, (0.1, 0.0), 0, &[1.0]), true),
            // Coarser buckets: (0.5, 1], (1, 2].
            (of(0, (0.1, 1.0), 0, &[1.0, 3.0]), false),
            (of(0, (0.1, 1.0), 0, &[3.0, 2.0]), true),
            (of(2, (0.1, 1.0), 0, &[9.0; 9]), true),
            // A zero bucket that swallows the first bucket, and one that ends within it.
            (of(1, (1.0, 2.0), 1, &[0.0, 3.0]), false),
            (of(1, (0.9, 2.0), 1, &[0.0, 3.0]), true),
            (of(1, (0.05, 9.0), 0, &[9.0; 3]), true),
        ] {
            assert_eq!(now.is_reset_after(&before), want, "{now:?}");
        }
        let smaller = of(1, (0.1, 0.0), 0, &[]);
        assert!(!smaller.clone().with_hint(ResetHint::NotReset).is_reset_after(&before));
        assert!(before.clone().with_hint(ResetHint::Reset).is_reset_after(&smaller));
    }

    #[test]
    fn custom_bounds_are_compared_where_both_have_them() {
        let custom = |bounds: &[f64], counts: &[f64]| {
            let positive =
                Side { spans: vec![Span { offset: 0, length: counts.len() as u32 }], counts: counts.to_vec() };
            let (count, custom_bounds) = (counts.iter().sum(), bounds.to_vec());
            let parts = HistogramParts { schema: -53, count, positive, custom_bounds, ..HistogramParts::default() };
            Histogram::new(parts).unwrap()
        };
        let before = custom(&[1.0, 2.0], &[1.0, 2.0, 3.0]);
        assert!(!custom(&[2.0, 4.0], &[3.0, 1.0, 2.0]).is_reset_after(&before));
        assert!(custom(&[2.0, 4.0], &[2.0, 1.0, 9.0]).is_reset_after(&before));
        assert!(custom(&[2.0], &[9.0]).is_reset_after(&of(0, (0.0, 0.0), 0, &[])));
        assert!(of(0, (0.0, 0.0), 0, &[9.0]).is_reset_after(&before));
    }
}
