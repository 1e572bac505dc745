//! TCP bytes and segments by control group, interface and class of destinations.

/// Bytes received: IP header and what follows, of each segment as it was on the wire.
pub const RECEIVED_BYTES: usize = 0;
/// Segments received.
pub const RECEIVED_SEGMENTS: usize = 1;
/// Bytes sent, counted as those received.
pub const SENT_BYTES: usize = 2;
/// Segments sent.
pub const SENT_SEGMENTS: usize = 3;
/// Segments received that were congestion-marked (CE) on the way.
pub const RECEIVED_CE: usize = 4;
/// Segments received that say that the other end takes no data now.
pub const RECEIVED_CLOSED: usize = 5;
/// Segments sent that say that this end takes no data now.
pub const SENT_CLOSED: usize = 6;
/// Words of a record.
pub const WORDS: usize = 7;

/// Counts of one key, on one CPU.
pub type Record = [u64; WORDS];

/// Control group (its id, which is the inode of its directory), and place of interface and class.
pub type Key = [u64; 2];

/// Keys that the kernel holds at a time; what finds no room counts by its place alone.
pub const ENTRIES: u32 = 1024;

/// Interfaces with a higher index have no place of their own.
pub const INDEXES: u32 = 4096;
