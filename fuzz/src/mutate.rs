//! Deterministic mutations without coverage, for tests that run without a fuzzer.

/// Generates inputs by mutating a corpus.
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    state: u64,
    input: Vec<u8>,
}

/// Bytes with a special meaning in some format.
const ODD: &[u8] = &[0, 1, 0x7f, 0x80, 0xff, b'"', b'\n', b'=', b'[', b'{', b'9', b'-'];

impl<'a> Mutator<'a> {
    /// Creates a mutator; `corpus` must not be empty.
    pub fn new(corpus: &'a [Vec<u8>]) -> Self {
        Self { corpus, state: 0x9e37_79b9_7f4a_7c15, input: Vec::new() }
    }

    /// Returns a pseudo-random number (xorshift64*) below `bound`, 0 if `bound` is 0.
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    /// Returns the next input.
    #[expect(clippy::should_implement_trait, reason = "it lends its buffer")]
    pub fn next(&mut self) -> &[u8] {
        let seed = self.below(self.corpus.len());
        self.input.clone_from(&self.corpus[seed]);
        for _ in 0..=self.below(4) {
            let (at, to) = (self.below(self.input.len() + 1), self.below(self.input.len() + 1));
            let odd = ODD[self.below(ODD.len())];
            let range = at.min(to)..at.max(to);
            match self.below(6) {
                0 => self.input.truncate(at),
                1 => self.input.insert(at, odd),
                2 => drop(self.input.drain(range)),
                3 => {
                    let part = self.input[range].to_vec();
                    self.input.extend(part);
                }
                4 => self.input.iter_mut().skip(at).take(1).for_each(|b| *b = odd),
                _ => {
                    let bit = self.below(8);
                    self.input.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << bit);
                }
            }
        }
        &self.input
    }
}
