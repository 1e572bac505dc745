//! Attempts to connect, what became of them and how long they took, for each interface and class of destinations.

use crate::histogram;

/// Why a connection that this host began was not established.
pub const REASONS: usize = 8;

/// The other end answered that nobody listens.
pub const REFUSED: usize = 0;
/// No answer.
pub const TIMEOUT: usize = 1;
/// Reset in the middle of the handshake.
pub const RESET: usize = 2;
/// A router, or this host itself, says that there is no way.
pub const UNREACHABLE: usize = 3;
/// The program gave up before the kernel did.
pub const ABANDONED: usize = 4;
/// No local port was free; nothing was sent.
pub const NO_PORT: usize = 5;
/// Another error.
pub const OTHER: usize = 6;
/// The kernel does not say where it keeps the error.
pub const UNKNOWN: usize = 7;

/// Label values, by reason.
pub const NAMES: [&str; REASONS] =
    ["refused", "timeout", "reset", "unreachable", "abandoned", "no_port", "other", "unknown"];

/// A record begins with the histogram of the time to connect; then place of the attempts.
pub const ATTEMPTS: usize = histogram::WORDS;
/// Established, begun by this host.
pub const ACTIVE: usize = ATTEMPTS + 1;
/// Established, begun by the other end.
pub const PASSIVE: usize = ATTEMPTS + 2;
/// Connections that ended because the other end sent a reset.
pub const RESETS_RECEIVED: usize = ATTEMPTS + 3;
/// Connections that this host ended by a reset.
pub const RESETS_SENT: usize = ATTEMPTS + 4;
/// Place of the failures for the first reason.
pub const FAILURES: usize = ATTEMPTS + 5;
/// Words of a record.
pub const WORDS: usize = FAILURES + REASONS;

/// One interface and class.
pub type Record = [u64; WORDS];
