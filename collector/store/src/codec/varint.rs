//! Variable-length integers and zigzag encoding, used by every structure on disk.

use super::Corrupt;

/// Appends `v`, seven bits per byte, low bits first.
pub fn put(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v as u8) | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends a signed number; small magnitudes are short.
pub fn put_signed(out: &mut Vec<u8>, v: i64) {
    put(out, zigzag(v));
}

/// Interleaves signs: 0, -1, 1, -2, … → 0, 1, 2, 3, …
pub fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

/// Inverse of [`zigzag`].
pub fn unzigzag(v: u64) -> i64 {
    ((v >> 1) as i64) ^ -((v & 1) as i64)
}

/// Bytes that [`put`] writes for `v`.
pub fn size(v: u64) -> usize {
    (64 - (v | 1).leading_zeros() as usize).div_ceil(7)
}

/// A position in a byte slice; every read is bounds-checked.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Corrupt> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(Corrupt("ends early"))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.take(1)?[0])
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        self.take(N)?.try_into().map_err(|_| Corrupt("ends early"))
    }

    /// A varint.
    pub fn varint(&mut self) -> Result<u64, Corrupt> {
        let mut v = 0u64;
        for shift in (0..70).step_by(7) {
            let b = self.byte()?;
            if shift == 63 && b > 1 {
                break;
            }
            v |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(v);
            }
        }
        Err(Corrupt("varint over 64 bits"))
    }

    /// A varint that must fit `usize` and be at most `max`.
    pub fn count(&mut self, max: usize) -> Result<usize, Corrupt> {
        usize::try_from(self.varint()?).ok().filter(|n| *n <= max).ok_or(Corrupt("count out of range"))
    }

    /// A zigzag varint.
    pub fn signed(&mut self) -> Result<i64, Corrupt> {
        Ok(unzigzag(self.varint()?))
    }

    /// Length-prefixed bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let n = self.count(self.rest.len())?;
        self.take(n)
    }

    /// Length-prefixed UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Corrupt> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Corrupt("text is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(a in any::<u64>(), shift in 0u32..64, b in any::<i64>()) {
            let a = a >> shift;
            let mut out = Vec::new();
            put(&mut out, a);
            prop_assert_eq!(out.len(), size(a));
            put_signed(&mut out, b);
            let mut c = Cursor::new(&out);
            prop_assert_eq!(c.varint().unwrap(), a);
            prop_assert_eq!(c.signed().unwrap(), b);
            prop_assert!(c.byte().is_err());
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut c = Cursor::new(&bytes);
            while c.varint().is_ok() {}
            let _ = Cursor::new(&bytes).text();
        }
    }
}
