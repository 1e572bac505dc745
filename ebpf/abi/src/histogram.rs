//! Log-linear histogram of durations from 1 µs to 16.8 s with four buckets per octave: the upper bound of a bucket is
//! at most 25 % above its lower bound, except below 8 µs.

/// Buckets per octave.
const STEPS: usize = 4;
/// Octaves above the first bucket, which ends at 1 µs.
const OCTAVES: usize = 24;

/// Number of buckets with an upper bound.
pub const BOUNDS: usize = 1 + OCTAVES * STEPS;
/// Number of buckets, including the last, which has no upper bound.
pub const BUCKETS: usize = BOUNDS + 1;
/// Index of the sum of all values in a record, in microseconds.
pub const SUM: usize = BUCKETS;
/// Words of a record: the buckets, then the sum.
pub const WORDS: usize = BUCKETS + 1;

/// Histogram of one interface and destination class.
pub type Record = [u64; WORDS];

/// Inclusive upper bound of a bucket in microseconds. `bucket` must be less than [`BOUNDS`].
pub const fn bound(bucket: usize) -> u64 {
    if bucket == 0 {
        return 1;
    }
    let (octave, step) = ((bucket - 1) / STEPS, (bucket - 1) % STEPS);
    // The first octaves are finer than a microsecond: several buckets have the same bound, and all but one stay empty.
    ((1 << octave) * (STEPS + step + 1)).div_ceil(STEPS) as u64
}

/// Index of the bucket of a value: the first whose upper bound is at least `micros`.
#[inline]
pub const fn bucket(micros: u32) -> usize {
    if micros <= 1 {
        return 0;
    }
    // Minus one, because upper bounds are inclusive.
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
