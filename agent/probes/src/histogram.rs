//! Converts histograms of probes (powers of two of microseconds) into histograms in seconds.

use fabriclens_ebpf_abi::histogram::{self, BOUNDS, BUCKETS, SUM, bound};
use fabriclens_wire::Histogram;
use std::sync::Arc;

/// Microseconds per second.
const MICROS: f64 = 1e6;

/// Upper bounds of the exported histograms, seconds.
pub fn bounds() -> Arc<[f64]> {
    // The first octaves are finer than a microsecond: their buckets share one bound.
    let mut bounds: Vec<u64> = (0..BOUNDS).map(bound).collect();
    bounds.dedup();
    bounds.into_iter().map(|micros| micros as f64 / MICROS).collect()
}

/// Histogram at the beginning of a record; `None` without observations, which differs from an empty distribution.
/// Buckets that share a bound are merged.
pub fn histogram<const N: usize>(record: &[u64; N], bounds: &Arc<[f64]>) -> Option<Arc<Histogram>> {
    const { assert!(N >= histogram::WORDS) };
    if record[..BUCKETS].iter().all(|n| *n == 0) {
        return None;
    }
    let mut counts: Vec<u64> = Vec::with_capacity(bounds.len() + 1);
    let mut last = None;
    for (bucket, count) in record[..BOUNDS].iter().enumerate() {
        match counts.last_mut().filter(|_| last == Some(bound(bucket))) {
            Some(same) => *same = same.saturating_add(*count),
            None => counts.push(*count),
        }
        last = Some(bound(bucket));
    }
    counts.push(record[BOUNDS]);
    Some(Arc::new(Histogram { bounds: Arc::clone(bounds), counts, sum: record[SUM] as f64 / MICROS }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_short_numbers_that_rise() {
        let bounds = bounds();
        assert!(bounds.is_sorted_by(|a, b| a < b) && bounds[0] == 1e-6 && bounds.last() == Some(&16.777_216));
        assert!(bounds.iter().all(|bound| bound.to_string().len() <= 9), "{bounds:?}");
    }

    #[test]
    fn merged_buckets_saturate() {
        let bounds = bounds();
        let full = histogram(&[u64::MAX; histogram::WORDS], &bounds).unwrap();
        assert_eq!((full.counts[0], full.count()), (u64::MAX, u64::MAX));
        assert!(full.cumulative().all(|(_, n)| n == u64::MAX));
    }
}
