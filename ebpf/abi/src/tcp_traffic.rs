//! TCP bytes and segments by cgroup, interface and destination class.

/// Index of the bytes received: IP header, TCP header and payload of each segment on the wire.
pub const RECEIVED_BYTES: usize = 0;
/// Index of the segments received.
pub const RECEIVED_SEGMENTS: usize = 1;
/// Index of the bytes sent, counted as those received.
pub const SENT_BYTES: usize = 2;
/// Index of the segments sent.
pub const SENT_SEGMENTS: usize = 3;
/// Index of the segments received with a congestion mark (CE).
pub const RECEIVED_CE: usize = 4;
/// Index of the segments received with a zero window.
pub const RECEIVED_CLOSED: usize = 5;
/// Index of the segments sent with a zero window.
pub const SENT_CLOSED: usize = 6;
/// Words of a record.
pub const WORDS: usize = 7;

/// Counts of one [`Key`], on one CPU.
pub type Record = [u64; WORDS];

/// Cgroup id (the inode of its directory), and index of interface and destination class from [`place`](crate::place).
pub type Key = [u64; 2];

/// Limit of keys in the map. Traffic of further keys counts only by interface and destination class.
pub const ENTRIES: u32 = 1024;

/// Limit of kernel interface indexes. Interfaces with this index or a higher one have no number of their own.
pub const INDEXES: u32 = 4096;
