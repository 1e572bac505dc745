//! Trusted reverse proxy (`auth.proxy`): its networks, its headers, and the roles of its user groups.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderName;

use crate::Roles;

/// A reverse proxy that authenticates people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Networks the proxy connects from.
    pub networks: Vec<Network>,
    /// Header with the user name.
    pub user_header: HeaderName,
    /// Header with the groups of the user, separated by commas.
    pub groups_header: Option<HeaderName>,
    /// Roles by group; `*` applies to every user.
    pub roles: BTreeMap<String, Roles>,
}

/// A network in CIDR notation (`10.0.0.0/8`, `fd00::/8`), or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    bits: u128,
    mask: u128,
}

/// Address as 128 bits, IPv4 mapped into IPv6, so that both compare alike.
fn bits(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Network {
    /// Whether the network contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.bits
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a network; write for instance 10.0.0.5 or 10.0.0.0/24");
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let own = if address.is_ipv4() { 32 } else { 128 };
        let length: u32 = length.map_or(Ok(own), str::parse).map_err(|_| bad())?;
        if length > own {
            return Err(bad());
        }
        let mask = u128::MAX.checked_shl(own - length).unwrap_or(0);
        // The prefix of mapped IPv4 addresses counts, too.
        let mask = if own == 32 { mask | !u128::from(u32::MAX) } else { mask };
        if bits(address) & !mask != 0 {
            return Err(format!("{text:?} has bits set beyond its prefix length; write the address of the network"));
        }
        Ok(Self { bits: bits(address), mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let holds = |network: &str, ip: &str| network.parse::<Network>().unwrap().contains(ip.parse().unwrap());
        for (network, ip) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.0.0.5", "10.0.0.5"),
            ("10.0.0.5", "::ffff:10.0.0.5"),
            ("0.0.0.0/0", "1.2.3.4"),
            ("fd00::/8", "fd12::1"),
            ("::1", "::1"),
            ("::/0", "10.0.0.1"),
        ] {
            assert!(holds(network, ip), "{network} {ip}");
        }
        for (network, ip) in
            [("10.0.0.0/8", "11.0.0.1"), ("10.0.0.5", "10.0.0.4"), ("0.0.0.0/0", "fd00::1"), ("::1", "127.0.0.1")]
        {
            assert!(!holds(network, ip), "{network} {ip}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0.1/8", "ten", "10.0.0.0/", "fd00::/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
