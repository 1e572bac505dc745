//! Attributes of subnet management: nodes, ports, switches, forwarding tables (specification, chapter 14.2.5).

use crate::packet::Data;

/// `NodeDescription`.
pub const NODE_DESCRIPTION: u16 = 0x10;
/// `NodeInfo`.
pub const NODE_INFO: u16 = 0x11;
/// `SwitchInfo`.
pub const SWITCH_INFO: u16 = 0x12;
/// `PortInfo`; the modifier is the port.
pub const PORT_INFO: u16 = 0x15;
/// `SLtoVLMappingTable`; the modifier is input port × 256 + output port.
pub const SL_TO_VL: u16 = 0x17;
/// `LinearForwardingTable`; the modifier is the block of 64 LIDs.
pub const LINEAR_FORWARDING: u16 = 0x19;

/// `AdaptiveRoutingInfo` of NVIDIA's switches.
pub const ADAPTIVE_ROUTING: u16 = 0xff20;

/// LIDs of a forwarding table's block.
pub const BLOCK: usize = 64;
/// Entry of a forwarding table for a LID without a route.
pub const NO_ROUTE: u8 = 0xff;
/// Highest unicast LID.
const UNICAST_TOP: u16 = 0xbfff;
/// Physical state `LinkUp`.
const LINK_UP: u8 = 5;
/// Logical state `Active`.
const ACTIVE: u8 = 4;

/// Type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeType {
    /// Channel adapter (HCA).
    Adapter,
    /// Switch.
    Switch,
    /// Router to another subnet.
    Router,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Type.
    pub kind: NodeType,
    /// Number of physical ports.
    pub ports: u8,
    /// GUID of the system, for instance of a director switch with many chips; 0 if unknown.
    pub system_guid: u64,
    /// GUID of the node.
    pub guid: u64,
    /// GUID of the port that the request came in by; a switch has one for all its ports.
    pub port_guid: u64,
    /// Device id of the vendor.
    pub device: u16,
    /// The port that the request came in by.
    pub local_port: u8,
    /// Vendor (OUI).
    pub vendor: u32,
}

impl NodeInfo {
    /// Decodes the attribute; `None` for an unknown type or a node without a GUID.
    #[expect(clippy::cast_possible_truncation, reason = "the widths are those of the fields")]
    pub fn decode(data: Data<'_>) -> Option<Self> {
        let kind = match data.byte(2) {
            1 => NodeType::Adapter,
            2 => NodeType::Switch,
            3 => NodeType::Router,
            _ => return None,
        };
        let guid = data.bits(96, 64);
        (guid != 0).then(|| Self {
            kind,
            ports: data.byte(3),
            system_guid: data.bits(32, 64),
            guid,
            port_guid: data.bits(160, 64),
            device: data.bits(240, 16) as u16,
            local_port: data.byte(36),
            vendor: data.bits(296, 24) as u32,
        })
    }
}

/// Decodes `NodeDescription`: up to 64 bytes, UTF-8, padded with zeros or blanks. Control characters become blanks.
pub fn node_description(data: Data<'_>) -> String {
    let bytes = data.smp();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// State of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Base LID; of switches on port 0 only.
    pub lid: u16,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// 2^lmc LIDs from the base LID belong to the port.
    pub lmc: u8,
    /// Logical state: 1 down, 2 init, 3 armed, 4 active.
    pub state: u8,
    /// Physical state: 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery.
    pub physical_state: u8,
    /// Lanes in use; 0 if the code is unknown.
    pub lanes: u8,
    /// Rate of a lane, Mb/s as the kernel's `rate` file counts; 0 if the code is unknown.
    pub lane_mbps: u32,
    /// MTU of the neighbor, bytes; 0 if the code is unknown.
    pub mtu: u16,
    /// Number of data virtual lanes in use; 0 if the code is unknown.
    pub virtual_lanes: u8,
}

impl PortInfo {
    /// Decodes the attribute.
    #[expect(clippy::cast_possible_truncation, reason = "the widths are those of the fields")]
    pub fn decode(data: Data<'_>) -> Self {
        let lanes = match data.byte(31) {
            1 => 1,
            2 => 4,
            4 => 8,
            8 => 12,
            16 => 2,
            _ => 0,
        };
        // The field for newer speeds decides; older ports leave it zero.
        let lane_mbps = match (data.bits(449, 2), data.bits(496, 4), data.bits(280, 4)) {
            (1, _, _) => 200_000,
            (_, 8, _) => 100_000,
            (_, 4, _) => 50_000,
            (_, 2, _) => 25_000,
            (_, 1, _) => 14_000,
            (_, _, 4) => 10_000,
            (_, _, 2) => 5_000,
            (_, _, 1) => 2_500,
            _ => 0,
        };
        let mtu = match data.bits(288, 4) {
            code @ 1..=5 => 128 << code,
            _ => 0,
        };
        let virtual_lanes = match data.bits(344, 4) {
            code @ 1..=4 => 1 << (code - 1),
            5 => 15,
            _ => 0,
        };
        Self {
            lid: data.bits(128, 16) as u16,
            sm_lid: data.bits(144, 16) as u16,
            lmc: data.bits(277, 3) as u8,
            state: data.bits(260, 4) as u8,
            physical_state: data.bits(264, 4) as u8,
            lanes,
            lane_mbps,
            mtu,
            virtual_lanes,
        }
    }

    /// True if a cable connects the port to a running neighbor.
    pub fn is_linked(&self) -> bool {
        self.physical_state == LINK_UP
    }

    /// True if the port can carry data.
    pub fn is_active(&self) -> bool {
        self.state == ACTIVE
    }

    /// Rate of the link, bits per second; `None` if lanes or speed are unknown.
    pub fn rate_bits(&self) -> Option<u64> {
        Some(u64::from(self.lanes) * u64::from(self.lane_mbps) * 1_000_000).filter(|bits| *bits > 0)
    }
}

/// Forwarding capabilities of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchInfo {
    /// Highest LID in the linear forwarding table.
    pub linear_top: u16,
}

impl SwitchInfo {
    /// Decodes the attribute.
    #[expect(clippy::cast_possible_truncation, reason = "16 bits")]
    pub fn decode(data: Data<'_>) -> Self {
        Self { linear_top: data.bits(48, 16) as u16 }
    }

    /// Blocks of the linear forwarding table that have routes of unicast LIDs.
    pub fn blocks(self) -> usize {
        usize::from(self.linear_top.min(UNICAST_TOP)) / BLOCK + 1
    }
}

/// Virtual lane of each service level.
#[expect(clippy::cast_possible_truncation, reason = "4 bits")]
pub fn sl_to_vl(data: Data<'_>) -> [u8; 16] {
    std::array::from_fn(|sl| data.bits(sl * 4, 4) as u8)
}

/// Whether adaptive routing is enabled (`AdaptiveRoutingInfo`).
pub fn adaptive_routing(data: Data<'_>) -> bool {
    data.bits(31, 1) == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Get, Reply, SIZE};

    /// A reply with these bytes at these offsets of the attribute's data.
    fn reply(bytes: &[(usize, &[u8])]) -> Reply {
        let mut mad: [u8; SIZE] = Get::performance(1, 0, 0).encode(0);
        mad[3] = 0x81;
        for (at, bytes) in bytes {
            mad[64 + at..64 + at + bytes.len()].copy_from_slice(bytes);
        }
        Reply::decode(&mad).expect("a reply")
    }

    #[test]
    fn node_info_fields() {
        let guid = |last: u8| [0x00, 0x02, 0xc9, 0x03, 0x00, 0xa0, 0x00, last];
        let reply = reply(&[
            (0, &[1, 1, 2, 64]),
            (4, &guid(1)),
            (12, &guid(2)),
            (20, &guid(3)),
            (28, &[0, 8, 0xd2, 0xf0, 0, 0, 0, 1, 17, 0x00, 0x02, 0xc9]),
        ]);
        let node = NodeInfo::decode(reply.data()).expect("a node");
        assert_eq!(
            (node.kind, node.ports, node.device, node.local_port, node.vendor),
            (NodeType::Switch, 64, 0xd2f0, 17, 0x2c9)
        );
        assert_eq!([node.system_guid, node.guid, node.port_guid].map(|g| g & 0xff), [1, 2, 3]);
    }

    #[test]
    fn nodes_of_an_unknown_type_or_without_a_guid_are_refused() {
        assert_eq!(NodeInfo::decode(reply(&[(2, &[9]), (19, &[1])]).data()), None);
        assert_eq!(NodeInfo::decode(reply(&[(2, &[1])]).data()), None);
    }

    #[test]
    fn port_info_fields() {
        // LID 0x1234, SM LID 2, width 4X, QDR with the extended speed HDR, LMC 1, MTU 4096, 8 virtual lanes.
        let hdr =
            reply(&[(16, &[0x12, 0x34, 0, 2]), (31, &[2, 0x74, 0x52, 0x01, 0x47, 0x50]), (43, &[0x40]), (62, &[0x41])]);
        let port = PortInfo::decode(hdr.data());
        assert_eq!((port.lid, port.sm_lid, port.lmc, port.state, port.physical_state), (0x1234, 2, 1, 4, 5));
        assert_eq!((port.mtu, port.virtual_lanes, port.rate_bits()), (4096, 8, Some(200_000_000_000)));
        assert!(port.is_linked() && port.is_active());
        let xdr = reply(&[(31, &[2]), (56, &[0x20]), (62, &[0x88])]);
        assert_eq!(PortInfo::decode(xdr.data()).rate_bits(), Some(800_000_000_000));
        assert_eq!(PortInfo::decode(reply(&[]).data()).rate_bits(), None);
    }

    #[test]
    fn descriptions_have_no_control_characters() {
        assert_eq!(node_description(reply(&[(0, b"MF0;leaf1:MQM9700/U1\0junk")]).data()), "MF0;leaf1:MQM9700/U1");
        assert_eq!(node_description(reply(&[(0, b" a\nb\x1b ")]).data()), "a b");
        assert_eq!(node_description(reply(&[(0, &[b'x'; 64])]).data()).len(), 64);
    }

    #[test]
    fn tables_of_switches() {
        assert_eq!(SwitchInfo::decode(reply(&[(6, &[0xbf, 0xff])]).data()).linear_top, 0xbfff);
        let lanes = sl_to_vl(reply(&[(0, &[0x01, 0x23, 0x45, 0x67, 0, 0, 0, 0xf8])]).data());
        assert_eq!((lanes[..8].to_vec(), lanes[14], lanes[15]), ((0..8).collect(), 15, 8));
        assert!(adaptive_routing(reply(&[(0, &[0, 0, 0, 1])]).data()));
        assert!(!adaptive_routing(reply(&[(0, &[0x80, 0xff, 0xff, 0xfe])]).data()), "what it could do");
    }
}
