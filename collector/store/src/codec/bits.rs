//! Bit streams, low bits first, for the packed integer and float codecs.

use super::Corrupt;

/// Writes bit fields of up to 64 bits.
#[derive(Default)]
pub struct BitWriter {
    out: Vec<u8>,
    hold: u64,
    held: u32,
}

impl BitWriter {
    /// Appends to the bytes already in `out`.
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

    /// Appends `n` ones and a zero.
    pub fn unary(&mut self, n: u32) {
        debug_assert!(n < 63);
        self.put((1u64 << n) - 1, n + 1);
    }

    /// The bytes; the last one is padded with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        let bytes = self.held.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.hold.to_le_bytes()[..bytes]);
        self.out
    }
}

/// Reads the output of [`BitWriter`]; reading past the end is an error.
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits consumed.
    at: usize,
}

/// Bits that [`BitReader::peek`] returns at least, if that many are left.
const PEEK: u32 = 57;

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next bits, the first one lowest; zeros after the end.
    #[inline]
    fn peek(&self) -> u64 {
        let byte = self.at / 8;
        match self.bytes.get(byte..byte + 8).map(TryInto::try_into) {
            Some(Ok(word)) => u64::from_le_bytes(word) >> (self.at % 8),
            _ => self.peek_last(),
        }
    }

    /// [`Self::peek`] when less than a word is left.
    #[cold]
    fn peek_last(&self) -> u64 {
        let mut word = [0; 8];
        let rest = &self.bytes[(self.at / 8).min(self.bytes.len())..];
        word[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(word) >> (self.at % 8)
    }

    #[inline]
    fn take(&mut self, n: u32) -> Result<(), Corrupt> {
        let at = self.at + n as usize;
        if at > self.bytes.len() * 8 {
            return Err(Corrupt("bit stream ends early"));
        }
        self.at = at;
        Ok(())
    }

    /// The next `n` bits (n ≤ 64).
    #[inline]
    pub fn get(&mut self, n: u32) -> Result<u64, Corrupt> {
        if n >= PEEK {
            let low = self.get(32)?;
            return Ok(low | self.get(n - 32)? << 32);
        }
        let word = self.peek();
        self.take(n)?;
        Ok(word & ((1u64 << n) - 1))
    }

    /// Reads `count` fields of `width` bits (width ≤ 64), maps each through `value` and appends the results.
    pub fn fields(
        &mut self,
        width: u32,
        count: usize,
        out: &mut Vec<i64>,
        value: impl Fn(u64) -> i64,
    ) -> Result<(), Corrupt> {
        if width == 0 || width >= PEEK {
            for _ in 0..count {
                out.push(value(self.get(width)?));
            }
            return Ok(());
        }
        let bits = width as usize;
        // Each field is loaded by its own word, so that loads do not depend on each other.
        let words = (self.bytes.len() * 8).saturating_sub(self.at + 64 + 7) / bits;
        let quick = count.min(words);
        let (mut at, mask, before) = (self.at, (1u64 << width) - 1, out.len());
        out.resize(before + quick, 0);
        for slot in &mut out[before..] {
            let word = self.bytes[at / 8..at / 8 + 8].try_into().map_or(0, u64::from_le_bytes);
            *slot = value(word >> (at % 8) & mask);
            at += bits;
        }
        self.at = at;
        for _ in quick..count {
            out.push(value(self.get(width)?));
        }
        Ok(())
    }

    /// Counts ones up to a zero, at most `max` (max < 57). If there were fewer, reads the `tail` bits that follow the
    /// zero.
    #[inline]
    pub fn unary(&mut self, max: u32, tail: u32) -> Result<(u32, u64), Corrupt> {
        let word = self.peek();
        let ones = word.trailing_ones();
        if ones > max {
            return Err(Corrupt("unary run too long"));
        }
        let tail = if ones < max { tail } else { 0 };
        let all = ones + 1 + tail;
        if all < PEEK {
            self.take(all)?;
            return Ok((ones, word >> (ones + 1) & ((1u64 << tail) - 1)));
        }
        self.take(ones + 1)?;
        Ok((ones, self.get(tail)?))
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
                prop_assert_eq!(r.unary(40, 0).unwrap(), (*u, 0));
            }
            prop_assert!(r.get(9).is_err());
        }

        #[test]
        fn fields_equal_single_reads(
            before in 0u32..9, width in 0u32..=64, values in prop::collection::vec(any::<u64>(), 0..300),
            ones in 0u32..=24, tail in 0u32..=63
        ) {
            let cut = |v: u64, n: u32| if n == 64 { v } else { v & ((1 << n) - 1) };
            let mut w = BitWriter::default();
            w.put(0, before);
            values.iter().for_each(|v| w.put(cut(*v, width), width));
            w.unary(ones);
            w.put(cut(u64::MAX, tail), tail);
            let bytes = w.finish();
            let mut r = BitReader::new(&bytes);
            r.get(before).unwrap();
            let mut got = Vec::new();
            r.fields(width, values.len(), &mut got, |v| v as i64).unwrap();
            prop_assert_eq!(got, values.iter().map(|v| cut(*v, width) as i64).collect::<Vec<_>>());
            prop_assert_eq!(r.unary(24, tail).unwrap(), (ones, if ones < 24 { cut(u64::MAX, tail) } else { 0 }));
            prop_assert!(r.fields(width.max(1), 600, &mut Vec::new(), |v| v as i64).is_err());
        }
    }
}
