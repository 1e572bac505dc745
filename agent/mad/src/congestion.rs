//! Attributes of performance management that congestion control adds (specification, annex A10): marks received, and time
//! that senders were held back.
//!
//! No capability bit says which of them a node has. The agent asks each node once, at one port, for each attribute, and reads
//! those that the node answers.

use crate::pma::{Attribute, Field, Offered, field};

/// Always offered, whatever the service level.
const fn always(_level: u8) -> Offered {
    Offered::Always
}

/// Fields of equal width, one for each number, from bit 32 on.
macro_rules! numbered {
    ($prefix:literal, $width:literal, $offered:path, [$($number:literal)*]) => {
        &[$(field(concat!($prefix, $number), 32 + $number * $width, $width, $offered($number))),*]
    };
}

/// `SwPortVLCongestion`, of switches only: packets that a virtual lane discarded while it was congested.
static LANE_DISCARDS: &[Field] =
    numbered!("SwPortVLCongestion/SWPortVLCongestion", 16, Offered::Lane, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
/// `PortSLRcvFECN`.
static LEVEL_FECN: &[Field] =
    numbered!("PortSLRcvFECN/PortSLRcvFECN", 32, always, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
/// `PortSLRcvBECN`.
static LEVEL_BECN: &[Field] =
    numbered!("PortSLRcvBECN/PortSLRcvBECN", 32, always, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
/// `PortVLXmitTimeCong`.
static LANE_TIME: &[Field] =
    numbered!("PortVLXmitTimeCong/PortVLXmitTimeCong", 32, Offered::Lane, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14]);

/// All of them, by attribute id.
pub static ATTRIBUTES: [Attribute; 6] = [
    Attribute { id: 0x30, fields: LANE_DISCARDS },
    Attribute {
        id: 0x31,
        fields: &[
            field("PortRcvConCtrl/PortPktRcvFECN", 32, 32, Offered::Always),
            field("PortRcvConCtrl/PortPktRcvBECN", 64, 32, Offered::Always),
        ],
    },
    Attribute { id: 0x32, fields: LEVEL_FECN },
    Attribute { id: 0x33, fields: LEVEL_BECN },
    Attribute { id: 0x34, fields: &[field("PortXmitConCtrl/PortXmitTimeCong", 32, 32, Offered::Always)] },
    Attribute { id: 0x35, fields: LANE_TIME },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let all: Vec<&Field> = ATTRIBUTES.iter().flat_map(|attribute| attribute.fields).collect();
        assert_eq!(all.len(), 16 + 2 + 16 + 16 + 1 + 15);
        let place = |name: &str| {
            let field = all.iter().find(|field| field.name == name).expect("a field");
            (field.from, field.width)
        };
        assert_eq!(place("SwPortVLCongestion/SWPortVLCongestion15"), (272, 16));
        assert_eq!(place("PortRcvConCtrl/PortPktRcvBECN"), (64, 32));
        assert_eq!(place("PortSLRcvFECN/PortSLRcvFECN15"), (512, 32));
        assert_eq!(place("PortSLRcvBECN/PortSLRcvBECN1"), (64, 32));
        assert_eq!(place("PortVLXmitTimeCong/PortVLXmitTimeCong14"), (480, 32));
    }
}
