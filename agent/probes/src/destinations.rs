//! Classifies addresses into rack, fabric and outside, by configuration, or by defaults from private networks and the
//! host's own links.

use fabriclens_ebpf_abi::destination::{FABRIC, LOCAL, RACK};
use fabriclens_kernel::InterfaceAddress;
use std::net::IpAddr;
use std::str::FromStr;

/// Private networks; addresses in them that are not on an own link default to the fabric.
const PRIVATE: [&str; 6] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10"];

/// A network such as `10.1.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Any address of it.
    pub address: IpAddr,
    /// Prefix length, bits.
    pub prefix: u8,
}

impl Network {
    /// Whether the address is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let ((own, own_v4), (other, other_v4)) = (bits(self.address), bits(address));
        let mask = !u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
        own_v4 == other_v4 && own & mask == other & mask
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network such as 10.1.0.0/16 or fd00:1::/32");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|p| *p <= most).ok_or_else(wrong)?;
        Ok(Self { address, prefix })
    }
}

/// Configured networks; an empty list selects the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Networks of the own rack or rail. Default: networks of the own interfaces.
    pub rack: Vec<Network>,
    /// Networks of the fabric. Default: private addresses.
    pub fabric: Vec<Network>,
}

/// All networks with their class, for a host with these addresses. The longest prefix wins; at equal length the nearer
/// class.
pub fn classes(destinations: &Destinations, own: &[InterfaceAddress]) -> Vec<(Network, u32)> {
    let fabric: Vec<Network> = match destinations.fabric.as_slice() {
        [] => PRIVATE.iter().filter_map(|text| text.parse().ok()).collect(),
        configured => configured.to_vec(),
    };
    let network = |a: &InterfaceAddress| Network { address: a.address, prefix: a.prefix };
    let rack: Vec<Network> = match destinations.rack.as_slice() {
        [] => own.iter().filter(|a| !a.address.is_loopback()).map(network).collect(),
        configured => configured.to_vec(),
    };
    let host =
        |a: &InterfaceAddress| Network { address: a.address, prefix: if a.address.is_ipv4() { 32 } else { 128 } };
    // 127.0.0.0/8 is this host, as are all own addresses.
    let local = own.iter().flat_map(|a| [host(a), if a.address.is_loopback() { network(a) } else { host(a) }]);
    let mut all: Vec<(Network, u32)> = fabric.into_iter().map(|n| (n, FABRIC)).collect();
    all.extend(rack.into_iter().map(|n| (n, RACK)));
    all.extend(local.map(|n| (n, LOCAL)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_ebpf_abi::destination::OUTSIDE;

    /// Longest-prefix match like the kernel's table: later entries replace equal ones.
    fn class(all: &[(Network, u32)], address: &str) -> u32 {
        let address: IpAddr = address.parse().unwrap();
        let bits = |a: IpAddr| match a {
            IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
            IpAddr::V6(a) => a.to_bits(),
        };
        let holds = |n: &Network| {
            let mask = u128::MAX.checked_shl(128 - u32::from(n.prefix)).unwrap_or(0);
            n.address.is_ipv4() == address.is_ipv4() && bits(n.address) & mask == bits(address) & mask
        };
        let best = all.iter().filter(|(n, _)| holds(n)).max_by_key(|(n, _)| n.prefix);
        best.map_or(OUTSIDE, |(_, class)| *class)
    }

    fn own() -> Vec<InterfaceAddress> {
        let address = |interface, text: &str| {
            let n: Network = text.parse().unwrap();
            InterfaceAddress { interface, address: n.address, prefix: n.prefix }
        };
        vec![address(1, "127.0.0.1/8"), address(1, "::1/128"), address(2, "10.1.2.3/24"), address(3, "fd00::3/64")]
    }

    #[test]
    fn defaults_are_own_links_and_private_networks() {
        let all = classes(&Destinations::default(), &own());
        for (address, want) in [
            ("127.0.0.9", LOCAL),
            ("::1", LOCAL),
            ("10.1.2.3", LOCAL),
            ("10.1.2.4", RACK),
            ("fd00::4", RACK),
            ("10.1.3.4", FABRIC),
            ("fd01::4", FABRIC),
            ("8.8.8.8", OUTSIDE),
            ("2001:db8::1", OUTSIDE),
        ] {
            assert_eq!(class(&all, address), want, "{address}");
        }
    }

    #[test]
    fn configured_networks_replace_the_defaults() {
        let configured =
            Destinations { rack: vec!["10.1.0.0/16".parse().unwrap()], fabric: vec!["198.18.0.0/15".parse().unwrap()] };
        let all = classes(&configured, &own());
        for (address, want) in [
            ("10.1.3.4", RACK),
            ("198.19.0.1", FABRIC),
            ("10.2.0.1", OUTSIDE),
            ("fd00::4", OUTSIDE),
            ("10.1.2.3", LOCAL),
        ] {
            assert_eq!(class(&all, address), want, "{address}");
        }
    }

    #[test]
    fn invalid_network_is_named_in_the_error() {
        for text in ["10.0.0.0", "10.0.0.0/33", "host/8", "fd00::/129", ""] {
            assert!(text.parse::<Network>().unwrap_err().contains("not a network such as"), "{text}");
        }
    }
}
