//! Destination classes: where the remote end of a connection is, judged by its address.

/// Number of classes.
pub const CLASSES: usize = 4;

/// This host.
pub const LOCAL: u32 = 0;
/// The same rack or rail.
pub const RACK: u32 = 1;
/// Another host of the fabric.
pub const FABRIC: u32 = 2;
/// Outside the fabric, and any address that no rule matches.
pub const OUTSIDE: u32 = 3;

/// Label values, by class.
pub const NAMES: [&str; CLASSES] = ["local", "rack", "fabric", "outside"];
