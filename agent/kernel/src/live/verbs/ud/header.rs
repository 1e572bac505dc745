//! What the NIC puts before a datagram (the 40 bytes of a global route header), and flow labels.

use crate::datagrams::Peer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes before the payload of a received datagram.
pub const HEADER: usize = 40;
/// Largest flow label that names one source port.
const LABELS: u16 = 0x3fff;

/// Sender and traffic class by the header. With IPv4 the IP header is in its second half, and the first half is undefined.
/// `None` without a header of the port's family.
pub fn sender(header: &[u8; HEADER], is_v4: bool, queue_pair: u32) -> Option<(Peer, u8)> {
    let (address, traffic_class) = if is_v4 {
        if header[20] >> 4 != 4 {
            return None;
        }
        let [a, b, c, d] = [header[32], header[33], header[34], header[35]];
        (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), header[21])
    } else {
        if header[0] >> 4 != 6 {
            return None;
        }
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[8..24]);
        (IpAddr::V6(Ipv6Addr::from(octets)), header[0] << 4 | header[1] >> 4)
    };
    Some((Peer { address: Some(address), lid: 0, queue_pair }, traffic_class))
}

/// A GID as it stands in a route.
pub fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Flow label by which mlx5 and hns use this UDP source port; 0 (any) for ports that none gives.
pub fn flow_label(source_port: u16) -> u32 {
    if source_port < 0xc000 { 0 } else { u32::from(source_port & LABELS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_stands_in_the_ip_header() {
        let mut header = [0xee; HEADER];
        header[20] = 0x45;
        header[21] = 106;
        header[32..36].copy_from_slice(&[10, 77, 0, 2]);
        let from = |header: &[u8; HEADER], is_v4| sender(header, is_v4, 17);
        let peer = Peer { address: Some("10.77.0.2".parse().unwrap()), lid: 0, queue_pair: 17 };
        assert_eq!(from(&header, true), Some((peer, 106)));
        assert_eq!(from(&header, false), None, "no IPv6 header");
        header[20] = 0x60;
        assert_eq!(from(&header, true), None);
        header[..2].copy_from_slice(&[0x66, 0xa0]);
        header[8..24].copy_from_slice(&"fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        let peer = Peer { address: Some("fd00::2".parse().unwrap()), ..peer };
        assert_eq!(from(&header, false), Some((peer, 0x6a)));
    }

    #[test]
    fn labels_name_source_ports() {
        // The rule of `ibv_flow_label_to_udp_sport`.
        let port = |label: u32| 0xc000 | u16::try_from((label & 0x3fff) ^ (label >> 14)).unwrap();
        for source_port in [0xc001, 0xc123, 0xffff] {
            assert_eq!(port(flow_label(source_port)), source_port);
        }
        assert_eq!((flow_label(0xc000), flow_label(4791)), (0, 0), "any");
    }
}
