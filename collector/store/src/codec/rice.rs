//! Rice codes with an escape: near the entropy for geometrically distributed numbers.

use super::Corrupt;
use super::bits::{BitReader, BitWriter};

/// Quotients from here on are written as the escape code and 64 raw bits.
const ESCAPE: u64 = 24;

/// Bits that all values take with parameter `k`.
pub fn cost(values: impl Iterator<Item = u64>, k: u32) -> u64 {
    values.map(|u| one_cost(u, k)).sum()
}

fn one_cost(u: u64, k: u32) -> u64 {
    let q = u >> k;
    if q < ESCAPE { q + 1 + u64::from(k) } else { ESCAPE + 1 + 64 }
}

/// The cheapest parameter and its cost in bits.
pub fn choose(values: impl Iterator<Item = u64> + Clone) -> (u32, u64) {
    let (n, sum) = values.clone().fold((0u64, 0u128), |(n, s), u| (n + 1, s + u128::from(u)));
    let mean = (sum / u128::from(n.max(1))) as u64;
    let guess = 64 - mean.leading_zeros();
    (guess.saturating_sub(2)..=guess.min(63))
        .map(|k| (k, cost(values.clone(), k)))
        .min_by_key(|(_, c)| *c)
        .unwrap_or((0, u64::MAX))
}

/// Writes one value.
pub fn put(w: &mut BitWriter, u: u64, k: u32) {
    let q = u >> k;
    if q < ESCAPE {
        w.unary(q as u32);
        w.put(u & ((1u64 << k) - 1), k);
    } else {
        w.unary(ESCAPE as u32);
        w.put(u, 64);
    }
}

/// Reads one value.
#[inline]
pub fn get(r: &mut BitReader<'_>, k: u32) -> Result<u64, Corrupt> {
    let (q, low) = r.unary(ESCAPE as u32, k)?;
    if u64::from(q) == ESCAPE {
        return r.get(64);
    }
    Ok(u64::from(q) << k | low)
}
