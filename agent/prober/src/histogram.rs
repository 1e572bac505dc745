//! Distributions of times.

use fabriclens_wire::Histogram;
use std::sync::Arc;

/// Upper bounds of the buckets, nanoseconds: about three per decade from 2 us to 1 s.
const BOUNDS_NS: [u64; 18] = [
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// The bounds in seconds.
pub fn bounds() -> Arc<[f64]> {
    BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).collect()
}

/// A distribution since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    counts: [u64; BOUNDS_NS.len() + 1],
    sum_ns: u128,
}

impl Times {
    /// Adds a time.
    pub fn add(&mut self, nanoseconds: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < nanoseconds);
        self.counts[bucket] += 1;
        self.sum_ns += u128::from(nanoseconds);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// As it is sent, in seconds.
    pub fn value(&self, bounds: &Arc<[f64]>) -> Histogram {
        Histogram { bounds: Arc::clone(bounds), counts: self.counts.to_vec(), sum: self.sum_ns as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_bucket_of_their_upper_bound() {
        let mut times = Times::default();
        for ns in [0, 2_000, 2_001, 3_000_000_000] {
            times.add(ns);
        }
        let value = times.value(&bounds());
        assert_eq!((value.counts[0], value.counts[1], value.counts.last()), (2, 1, Some(&1)));
        assert_eq!((times.count(), value.counts.len()), (4, value.bounds.len() + 1));
        assert!((value.sum - 3.000_004_001).abs() < 1e-12);
    }
}
