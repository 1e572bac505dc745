//! TCP retransmissions per interface and destination class.

/// Number of reasons for a retransmission, derived from the state of the connection.
pub const KINDS: usize = 6;

/// SYN or SYN-ACK.
pub const HANDSHAKE: usize = 0;
/// The retransmission timer expired; all data in flight counts as lost.
pub const TIMEOUT: usize = 1;
/// Fast recovery: the acknowledgments show a gap.
pub const FAST: usize = 2;
/// Tail loss probe: no acknowledgment for two round trips.
pub const PROBE: usize = 3;
/// Any other reason.
pub const OTHER: usize = 4;
/// The kernel's BTF does not describe the state.
pub const UNKNOWN: usize = 5;

/// Label value of each reason.
pub const NAMES: [&str; KINDS] = ["handshake", "timeout", "fast", "probe", "other", "unknown"];

/// Index of the segments of the first reason.
pub const SEGMENTS: usize = 0;
/// Index of the bytes of the first reason.
pub const BYTES: usize = KINDS;
/// Words of a record.
pub const WORDS: usize = 2 * KINDS;

/// Counts of one interface and destination class, on one CPU.
pub type Record = [u64; WORDS];
