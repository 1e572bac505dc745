//! Brings two histograms to the buckets that both can have: the lower schema, the larger zero bucket, the custom bounds
//! that both list.

use super::buckets::{Bucket, above, reduced, upper_bound};
use super::{Histogram, IncompatibleHistograms, Reconciled, ResetHint, same_bounds};
use std::borrow::Cow;
use std::sync::Arc;

/// The counts of the other histogram in the buckets that both share.
pub(super) struct Aligned<'o> {
    pub zero_count: f64,
    pub positive: Cow<'o, [Bucket]>,
    pub negative: Cow<'o, [Bucket]>,
    pub reconciled: Reconciled,
}

impl Histogram {
    /// Changes this histogram, and `lost` in the same way, to buckets that `other` can have too. The hint becomes that of
    /// their sum.
    pub(super) fn align<'o>(
        &mut self,
        mut lost: Option<&mut Self>,
        other: &'o Self,
    ) -> Result<Aligned<'o>, IncompatibleHistograms> {
        if self.is_custom() != other.is_custom() {
            return Err(IncompatibleHistograms);
        }
        let mut reconciled = Reconciled { hints_collide: self.take_hint(other.hint), bounds_differ: false };
        let (mut positive, mut negative) = (Cow::Borrowed(&*other.positive), Cow::Borrowed(&*other.negative));
        if self.is_custom() {
            if !same_bounds(&self.bounds, &other.bounds) {
                reconciled.bounds_differ = true;
                let common: Arc<[f64]> = intersection(&self.bounds, &other.bounds).into();
                positive = Cow::Owned(mapped(positive.iter(), &other.bounds, &common));
                for h in [Some(self), lost].into_iter().flatten() {
                    h.positive = mapped(h.positive.iter(), &h.bounds, &common);
                    h.bounds = common.clone();
                }
            }
            return Ok(Aligned { zero_count: 0.0, positive, negative, reconciled });
        }
        let zero_count = self.widen_zero_bucket(lost.as_deref_mut(), other);
        if other.schema < self.schema {
            for h in [Some(&mut *self), lost].into_iter().flatten() {
                h.reduce(other.schema);
            }
        }
        let by = (other.schema - self.schema).unsigned_abs().into();
        for side in [&mut positive, &mut negative] {
            if by > 0 {
                *side = Cow::Owned(reduced(side, by));
            }
            let kept = above(side, self.zero_threshold, self.schema).len();
            match side {
                Cow::Borrowed(buckets) => *buckets = &buckets[buckets.len() - kept..],
                Cow::Owned(buckets) => drop(buckets.drain(..buckets.len() - kept)),
            }
        }
        Ok(Aligned { zero_count, positive, negative, reconciled })
    }

    /// Lowers the resolution to an exponential schema that is not higher.
    pub(super) fn reduce(&mut self, schema: i8) {
        let by = (self.schema - schema).unsigned_abs().into();
        for side in [&mut self.positive, &mut self.negative] {
            *side = reduced(side, by);
        }
        self.schema = schema;
    }

    /// Takes the hint of a sum with a histogram of another hint; whether one is a reset and the other is none.
    fn take_hint(&mut self, other: ResetHint) -> bool {
        use ResetHint::{Gauge, NotReset, Reset, Unknown};
        let (hint, collide) = match (self.hint, other) {
            (a, b) if a == b => (a, false),
            (Gauge, _) | (_, Gauge) => (Gauge, false),
            (Unknown, _) | (_, Unknown) => (Unknown, false),
            (Reset | NotReset, _) => (Unknown, true),
        };
        self.hint = hint;
        collide
    }

    /// Enlarges the zero bucket until it contains that of `other`, and ends at no populated bucket of either. Returns the
    /// count that the zero bucket of `other` then has.
    #[expect(clippy::float_cmp, reason = "thresholds are equal once both are enlarged to the same bound")]
    fn widen_zero_bucket(&mut self, mut lost: Option<&mut Self>, other: &Self) -> f64 {
        let (mut count, mut threshold) = (other.zero_count, other.zero_threshold);
        while threshold != self.zero_threshold {
            if self.zero_threshold > threshold {
                (count, threshold) = other.zero_bucket_for(self.zero_threshold);
            }
            if threshold > self.zero_threshold {
                (self.zero_count, self.zero_threshold) = self.zero_bucket_for(threshold);
                for side in [&mut self.positive, &mut self.negative] {
                    let within = within(side, self.zero_threshold, self.schema);
                    side.drain(..within);
                    side.retain(|b| b.count != 0.0);
                }
                if let Some(lost) = &mut lost {
                    lost.zero_threshold = self.zero_threshold;
                    for side in [&mut lost.positive, &mut lost.negative] {
                        let within = within(side, self.zero_threshold, self.schema);
                        lost.zero_count += side.drain(..within).map(|b| b.count).sum::<f64>();
                    }
                }
            }
        }
        count
    }

    /// Count and threshold of a zero bucket with a larger threshold, which is raised to the end of a populated bucket.
    pub(super) fn zero_bucket_for(&self, mut threshold: f64) -> (f64, f64) {
        if threshold <= self.zero_threshold {
            return (self.zero_count, self.zero_threshold);
        }
        loop {
            let (above, end) = self.swallowed(&self.positive, threshold);
            threshold = end.unwrap_or(threshold);
            let (below, end) = self.swallowed(&self.negative, threshold);
            match end {
                // More of the positive buckets are within now.
                Some(end) => threshold = end,
                None => return (self.zero_count + above + below, threshold),
            }
        }
    }

    /// Counts of the buckets that begin within the zero bucket, and the end of the last of them if it is populated and ends
    /// outside.
    fn swallowed(&self, side: &[Bucket], threshold: f64) -> (f64, Option<f64>) {
        let inside = &side[..within(side, threshold, self.schema)];
        let end = inside.last().filter(|b| b.count != 0.0).map(|b| upper_bound(b.index, self.schema));
        (inside.iter().map(|b| b.count).sum(), end.filter(|end| *end > threshold))
    }
}

/// Number of buckets whose lower bound is within the zero bucket.
fn within(side: &[Bucket], threshold: f64, schema: i8) -> usize {
    side.partition_point(|b| upper_bound(b.index - 1, schema) < threshold)
}

/// Bounds that both lists have.
fn intersection(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut others = b.iter().peekable();
    let mut common = |bound: &f64| {
        while others.next_if(|b| *b < bound).is_some() {}
        others.next_if(|b| *b == bound).is_some()
    };
    a.iter().copied().filter(|bound| common(bound)).collect()
}

/// Buckets between fewer custom bounds.
fn mapped<'b>(buckets: impl Iterator<Item = &'b Bucket>, bounds: &[f64], common: &[f64]) -> Vec<Bucket> {
    let mut out: Vec<Bucket> = vec![];
    for b in buckets {
        let upper = usize::try_from(b.index).ok().and_then(|i| bounds.get(i));
        let at = upper.map_or(common.len(), |upper| common.partition_point(|c| c < upper));
        let index = i32::try_from(at).unwrap_or(i32::MAX);
        match out.last_mut() {
            Some(last) if last.index == index => last.count += b.count,
            _ => out.push(Bucket { index, count: b.count }),
        }
    }
    out
}
