//! Log-linear buckets of durations: four to an octave, from 1 µs to 16.8 s, so a bucket is at most a quarter wider than
//! its lower bound.

/// Linear steps to an octave.
const STEPS: usize = 4;
/// Octaves above the first bucket.
const OCTAVES: usize = 24;

/// Buckets with an upper bound; one more holds what is above all of them.
pub const BOUNDS: usize = 1 + OCTAVES * STEPS;
/// Buckets with the last, unbounded one.
pub const BUCKETS: usize = BOUNDS + 1;
/// Place of the sum in a record; its unit is that of the values.
pub const SUM: usize = BUCKETS;
/// Words of a record: buckets, then the sum.
pub const WORDS: usize = BUCKETS + 1;

/// One histogram.
pub type Record = [u64; WORDS];

/// Upper bound of a bucket in microseconds (inclusive); `bucket < BOUNDS`.
pub const fn bound(bucket: usize) -> u64 {
    if bucket == 0 {
        return 1;
    }
    let (octave, step) = ((bucket - 1) / STEPS, (bucket - 1) % STEPS);
    // The first octaves are finer than a microsecond: several of their buckets have one bound, and stay empty.
    ((1 << octave) * (STEPS + step + 1)).div_ceil(STEPS) as u64
}

/// The bucket whose bound is the first that is not below the value.
#[inline]
pub const fn bucket(micros: u32) -> usize {
    if micros <= 1 {
        return 0;
    }
    // One below, so that a value on a bound falls into the bucket that ends there.
    let below = micros - 1;
    let octave = 31 - below.leading_zeros() as usize;
    if octave >= OCTAVES {
        return BOUNDS;
    }
    let step = (((below as u64) * STEPS as u64) >> octave) as usize - STEPS;
    1 + octave * STEPS + step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_between_the_bounds_of_its_bucket() {
        let mut tried = 0;
        let mut micros = 0u32;
        while micros < 1 << 25 {
            let b = bucket(micros);
            assert!(b == BOUNDS || u64::from(micros) <= bound(b), "{micros} above bucket {b}");
            assert!(b == 0 || u64::from(micros) > bound(b - 1), "{micros} not above bucket {}", b - 1);
            micros += 1 + micros / 97;
            tried += 1;
        }
        assert!(tried > 1000);
        assert_eq!(bucket(u32::MAX), BOUNDS);
        assert_eq!(bound(BOUNDS - 1), 1 << 24);
    }

    #[test]
    fn buckets_are_at_most_a_quarter_wide() {
        for b in 13..BOUNDS {
            assert!(bound(b) as f64 <= bound(b - 1) as f64 * 1.26, "bucket {b}");
            assert!(bound(b) > bound(b - 1), "bucket {b}");
        }
    }
}
