//! Encoders and decoders without I/O: bit-exact, every decoder safe against arbitrary bytes.
//!
//! The head seals rows with them, blocks store the result, merges re-encode longer columns.

pub mod bits;
pub mod column;
pub mod floats;
pub mod ints;
pub mod rice;
pub mod varint;

#[cfg(test)]
mod tests;

/// Bytes that no encoder produced; the text describes the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(pub &'static str);

/// Whether bytes have this CRC-32. Always true under `cfg(fuzzing)`, so that the fuzzer reaches the decoders.
pub fn crc_matches(bytes: &[u8], crc: u32) -> bool {
    cfg!(fuzzing) || crc32fast::hash(bytes) == crc
}
