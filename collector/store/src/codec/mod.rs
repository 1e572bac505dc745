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
