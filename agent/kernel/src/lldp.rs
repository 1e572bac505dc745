//! Parses LLDP frames (IEEE 802.1AB). Frames are untrusted input: parsing never panics.

use std::fmt::Write as _;
use std::net::IpAddr;

/// Limit of a name in bytes, as in the standard.
const MAX_NAME: usize = 255;

const CHASSIS: u8 = 1;
const PORT: u8 = 2;
const TTL: u8 = 3;
const PORT_DESCRIPTION: u8 = 4;
const SYSTEM_NAME: u8 = 5;
const CAPABILITIES: u8 = 7;
const MANAGEMENT: u8 = 8;

/// Subtype of a port id that contains a MAC address.
const PORT_MAC: u8 = 3;
/// Subtype of a port id that is assigned locally.
const PORT_LOCAL: u8 = 7;
/// Subtype of a chassis id that contains a MAC address.
const CHASSIS_MAC: u8 = 4;

/// Capability bits of bridges and routers.
const FORWARDS: u16 = 1 << 2 | 1 << 4;

/// Device at the other end of a cable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LldpNeighbor {
    /// System name, or the chassis id if none is announced.
    pub switch: String,
    /// Interface name, or the port id if none is announced.
    pub port: String,
    /// First management address that is announced and can be that of one device.
    pub address: Option<IpAddr>,
}

/// Content of an LLDP frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lldpdu {
    /// Sender.
    pub neighbor: LldpNeighbor,
    /// Time to live in seconds; 0 if the sender shuts down.
    pub ttl: u16,
    /// The sender announces that it forwards frames or packets: a switch, not a host.
    pub forwards: bool,
}

/// Parses a frame after its Ethernet header. `None` if it is not a valid LLDP frame.
pub fn parse(mut frame: &[u8]) -> Option<Lldpdu> {
    let (mut chassis, mut port, mut ttl) = (None, None, None);
    let (mut name, mut description, mut forwards, mut address) = (String::new(), String::new(), false, None);
    while let [first, second, rest @ ..] = frame {
        let (kind, length) = (first >> 1, usize::from(first & 1) << 8 | usize::from(*second));
        // A truncated frame may still contain enough.
        let Some((value, after)) = rest.split_at_checked(length) else { break };
        frame = after;
        match (kind, value) {
            (0, _) => break,
            (CHASSIS, [subtype, id @ ..]) => chassis = Some(id_text(id, *subtype == CHASSIS_MAC)),
            (PORT, [subtype, id @ ..]) => port = Some((*subtype, id_text(id, *subtype == PORT_MAC))),
            (TTL, [high, low, ..]) => ttl = Some(u16::from_be_bytes([*high, *low])),
            (PORT_DESCRIPTION, text) => description = id_text(text, false),
            (SYSTEM_NAME, text) => name = id_text(text, false),
            (CAPABILITIES, [_, _, high, low, ..]) => forwards = u16::from_be_bytes([*high, *low]) & FORWARDS != 0,
            (MANAGEMENT, value) => address = address.or_else(|| management(value)),
            _ => {}
        }
    }
    let (chassis, (subtype, id), ttl) = (chassis?, port?, ttl?);
    let switch = if name.is_empty() { chassis } else { name };
    if switch.is_empty() {
        return None;
    }
    let port = port_name(id, subtype == PORT_MAC, subtype == PORT_LOCAL, description);
    Some(Lldpdu { neighbor: LldpNeighbor { switch, port, address }, ttl, forwards })
}

/// The IP address of a management address TLV: length of subtype and address, subtype (1 IPv4, 2 IPv6), address.
fn management(value: &[u8]) -> Option<IpAddr> {
    let (length, rest) = value.split_first()?;
    let (subtype, address) = rest.get(..usize::from(*length))?.split_first()?;
    let address = match subtype {
        1 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        2 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    Some(address).filter(is_of_one_device)
}

/// Whether an address can name one device of the whole network.
pub(crate) fn is_of_one_device(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast() || v4.is_link_local())
        }
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.is_unicast_link_local()),
    }
}

/// Name of a port. Some senders announce a number or an address as port id and the name as description.
pub(crate) fn port_name(id: String, address: bool, local: bool, description: String) -> String {
    let nameless = address || local && id.bytes().all(|b| b.is_ascii_digit());
    if nameless && !description.is_empty() { description } else { id }
}

/// Formats the bytes as a MAC address, or as text without control characters.
fn id_text(bytes: &[u8], address: bool) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_NAME)];
    if address {
        return bytes.iter().enumerate().fold(String::new(), |mut out, (n, byte)| {
            let colon = if n > 0 { ":" } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(out, "{colon}{byte:02x}");
            out
        });
    }
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap();
        [&[kind << 1, length], value].concat()
    }

    fn text(kind: u8, subtype: u8, text: &str) -> Vec<u8> {
        tlv(kind, &[&[subtype], text.as_bytes()].concat())
    }

    fn advert(tlvs: &[Vec<u8>]) -> Option<(String, String, u16, bool)> {
        let Lldpdu { neighbor: LldpNeighbor { switch, port, .. }, ttl, forwards } = parse(&tlvs.concat())?;
        Some((switch, port, ttl, forwards))
    }

    #[test]
    fn switches_name_themselves_and_their_ports_in_several_ways() {
        let mac = tlv(CHASSIS, &[CHASSIS_MAC, 0x44, 0x38, 0x39, 0, 0, 1]);
        let (ttl, end) = (tlv(TTL, &[0, 120]), vec![0, 0]);
        let ifname = text(PORT, 5, "swp3");
        let name = tlv(SYSTEM_NAME, b"leaf1.example.com\0");
        let bridge = tlv(CAPABILITIES, &[0, 0x14, 0, 0x14]);
        let full = [mac.clone(), ifname.clone(), ttl.clone(), name.clone(), bridge, end.clone(), vec![0xff; 9]];
        assert_eq!(advert(&full), Some(("leaf1.example.com".into(), "swp3".into(), 120, true)));
        let least = [mac.clone(), ifname.clone(), tlv(TTL, &[0, 0]), end];
        assert_eq!(advert(&least), Some(("44:38:39:00:00:01".into(), "swp3".into(), 0, false)));
        // A description takes precedence over a number or an address.
        let described = tlv(PORT_DESCRIPTION, b"et-0/0/3");
        for (id, port) in [
            (text(PORT, PORT_LOCAL, "512"), "et-0/0/3"),
            (tlv(PORT, &[PORT_MAC, 1, 2, 3, 4, 5, 6]), "et-0/0/3"),
            (text(PORT, PORT_LOCAL, "Eth3(Port3)"), "Eth3(Port3)"),
            (ifname.clone(), "swp3"),
        ] {
            let advert_content = advert(&[mac.clone(), id, ttl.clone(), described.clone(), name.clone()]);
            assert_eq!(advert_content.unwrap().1, port);
        }
        let bare = advert(&[mac.clone(), tlv(PORT, &[PORT_MAC, 1, 2, 3, 4, 5, 6]), ttl.clone()]);
        assert_eq!(bare.unwrap().1, "01:02:03:04:05:06");
    }

    #[test]
    fn the_first_address_of_one_device_is_the_management_address() {
        let (mac, port) = (tlv(CHASSIS, &[CHASSIS_MAC, 0x44, 0x38, 0x39, 0, 0, 1]), text(PORT, 5, "swp3"));
        let least = [mac, port, tlv(TTL, &[0, 120])].concat();
        let address = |tlvs: &[&[u8]]| {
            let more: Vec<u8> = tlvs.iter().flat_map(|value| tlv(MANAGEMENT, value)).collect();
            parse(&[least.clone(), more].concat()).unwrap().neighbor.address.map(|ip| ip.to_string())
        };
        let interface = [2, 0, 0, 0, 5, 0];
        let v4 = [&[5, 1, 10, 0, 0, 7], &interface[..]].concat();
        let v6 = [&[17, 2, 0xfd], &[0; 14][..], &[9], &interface].concat();
        let link_local = [&[17, 2, 0xfe, 0x80], &[0; 13][..], &[9], &interface].concat();
        assert_eq!(address(&[&v4, &v6]).as_deref(), Some("10.0.0.7"));
        assert_eq!(address(&[&link_local, &v6]).as_deref(), Some("fd00::9"));
        let mac = [7, 6, 0x44, 0x38, 0x39, 0, 0, 1];
        for none in [&[][..], &[5, 1, 10, 0], &[5, 1, 127, 0, 0, 1], &[4, 1, 10, 0, 0], &[0], &mac] {
            assert_eq!(address(&[none]), None, "{none:?}");
        }
    }

    #[test]
    fn incomplete_frames_are_rejected_and_control_characters_removed() {
        let (chassis, port, ttl) = (text(CHASSIS, 7, "sw\x1b[31m"), text(PORT, 5, "p1"), tlv(TTL, &[0, 9]));
        assert_eq!(advert(&[chassis.clone(), port.clone(), ttl.clone()]).unwrap().0, "sw[31m");
        for lacks in [[&chassis, &port], [&chassis, &ttl], [&port, &ttl]] {
            assert_eq!(advert(&lacks.map(Clone::clone)), None);
        }
        assert_eq!(advert(&[text(CHASSIS, 7, ""), port.clone(), ttl.clone()]), None);
        assert_eq!(
            advert(&[chassis, port, ttl, vec![SYSTEM_NAME << 1 | 1, 0xff, b'x']]).unwrap().0,
            "sw[31m",
            "cut off"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(frame in proptest::collection::vec(any::<u8>(), 0..1600)) {
            if let Some(advert) = parse(&frame) {
                prop_assert!(!advert.neighbor.switch.is_empty());
            }
        }
    }
}
