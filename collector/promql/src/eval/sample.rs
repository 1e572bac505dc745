//! `limitk` and `limit_ratio`: samples of whole series, per step and group. A series is in a sampled ratio or not by the
//! hash of its labels, so that every query agrees and a negative ratio is the complement of the positive.

use super::aggregate::groups;
use super::topk::check_k;
use super::{Column, Context, Grid};
use crate::error::{Evaluated, QueryError};
use crate::number;
use crate::plan::Aggregate;
use fabriclens_model::Labels;

impl Context<'_> {
    /// The first `k` series with a value, in the order of their labels.
    pub(super) fn limit(
        &mut self,
        a: &Aggregate,
        mut columns: Vec<Column>,
        k: &[f64],
        grid: Grid,
    ) -> Evaluated<Vec<Column>> {
        check_k(k)?;
        for group in groups(&columns, &a.grouping) {
            self.check()?;
            let mut taken = vec![0_usize; grid.steps];
            for m in group.members {
                for ((i, taken), k) in taken.iter_mut().enumerate().zip(k) {
                    if !columns[m].present(i) {
                        continue;
                    }
                    if (*taken as f64) < k.trunc() {
                        *taken += 1;
                    } else {
                        columns[m].put(i, None);
                    }
                }
            }
        }
        columns.retain(Column::any);
        Ok(columns)
    }

    /// Series whose hash is in a share of all hashes: the lowest for a positive ratio, the highest for a negative one.
    pub(super) fn limit_ratio(
        &mut self,
        a: &Aggregate,
        mut columns: Vec<Column>,
        ratio: &[f64],
    ) -> Evaluated<Vec<Column>> {
        if ratio.iter().any(|r| r.is_nan()) {
            return Err(QueryError::Execution("Ratio value is NaN".to_owned()));
        }
        let (low, high) = ratio.iter().fold((0.0_f64, 0.0_f64), |(low, high), r| (low.min(*r), high.max(*r)));
        for (bad, cap) in [(high, 1.0), (low, -1.0)] {
            if bad.abs() > 1.0 {
                let message = format!(
                    "ratio value should be between -1 and 1, got {}, capping to {}",
                    number::general(bad),
                    number::general(cap)
                );
                self.warn(&message, a.param.as_ref().map_or(a.expr.offset, |p| p.offset));
            }
        }
        for c in &mut columns {
            self.check()?;
            let place = place(&c.labels);
            for (i, r) in ratio.iter().enumerate() {
                let r = r.clamp(-1.0, 1.0);
                let chosen = if r >= 0.0 { place < r } else { place >= 1.0 + r };
                if !chosen {
                    c.put(i, None);
                }
            }
        }
        columns.retain(Column::any);
        Ok(columns)
    }
}

/// The hash of labels as a share of the largest hash.
fn place(labels: &Labels) -> f64 {
    let mut bytes = Vec::new();
    for (name, value) in labels.iter() {
        for text in [name, value] {
            // One byte of length, or 255 and three bytes.
            match u8::try_from(text.len()) {
                Ok(short) if short < 255 => bytes.push(short),
                _ => bytes.extend([&[255], &text.len().to_le_bytes()[..3]].concat()),
            }
            bytes.extend(text.as_bytes());
        }
    }
    xxh64(&bytes) as f64 / u64::MAX as f64
}

const PRIMES: [u64; 5] =
    [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];

fn round(lane: u64, input: u64) -> u64 {
    lane.wrapping_add(input.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
}

/// The hash that Prometheus uses for labels: XXH64 with seed 0.
fn xxh64(bytes: &[u8]) -> u64 {
    let word = |b: &[u8]| b.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let (blocks, mut rest) = bytes.split_at(bytes.len() / 32 * 32);
    let mut hash = PRIMES[4];
    if !blocks.is_empty() {
        let mut lanes = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, 0_u64.wrapping_sub(PRIMES[0])];
        for block in blocks.chunks_exact(32) {
            for (lane, input) in lanes.iter_mut().zip(block.chunks_exact(8)) {
                *lane = round(*lane, word(input));
            }
        }
        hash = [1, 7, 12, 18].iter().zip(lanes).fold(0, |all: u64, (by, lane)| all.wrapping_add(lane.rotate_left(*by)));
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        }
    }
    hash = hash.wrapping_add(bytes.len() as u64);
    while rest.len() >= 8 {
        hash = (hash ^ round(0, word(&rest[..8]))).rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        hash ^= word(&rest[..4]).wrapping_mul(PRIMES[0]);
        hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
        rest = &rest[4..];
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(PRIMES[4])).rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(xxh64(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(xxh64(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }

    #[test]
    fn hashes_are_spread_evenly() {
        let places: Vec<f64> = (0..1000).map(|i| place(&Labels::new([("host", format!("h{i}"))]))).collect();
        let below = |limit: f64| places.iter().filter(|p| **p < limit).count();
        assert!((450..550).contains(&below(0.5)) && (60..140).contains(&below(0.1)), "{} {}", below(0.5), below(0.1));
    }
}
