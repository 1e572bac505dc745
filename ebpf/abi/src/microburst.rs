//! What crosses one network interface in each millisecond. Bins are kept in blocks, so that the agent needs few reads;
//! a bin tells by its stamp which time it is of, because its place is used again.

/// Bins of a block.
pub const BINS: usize = 16;
/// Length of a bin in nanoseconds of the monotonic clock.
pub const BIN_NS: u64 = 1_000_000;

/// Words of a bin for each direction.
pub const WORDS: usize = 4;
/// Bytes, link header included.
pub const BYTES: usize = 0;
/// Packets.
pub const PACKETS: usize = 1;
/// Packets that were congestion-marked (CE).
pub const CE: usize = 2;
/// RoCEv2 packets: UDP to port 4791.
pub const ROCE: usize = 3;

/// Directions: received, sent.
pub const DIRECTIONS: usize = 2;
/// Number of the direction received.
pub const RECEIVED: usize = 0;
/// Number of the direction sent.
pub const SENT: usize = 1;

/// Words of a bin.
pub const BIN: usize = DIRECTIONS * WORDS;
/// Place of the stamps in a block, one for each bin: its number since the start of the clock, plus one.
pub const STAMPS: usize = BINS * BIN;
/// One block, on one CPU.
pub type Block = [u64; STAMPS + BINS];

/// UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// Place of a word in a block.
#[inline(always)]
pub const fn word(bin: usize, direction: usize, what: usize) -> usize {
    bin * BIN + direction * WORDS + what
}
