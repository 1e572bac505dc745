//! Bit streams, low bits first, for the packed integer and float codecs.

use super::Corrupt;

/// Writes fields of up to 64 bits.
#[derive(Default)]
pub struct BitWriter {
    out: Vec<u8>,
    hold: u64,
    held: u32,
}

impl BitWriter {
    /// Continues after the bytes already in `out`.
    pub fn after(out: Vec<u8>) -> Self {
        Self { out, hold: 0, held: 0 }
    }

    /// Appends the low `n` bits of `v` (n ≤ 64); higher bits of `v` must be zero.
    pub fn put(&mut self, v: u64, n: u32) {
        debug_assert!(n == 64 || v >> n == 0);
        if n == 0 {
            return;
        }
        self.hold |= v << self.held;
        let total = self.held + n;
        if total < 64 {
            self.held = total;
            return;
        }
        self.out.extend_from_slice(&self.hold.to_le_bytes());
        let used = 64 - self.held;
        self.hold = if used == 64 { 0 } else { v >> used };
        self.held = total - 64;
    }

    /// `n` ones and a zero.
    pub fn unary(&mut self, n: u32) {
        debug_assert!(n < 63);
        self.put((1u64 << n) - 1, n + 1);
    }

    /// The bytes, last one padded with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        let bytes = self.held.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.hold.to_le_bytes()[..bytes]);
        self.out
    }
}

/// Reads what [`BitWriter`] wrote; reading past the end is an error, not zeros.
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    hold: u64,
    held: u32,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, hold: 0, held: 0 }
    }

    fn refill(&mut self) {
        if let Some(Ok(word)) = self.bytes.get(self.at..self.at + 8).map(TryInto::try_into) {
            self.hold |= u64::from_le_bytes(word) << self.held;
            let taken = (63 - self.held) / 8;
            self.at += taken as usize;
            self.held += taken * 8;
            return;
        }
        while self.held <= 56 && self.at < self.bytes.len() {
            self.hold |= u64::from(self.bytes[self.at]) << self.held;
            self.at += 1;
            self.held += 8;
        }
    }

    /// The next `n` bits (n ≤ 64).
    #[inline]
    pub fn get(&mut self, n: u32) -> Result<u64, Corrupt> {
        if n > 56 {
            let low = self.get(32)?;
            return Ok(low | self.get(n - 32)? << 32);
        }
        if self.held < n {
            self.refill();
            if self.held < n {
                return Err(Corrupt("bit stream ends early"));
            }
        }
        let v = self.hold & ((1u64 << n) - 1);
        self.hold >>= n;
        self.held -= n;
        // Bits over `held` may be set by the wide refill; they are the true next bits and are OR-ed in again unchanged.
        Ok(v)
    }

    /// Counts ones up to a zero, at most `max`.
    #[inline]
    pub fn unary(&mut self, max: u32) -> Result<u32, Corrupt> {
        if self.held < 48 {
            self.refill();
        }
        let ones = self.hold.trailing_ones();
        if ones > max || ones >= self.held {
            return Err(Corrupt("unary run too long"));
        }
        self.hold >>= ones + 1;
        self.held -= ones + 1;
        Ok(ones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(fields in prop::collection::vec((any::<u64>(), 0u32..=64, 0u32..40), 0..200)) {
            let mut w = BitWriter::default();
            for (v, n, u) in &fields {
                w.put(if *n == 64 { *v } else { v & ((1 << n) - 1) }, *n);
                w.unary(*u);
            }
            let bytes = w.finish();
            let mut r = BitReader::new(&bytes);
            for (v, n, u) in &fields {
                prop_assert_eq!(r.get(*n).unwrap(), if *n == 64 { *v } else { v & ((1 << n) - 1) });
                prop_assert_eq!(r.unary(40).unwrap(), *u);
            }
            prop_assert!(r.get(9).is_err());
        }
    }
}
