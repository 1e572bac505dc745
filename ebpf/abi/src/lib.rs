//! What the probes in the kernel and the samplers of the agent agree on: sizes of maps, layouts of records, bounds of
//! buckets. No code here knows how a probe is loaded or how a value is told.
//!
//! Records are arrays of `u64`, which both sides can copy as they are; the constants name their places.
#![no_std]

pub mod destination;
pub mod histogram;
pub mod member;
pub mod microburst;
pub mod tcp_connections;
pub mod tcp_loss;
pub mod tcp_rtt;
pub mod tcp_traffic;

/// Network interfaces with a place of their own; traffic of the others counts under place 0.
pub const INTERFACES: usize = 16;

/// Addresses are IPv6 to the maps, IPv4 ones mapped (`::ffff:a.b.c.d`), so that one table serves both. In memory they
/// are as on the wire; as words, a probe copies and compares them without looking at single bytes.
pub type Address = [u32; 4];

/// An IPv4 address as the maps know it; `v4` as it is in memory.
#[inline]
pub const fn mapped(v4: u32) -> Address {
    [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), v4]
}

/// Place of an interface and a class of destinations in a map that has one record for each pair.
#[inline]
pub const fn place(interface: u32, destination: u32) -> u32 {
    interface * destination::CLASSES as u32 + destination
}

/// The interface of a place.
#[inline]
pub const fn interface_of(place: u32) -> u32 {
    place / destination::CLASSES as u32
}

/// The class of a place.
#[inline]
pub const fn class_of(place: u32) -> u32 {
    place % destination::CLASSES as u32
}

/// Connections whose place is remembered; a power of two.
pub const REMEMBERED: u32 = 4096;
/// The first number in `EPOCH`, which the agent raises after each change of the tables that places follow from.
pub const FIRST_EPOCH: u32 = 1;
