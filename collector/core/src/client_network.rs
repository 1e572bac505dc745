//! The key under which clients are limited: an IPv4 address, or the /64 network of an IPv6 address.

use std::net::{IpAddr, Ipv6Addr};

/// Whose an address is: who has one of IPv6 has the 2^64 of its network.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}
