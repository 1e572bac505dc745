//! Random numbers of the examples: from a fixed seed, so that every run makes the same series.

/// xorshift64.
pub struct Random(pub u64);

impl Random {
    /// A number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}
