//! Traffic of one network interface in bins of 1 ms. Bins are grouped in blocks, so that the agent needs few reads. The
//! ring of blocks is overwritten, so each bin has a stamp of its time.

/// Number of bins in a block.
pub const BINS: usize = 16;
/// Length of a bin in ns of the monotonic clock.
pub const BIN_NS: u64 = 1_000_000;

/// Words of one direction in a bin.
pub const WORDS: usize = 4;
/// Index of the bytes, link headers included.
pub const BYTES: usize = 0;
/// Index of the packets.
pub const PACKETS: usize = 1;
/// Index of the packets marked with congestion experienced (CE).
pub const CE: usize = 2;
/// Index of the RoCEv2 packets: UDP to port 4791.
pub const ROCE: usize = 3;

/// Number of directions: received, sent.
pub const DIRECTIONS: usize = 2;
/// Index of the received direction.
pub const RECEIVED: usize = 0;
/// Index of the sent direction.
pub const SENT: usize = 1;

/// Words of a bin.
pub const BIN: usize = DIRECTIONS * WORDS;
/// Index of the first stamp in a block. The stamp of a bin is its number since the start of the clock, plus 1; 0 means
/// unused.
pub const STAMPS: usize = BINS * BIN;
/// Block of bins of one CPU.
pub type Block = [u64; STAMPS + BINS];

/// UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// Index in a block of the word `what` of a bin and direction.
#[inline(always)]
pub const fn word(bin: usize, direction: usize, what: usize) -> usize {
    bin * BIN + direction * WORDS + what
}
