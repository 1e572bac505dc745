//! Where the other end of a connection is, as far as addresses tell.

/// How many classes there are.
pub const CLASSES: usize = 4;

/// An address of this host.
pub const LOCAL: u32 = 0;
/// The same rack or rail.
pub const RACK: u32 = 1;
/// Another host of the fabric.
pub const FABRIC: u32 = 2;
/// Anything else; also what no rule names.
pub const OUTSIDE: u32 = 3;

/// Label values, by class.
pub const NAMES: [&str; CLASSES] = ["local", "rack", "fabric", "outside"];
