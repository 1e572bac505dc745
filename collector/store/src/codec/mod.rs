//! Pure encoders and decoders: no I/O, bit-exact, every decoder checked against hostile bytes.
//!
//! The head seals rows with them, blocks store what they wrote, merges run them again on longer columns.

pub mod bits;
pub mod column;
pub mod floats;
pub mod ints;
pub mod rice;
pub mod varint;

#[cfg(test)]
mod tests;

/// Bytes that no encoder of ours wrote; says what did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(pub &'static str);

/// Whether bytes have this CRC-32. To a fuzzer all have: it is to find what lies behind, which a bad disk seldom does.
pub fn checks(bytes: &[u8], crc: u32) -> bool {
    cfg!(fuzzing) || crc32fast::hash(bytes) == crc
}
