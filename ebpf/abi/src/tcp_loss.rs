//! Segments of TCP that were sent again, for each interface and class of destinations.

/// Why a segment was sent again, as far as the state of its connection tells.
pub const KINDS: usize = 6;

/// Opening a connection: SYN, or the answer to one.
pub const HANDSHAKE: usize = 0;
/// After the retransmission timer fired: what was in flight counts as lost.
pub const TIMEOUT: usize = 1;
/// In fast recovery: the other end's acknowledgements show a gap.
pub const FAST: usize = 2;
/// A tail loss probe: no acknowledgement for two round trips, and nothing new to send.
pub const PROBE: usize = 3;
/// None of the above.
pub const OTHER: usize = 4;
/// The kernel does not say where it keeps that state.
pub const UNKNOWN: usize = 5;

/// Label values, by kind.
pub const NAMES: [&str; KINDS] = ["handshake", "timeout", "fast", "probe", "other", "unknown"];

/// Place of the segments of the first kind.
pub const SEGMENTS: usize = 0;
/// Place of the bytes of the first kind.
pub const BYTES: usize = KINDS;
/// Words of a record.
pub const WORDS: usize = 2 * KINDS;

/// One interface and class.
pub type Record = [u64; WORDS];
