//! The key under which clients are limited: an IPv4 address, or the /64 network of an IPv6 address.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address that stands for a client. A client with one IPv6 address usually owns the 2^64 addresses of its
/// /64 network, so these count as one.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}
