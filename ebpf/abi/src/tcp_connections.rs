//! Attempts to connect, their outcome and duration, per interface and destination class.

use crate::histogram;

/// Number of reasons why an attempt of this host to connect fails.
pub const REASONS: usize = 8;

/// The remote host has no listener on the port.
pub const REFUSED: usize = 0;
/// The remote host does not answer.
pub const TIMEOUT: usize = 1;
/// The connection is reset during the handshake.
pub const RESET: usize = 2;
/// A router or this host has no route.
pub const UNREACHABLE: usize = 3;
/// The program closes the socket before the kernel gives up.
pub const ABANDONED: usize = 4;
/// No local port is free; nothing is sent.
pub const NO_PORT: usize = 5;
/// Any other error.
pub const OTHER: usize = 6;
/// The kernel's BTF does not describe the error member.
pub const UNKNOWN: usize = 7;

/// Label value of each reason.
pub const NAMES: [&str; REASONS] =
    ["refused", "timeout", "reset", "unreachable", "abandoned", "no_port", "other", "unknown"];

/// Index of the attempts. A record begins with the histogram of the time to connect.
pub const ATTEMPTS: usize = histogram::WORDS;
/// Index of the connections that this host opened.
pub const ACTIVE: usize = ATTEMPTS + 1;
/// Index of the connections that this host accepted.
pub const PASSIVE: usize = ATTEMPTS + 2;
/// Index of the connections that a reset from the remote end ended.
pub const RESETS_RECEIVED: usize = ATTEMPTS + 3;
/// Index of the connections that this host ended by a reset.
pub const RESETS_SENT: usize = ATTEMPTS + 4;
/// Index of the failures of the first reason.
pub const FAILURES: usize = ATTEMPTS + 5;
/// Words of a record.
pub const WORDS: usize = FAILURES + REASONS;

/// Counts of one interface and destination class, on one CPU.
pub type Record = [u64; WORDS];
