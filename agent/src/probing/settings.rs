//! Settings of tracing and probing, as the configuration gives them.

use fabriclens_agent_probes::destinations::Network;
use fabriclens_probe_plan::address;
use std::net::IpAddr;

/// Settings of `[probes]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probing {
    /// Traces the paths of source ports.
    pub trace: bool,
    /// Sends and answers RDMA probes.
    pub rdma: bool,
    /// Sends and answers the TCP twins of probes.
    pub tcp: bool,
    /// Most datagrams that tracing sends from a port, per second.
    pub trace_packets: u32,
    /// Most probes that a port sends, per second; a TCP twin is one more.
    pub probe_packets: u32,
    /// TCP port that answers TCP twins.
    pub tcp_port: u16,
    /// Networks to which packets are sent; empty: all.
    pub networks: Vec<Network>,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            trace: true,
            rdma: true,
            tcp: true,
            trace_packets: 50,
            probe_packets: 100,
            tcp_port: 7472,
            networks: Vec::new(),
        }
    }
}

impl Probing {
    /// The address of a target, if packets may be sent to it.
    ///
    /// # Errors
    /// Why they may not: it is no address of one host, or `probes.networks` leaves it out.
    pub fn reachable(&self, bytes: &[u8]) -> Result<IpAddr, String> {
        let address = address(bytes).ok_or_else(|| format!("an address of {} bytes", bytes.len()))?.to_canonical();
        let is_host = match address {
            IpAddr::V4(v4) => !(v4.is_broadcast() || v4.is_link_local()),
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        };
        if !is_host || address.is_unspecified() || address.is_loopback() || address.is_multicast() {
            return Err(format!("{address} is not the address of a host beyond this link"));
        }
        if !self.networks.is_empty() && !self.networks.iter().any(|network| network.contains(address)) {
            return Err(format!("{address} is in none of probes.networks"));
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_to_hosts_of_the_configured_networks_only() {
        let any = Probing::default();
        assert_eq!(any.reachable(&[10, 0, 0, 1]), Ok("10.0.0.1".parse().unwrap()));
        let mapped = "::ffff:10.0.0.1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        assert_eq!(any.reachable(&mapped), Ok("10.0.0.1".parse().unwrap()), "a mapped address is IPv4");
        for bytes in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], [169, 254, 1, 1]] {
            assert!(any.reachable(&bytes).is_err(), "{bytes:?}");
        }
        assert!(any.reachable(&[1, 2, 3]).is_err());
        let some = Probing { networks: vec!["10.1.0.0/16".parse().unwrap()], ..Probing::default() };
        assert!(some.reachable(&[10, 1, 200, 3]).is_ok());
        assert_eq!(some.reachable(&[10, 2, 0, 1]), Err("10.2.0.1 is in none of probes.networks".to_owned()));
    }
}
