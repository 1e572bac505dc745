//! Float sequences that are not integers: each value XOR-ed with the previous one, only its meaningful bits written.

use super::Corrupt;
use super::bits::{BitReader, BitWriter};

/// Appends `values`; the caller stores their count.
pub fn encode(values: &[f64], out: &mut Vec<u8>) {
    let Some(first) = values.first() else { return };
    let mut w = BitWriter::after(std::mem::take(out));
    let mut prev = first.to_bits();
    w.put(prev, 64);
    // The window of the last explicit header: leading zeros and meaningful bits.
    let (mut lead, mut width) = (65u32, 0u32);
    for v in &values[1..] {
        let x = v.to_bits() ^ prev;
        prev = v.to_bits();
        if x == 0 {
            w.put(0, 1);
            continue;
        }
        let (l, t) = (x.leading_zeros(), x.trailing_zeros());
        let tail = 64u32.wrapping_sub(lead).wrapping_sub(width);
        // Reusing a much too wide window costs more than a new header of 13 bits.
        if l >= lead && t >= tail && lead <= 64 && width <= 64 - l - t + 12 {
            w.put(0b01, 2);
            w.put(x >> tail, width);
            continue;
        }
        (lead, width) = (l, 64 - l - t);
        w.put(0b11, 2);
        w.put(u64::from(l), 6);
        w.put(u64::from(width - 1), 6);
        w.put(x >> t, width);
    }
    *out = w.finish();
}

/// Decodes and appends `n` values.
///
/// # Errors
/// [`Corrupt`] if the bytes do not hold `n` values.
pub fn decode_into(bytes: &[u8], n: usize, values: &mut Vec<f64>) -> Result<(), Corrupt> {
    if n == 0 {
        return Ok(());
    }
    let mut r = BitReader::new(bytes);
    let mut prev = r.get(64)?;
    values.push(f64::from_bits(prev));
    let (mut lead, mut width) = (0u32, 0u32);
    for _ in 1..n {
        if r.get(1)? == 1 {
            if r.get(1)? == 1 {
                lead = r.get(6)? as u32;
                width = r.get(6)? as u32 + 1;
                if lead + width > 64 {
                    return Err(Corrupt("float window over 64 bits"));
                }
            } else if width == 0 {
                return Err(Corrupt("float window before its header"));
            }
            prev ^= r.get(width)? << (64 - lead - width);
        }
        values.push(f64::from_bits(prev));
    }
    Ok(())
}
