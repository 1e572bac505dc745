//! Shared interface of the eBPF probes and the agent's samplers: map sizes, record layouts, bucket bounds. Independent
//! of how probes are loaded and how metrics are exported.
//!
//! Records are arrays of `u64`, which both sides copy without conversion; constants name their indexes.
#![no_std]

pub mod destination;
pub mod histogram;
pub mod member;
pub mod microburst;
pub mod tcp_connections;
pub mod tcp_loss;
pub mod tcp_rtt;
pub mod tcp_traffic;

/// Limit of interface numbers, exclusive. Number 0 stands for all interfaces without a number of their own.
pub const INTERFACES: usize = 16;

/// IPv6 address in network byte order; an IPv4 address is mapped to IPv6 (`::ffff:a.b.c.d`), so that one map serves
/// both. An array of words, because probes copy and compare words faster than bytes.
pub type Address = [u32; 4];

/// IPv4 address, mapped to IPv6. `v4` is in network byte order.
#[inline]
pub const fn mapped(v4: u32) -> Address {
    [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), v4]
}

/// Index of an interface and a destination class in a map with one record per pair.
#[inline]
pub const fn place(interface: u32, destination: u32) -> u32 {
    interface * destination::CLASSES as u32 + destination
}

/// Interface number of an index from [`place`].
#[inline]
pub const fn interface_of(place: u32) -> u32 {
    place / destination::CLASSES as u32
}

/// Destination class of an index from [`place`].
#[inline]
pub const fn class_of(place: u32) -> u32 {
    place % destination::CLASSES as u32
}

/// Entries of the cache from connections to indexes; a power of two.
pub const REMEMBERED: u32 = 4096;
/// First value of the map `EPOCH`. The agent increments the value after each change of the tables of addresses and
/// networks, which invalidates the cache.
pub const FIRST_EPOCH: u32 = 1;
