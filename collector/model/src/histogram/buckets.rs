//! Sorted lists of buckets of one side: their bounds, lower resolutions, sums.

use super::schema::CUSTOM_SCHEMA;
use crate::kahan;

/// Observations in one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    pub index: i32,
    pub count: f64,
}

/// Lowest and highest exponent of two of finite numbers, and the one above.
const EXPONENTS: (i64, i64) = (-1075, 1024);

/// Indexes of the buckets that can have observations. The last one is that of infinity.
pub(super) fn index_range(schema: i8) -> std::ops::RangeInclusive<i64> {
    let (low, high) = EXPONENTS;
    if schema >= 0 { (low << schema)..=(high << schema) + 1 } else { (low >> -schema) - 1..=(high >> -schema) + 1 }
}

/// Upper bound of a bucket: `2^(index/2^schema)`, and the largest number for the last bucket of finite numbers.
pub(super) fn upper_bound(index: i32, schema: i8) -> f64 {
    let (exponent, part) = if schema >= 0 {
        let (index, buckets) = (i64::from(index), 1_i64 << schema);
        (index.div_euclid(buckets), index.rem_euclid(buckets) as f64 / buckets as f64)
    } else {
        (i64::from(index) << -schema, 0.0)
    };
    if (exponent, part) == (EXPONENTS.1, 0.0) {
        return f64::MAX;
    }
    // In two steps: the power alone may be too small or too large.
    let exponent = exponent.clamp(-1200, 1200) as i32;
    let half = exponent / 2;
    part.exp2() * f64::from(half).exp2() * f64::from(exponent - half).exp2()
}

/// Index of the bucket of a lower schema that contains a bucket; schemas are `by` apart.
fn lower_index(index: i32, by: u32) -> i32 {
    ((index - 1) >> by) + 1
}

/// The buckets of a schema that is lower `by` so many.
pub(super) fn reduced(buckets: &[Bucket], by: u32) -> Vec<Bucket> {
    let mut out: Vec<Bucket> = Vec::with_capacity(buckets.len());
    for b in buckets {
        let index = lower_index(b.index, by);
        match out.last_mut() {
            Some(last) if last.index == index => last.count += b.count,
            _ => out.push(Bucket { index, count: b.count }),
        }
    }
    out
}

/// The buckets after those at the start whose upper bound is within the zero bucket.
pub(super) fn above(buckets: &[Bucket], threshold: f64, schema: i8) -> &[Bucket] {
    if schema == CUSTOM_SCHEMA || threshold == 0.0 {
        return buckets;
    }
    &buckets[buckets.partition_point(|b| upper_bound(b.index, schema) <= threshold)..]
}

/// Adds `sign` times the counts of `other`.
pub(super) fn add(into: &mut Vec<Bucket>, other: &[Bucket], sign: f64) {
    if same_layout(into, other) {
        for (a, b) in into.iter_mut().zip(other) {
            a.count += sign * b.count;
        }
        return;
    }
    *into = union(into, other, |a, b| a.unwrap_or(0.0) + sign * b.unwrap_or(0.0));
}

/// Adds the counts of `other` with compensation. `lost` has the compensation of each bucket of `into` before and afterwards.
pub(super) fn add_compensated(into: &mut Vec<Bucket>, lost: &mut Vec<Bucket>, other: &[Bucket]) {
    if !same_layout(into, other) {
        let widened = union(into, other, |a, _| a.unwrap_or(0.0));
        *into = widened;
    }
    if !same_layout(into, lost) {
        let layout: Vec<Bucket> = into.iter().map(|b| Bucket { index: b.index, count: 0.0 }).collect();
        *lost = union(&layout, lost, |_, lost| lost.unwrap_or(0.0));
    }
    let mut others = other.iter().peekable();
    for (sum, lost) in into.iter_mut().zip(lost) {
        if let Some(b) = others.next_if(|b| b.index == sum.index) {
            (sum.count, lost.count) = kahan(b.count, sum.count, lost.count);
        }
    }
}

fn same_layout(a: &[Bucket], b: &[Bucket]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.index == b.index)
}

/// The buckets of either list, each with the count that `of` makes of both.
fn union(a: &[Bucket], b: &[Bucket], of: impl Fn(Option<f64>, Option<f64>) -> f64) -> Vec<Bucket> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = |list: &[Bucket], at: usize| list.get(at).map_or(i64::MAX, |b| i64::from(b.index));
        let (left, right) = (next(a, i), next(b, j));
        let first = (left <= right).then(|| a[i]);
        let second = (right <= left).then(|| b[j]);
        i += usize::from(first.is_some());
        j += usize::from(second.is_some());
        if let Some(one) = first.or(second) {
            let count = of(first.map(|b| b.count), second.map(|b| b.count));
            out.push(Bucket { index: one.index, count });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(i32, f64)]) -> Vec<Bucket> {
        counts.iter().map(|(index, count)| Bucket { index: *index, count: *count }).collect()
    }

    #[test]
    fn bounds_are_powers_of_two_and_parts_of_them() {
        assert_eq!([0, 1, -1, 10].map(|i| upper_bound(i, 0)), [1.0, 2.0, 0.5, 1024.0]);
        assert_eq!([1, 2, 3, 4].map(|i| upper_bound(i, 1) * upper_bound(i, 1)).map(f64::round), [2.0, 4.0, 8.0, 16.0]);
        assert_eq!([1, -1].map(|i| upper_bound(i, -2)), [16.0, 0.0625]);
        assert_eq!([1024, 1025, -1074].map(|i| upper_bound(i, 0)), [f64::MAX, f64::INFINITY, 5e-324]);
        assert_eq!((upper_bound(64, -4), upper_bound(65, -4)), (f64::MAX, f64::INFINITY));
        assert!((upper_bound(1, 8) - 1.002_711_275_050_202_5).abs() < 1e-15);
    }

    #[test]
    fn lower_resolutions_merge_neighbors() {
        let fine = of(&[(-3, 1.0), (-2, 2.0), (0, 4.0), (1, 8.0), (2, 16.0), (3, 32.0)]);
        assert_eq!(reduced(&fine, 1), of(&[(-1, 3.0), (0, 4.0), (1, 24.0), (2, 32.0)]));
        assert_eq!(reduced(&fine, 4), of(&[(0, 7.0), (1, 56.0)]));
    }

    #[test]
    fn sums_have_the_buckets_of_both() {
        let mut a = of(&[(1, 1.0), (3, 3.0)]);
        add(&mut a, &of(&[(0, 5.0), (3, 1.0), (9, 2.0)]), -1.0);
        assert_eq!(a, of(&[(0, -5.0), (1, 1.0), (3, 2.0), (9, -2.0)]));
        let (mut sum, mut lost) = (of(&[(1, 1e100)]), of(&[]));
        for other in [of(&[(0, 1.0), (1, 1.0)]), of(&[(1, -1e100)])] {
            add_compensated(&mut sum, &mut lost, &other);
        }
        assert_eq!((sum, lost), (of(&[(0, 1.0), (1, 0.0)]), of(&[(0, 0.0), (1, 1.0)])));
    }
}
