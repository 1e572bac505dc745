//! Attributes of performance management: the counters of a port (specification, chapter 16.1.3, and its annexes).
//!
//! Names are those of the catalog's rows, `Attribute/Field`. Bits are numbered from the highest bit of the data's first
//! byte, as in the specification. Narrow counters stay at their maximum; no counter is ever reset from here.

use crate::packet::Data;

/// `ClassPortInfo`: what an agent can answer.
pub const CLASS_PORT_INFO: u16 = 0x01;
/// `PortSamplesControl`: its field `Tick` is the unit of the wait counters.
pub const PORT_SAMPLES_CONTROL: u16 = 0x10;

/// A counter within an attribute.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// `Attribute/Field`.
    pub name: &'static str,
    /// First bit.
    pub from: usize,
    /// Bits.
    pub width: usize,
    /// What the agent must offer, besides answering the attribute.
    pub offered: Offered,
}

/// Condition under which a field is a measurement and not a reserved zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Always.
    Always,
    /// `PortXmitWait` of `PortCounters`: CapabilityMask bit 12.
    Wait,
    /// `QP1Dropped`: CapabilityMask bit 15, and in `PortCountersExtended` also its second part.
    Qp1,
    /// Unicast and multicast counts: CapabilityMask bit 10 is not set.
    Cast,
    /// Error counters and wait of `PortCountersExtended`: CapabilityMask2 bit 1.
    Additional,
    /// Counts of this virtual lane, if the port uses it.
    Lane(u8),
}

/// An attribute with counters.
#[derive(Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Attribute id.
    pub id: u16,
    /// Its counters.
    pub fields: &'static [Field],
}

/// `PortCounters`: all counters, narrow.
pub static PORT_COUNTERS: Attribute = Attribute {
    id: 0x12,
    fields: &[
        field("PortCounters/SymbolErrorCounter", 32, 16, Offered::Always),
        field("PortCounters/LinkErrorRecoveryCounter", 48, 8, Offered::Always),
        field("PortCounters/LinkDownedCounter", 56, 8, Offered::Always),
        field("PortCounters/PortRcvErrors", 64, 16, Offered::Always),
        field("PortCounters/PortRcvRemotePhysicalErrors", 80, 16, Offered::Always),
        field("PortCounters/PortRcvSwitchRelayErrors", 96, 16, Offered::Always),
        field("PortCounters/PortXmitDiscards", 112, 16, Offered::Always),
        field("PortCounters/PortXmitConstraintErrors", 128, 8, Offered::Always),
        field("PortCounters/PortRcvConstraintErrors", 136, 8, Offered::Always),
        field("PortCounters/LocalLinkIntegrityErrors", 152, 4, Offered::Always),
        field("PortCounters/ExcessiveBufferOverrunErrors", 156, 4, Offered::Always),
        field("PortCounters/QP1Dropped", 160, 16, Offered::Qp1),
        field("PortCounters/VL15Dropped", 176, 16, Offered::Always),
        field("PortCounters/PortXmitData", 192, 32, Offered::Always),
        field("PortCounters/PortRcvData", 224, 32, Offered::Always),
        field("PortCounters/PortXmitPkts", 256, 32, Offered::Always),
        field("PortCounters/PortRcvPkts", 288, 32, Offered::Always),
        field("PortCounters/PortXmitWait", 320, 32, Offered::Wait),
    ],
};
/// `PortCountersExtended`: 64-bit counters of traffic, and where offered of errors and waiting.
pub static EXTENDED: Attribute = Attribute {
    id: 0x1d,
    fields: &[
        field("PortCountersExtended/PortXmitData", 64, 64, Offered::Always),
        field("PortCountersExtended/PortRcvData", 128, 64, Offered::Always),
        field("PortCountersExtended/PortXmitPkts", 192, 64, Offered::Always),
        field("PortCountersExtended/PortRcvPkts", 256, 64, Offered::Always),
        field("PortCountersExtended/PortUnicastXmitPkts", 320, 64, Offered::Cast),
        field("PortCountersExtended/PortUnicastRcvPkts", 384, 64, Offered::Cast),
        field("PortCountersExtended/PortMulticastXmitPkts", 448, 64, Offered::Cast),
        field("PortCountersExtended/PortMulticastRcvPkts", 512, 64, Offered::Cast),
        field("PortCountersExtended/SymbolErrorCounter", 576, 64, Offered::Additional),
        field("PortCountersExtended/LinkErrorRecoveryCounter", 640, 64, Offered::Additional),
        field("PortCountersExtended/LinkDownedCounter", 704, 64, Offered::Additional),
        field("PortCountersExtended/PortRcvErrors", 768, 64, Offered::Additional),
        field("PortCountersExtended/PortRcvRemotePhysicalErrors", 832, 64, Offered::Additional),
        field("PortCountersExtended/PortRcvSwitchRelayErrors", 896, 64, Offered::Additional),
        field("PortCountersExtended/PortXmitDiscards", 960, 64, Offered::Additional),
        field("PortCountersExtended/PortXmitConstraintErrors", 1024, 64, Offered::Additional),
        field("PortCountersExtended/PortRcvConstraintErrors", 1088, 64, Offered::Additional),
        field("PortCountersExtended/LocalLinkIntegrityErrors", 1152, 64, Offered::Additional),
        field("PortCountersExtended/ExcessiveBufferOverrunErrors", 1216, 64, Offered::Additional),
        field("PortCountersExtended/VL15Dropped", 1280, 64, Offered::Additional),
        field("PortCountersExtended/PortXmitWait", 1344, 64, Offered::Additional),
        field("PortCountersExtended/QP1Dropped", 1408, 64, Offered::Qp1),
    ],
};
/// `PortRcvErrorDetails`.
pub static RECEIVE_ERRORS: Attribute = Attribute {
    id: 0x15,
    fields: &[
        field("PortRcvErrorDetails/PortLocalPhysicalErrors", 32, 16, Offered::Always),
        field("PortRcvErrorDetails/PortMalformedPktErrors", 48, 16, Offered::Always),
        field("PortRcvErrorDetails/PortBufferOverrunErrors", 64, 16, Offered::Always),
        field("PortRcvErrorDetails/PortDLIDMappingErrors", 80, 16, Offered::Always),
        field("PortRcvErrorDetails/PortVLMappingErrors", 96, 16, Offered::Always),
        field("PortRcvErrorDetails/PortLoopingErrors", 112, 16, Offered::Always),
    ],
};
/// `PortXmitDiscardDetails`; the last one counts packets that waited too long at the head of a queue.
pub static DISCARDS: Attribute = Attribute {
    id: 0x16,
    fields: &[
        field("PortXmitDiscardDetails/PortInactiveDiscards", 32, 16, Offered::Always),
        field("PortXmitDiscardDetails/PortNeighborMTUDiscards", 48, 16, Offered::Always),
        field("PortXmitDiscardDetails/PortSwLifetimeLimitDiscards", 64, 16, Offered::Always),
        field("PortXmitDiscardDetails/PortSwHOQLifetimeLimitDiscards", 80, 16, Offered::Always),
    ],
};
/// `PortVLXmitWaitCounters`.
pub static LANE_WAIT: Attribute = Attribute {
    id: 0x1c,
    fields: &[
        field("PortVLXmitWaitCounters/PortVLXmitWait0", 32, 16, Offered::Lane(0)),
        field("PortVLXmitWaitCounters/PortVLXmitWait1", 48, 16, Offered::Lane(1)),
        field("PortVLXmitWaitCounters/PortVLXmitWait2", 64, 16, Offered::Lane(2)),
        field("PortVLXmitWaitCounters/PortVLXmitWait3", 80, 16, Offered::Lane(3)),
        field("PortVLXmitWaitCounters/PortVLXmitWait4", 96, 16, Offered::Lane(4)),
        field("PortVLXmitWaitCounters/PortVLXmitWait5", 112, 16, Offered::Lane(5)),
        field("PortVLXmitWaitCounters/PortVLXmitWait6", 128, 16, Offered::Lane(6)),
        field("PortVLXmitWaitCounters/PortVLXmitWait7", 144, 16, Offered::Lane(7)),
        field("PortVLXmitWaitCounters/PortVLXmitWait8", 160, 16, Offered::Lane(8)),
        field("PortVLXmitWaitCounters/PortVLXmitWait9", 176, 16, Offered::Lane(9)),
        field("PortVLXmitWaitCounters/PortVLXmitWait10", 192, 16, Offered::Lane(10)),
        field("PortVLXmitWaitCounters/PortVLXmitWait11", 208, 16, Offered::Lane(11)),
        field("PortVLXmitWaitCounters/PortVLXmitWait12", 224, 16, Offered::Lane(12)),
        field("PortVLXmitWaitCounters/PortVLXmitWait13", 240, 16, Offered::Lane(13)),
        field("PortVLXmitWaitCounters/PortVLXmitWait14", 256, 16, Offered::Lane(14)),
        field("PortVLXmitWaitCounters/PortVLXmitWait15", 272, 16, Offered::Lane(15)),
    ],
};
/// `PortExtendedSpeedsCounters` with RS-FEC: CapabilityMask bit 14.
pub static FEC: Attribute = Attribute {
    id: 0x1f,
    fields: &[
        field("PortExtendedSpeedsRSFECCounters/PortFECCorrectableBlockCtr", 1120, 32, Offered::Always),
        field("PortExtendedSpeedsRSFECCounters/PortFECUncorrectableBlockCtr", 1152, 32, Offered::Always),
        field("PortExtendedSpeedsRSFECCounters/PortFECCorrectedSymbolCtr", 1184, 32, Offered::Always),
    ],
};

/// A row of an attribute's table.
pub(crate) const fn field(name: &'static str, from: usize, width: usize, offered: Offered) -> Field {
    Field { name, from, width, offered }
}

impl Field {
    /// Its raw value.
    pub fn value(&self, data: Data<'_>) -> u64 {
        data.bits(self.from, self.width)
    }
}

/// What a performance management agent offers (`ClassPortInfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// CapabilityMask.
    pub mask: u16,
    /// CapabilityMask2.
    pub mask2: u32,
}

impl Capabilities {
    /// Decodes `ClassPortInfo`.
    #[expect(clippy::cast_possible_truncation, reason = "the widths are those of the fields")]
    pub fn decode(data: Data<'_>) -> Self {
        Self { mask: data.bits(16, 16) as u16, mask2: data.bits(32, 27) as u32 }
    }

    fn has(self, bit: u32) -> bool {
        self.mask >> bit & 1 == 1
    }

    /// `PortCountersExtended` is answered.
    pub fn extended(self) -> bool {
        self.has(9) || self.has(10)
    }

    /// `PortCountersExtended` has 64-bit errors and waiting.
    pub fn additional(self) -> bool {
        self.extended() && self.mask2 >> 1 & 1 == 1
    }

    /// Counts of RS-FEC are answered.
    pub fn fec(self) -> bool {
        self.has(14)
    }

    /// Whether a field of an answered attribute is a measurement. `lanes`: data virtual lanes of the port, 0 if unknown.
    pub fn offers(self, attribute: &Attribute, field: &Field, lanes: u8) -> bool {
        match field.offered {
            Offered::Always => true,
            Offered::Wait => self.has(12),
            Offered::Qp1 => self.has(15) && (attribute.id != EXTENDED.id || self.additional()),
            Offered::Cast => !self.has(10),
            Offered::Additional => self.additional(),
            Offered::Lane(lane) => lane < lanes.max(1),
        }
    }
}

/// Tick code of `PortSamplesControl`: a tick of the wait counters is (code + 1) symbol times.
pub fn tick(data: Data<'_>) -> u8 {
    data.byte(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Get, Reply};

    fn reply(bytes: &[(usize, &[u8])]) -> Reply {
        let mut mad = Get::performance(1, 0x12, 1).encode(0);
        mad[3] = 0x81;
        for (at, bytes) in bytes {
            mad[64 + at..64 + at + bytes.len()].copy_from_slice(bytes);
        }
        Reply::decode(&mad).expect("a reply")
    }

    fn value(attribute: &Attribute, name: &str, reply: &Reply) -> u64 {
        let field = attribute.fields.iter().find(|f| f.name.ends_with(&format!("/{name}"))).expect("a field");
        field.value(reply.data())
    }

    #[test]
    fn counters_are_where_the_specification_has_them() {
        let mut bytes = [0_u8; 44];
        bytes[4..22].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 0x9c, 0x11, 0x12]);
        bytes[22..44]
            .copy_from_slice(&[0x13, 0x14, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0xff, 0xff, 0xff, 0xff]);
        let reply = reply(&[(0, &bytes)]);
        for (name, want) in [
            ("SymbolErrorCounter", 0x0102),
            ("LinkErrorRecoveryCounter", 3),
            ("LinkDownedCounter", 4),
            ("PortXmitDiscards", 0x0b0c),
            ("LocalLinkIntegrityErrors", 9),
            ("ExcessiveBufferOverrunErrors", 12),
            ("QP1Dropped", 0x1112),
            ("VL15Dropped", 0x1314),
            ("PortXmitData", 256),
            ("PortRcvPkts", 0x0400),
            ("PortXmitWait", 0xffff_ffff),
        ] {
            assert_eq!(value(&PORT_COUNTERS, name, &reply), want, "{name}");
        }
    }

    #[test]
    fn wide_counters_are_where_the_specification_has_them() {
        let wait = 0x0102_0304_0506_0708_u64.to_be_bytes();
        let reply = reply(&[(8, &[0xff; 8]), (168, &wait), (72, &[0, 0, 0, 0, 0, 0, 0, 9])]);
        assert_eq!(value(&EXTENDED, "PortXmitData", &reply), u64::MAX);
        assert_eq!(value(&EXTENDED, "PortXmitWait", &reply), 0x0102_0304_0506_0708);
        assert_eq!(value(&EXTENDED, "SymbolErrorCounter", &reply), 9);
        let reply = self::reply(&[(10, &[0, 5]), (34, &[0, 7]), (140, &[0, 0, 0, 1, 0, 0, 0, 2])]);
        assert_eq!(value(&DISCARDS, "PortSwHOQLifetimeLimitDiscards", &reply), 5);
        assert_eq!(value(&LANE_WAIT, "PortVLXmitWait15", &reply), 7);
        assert_eq!(value(&FEC, "PortFECUncorrectableBlockCtr", &reply), 2);
    }

    #[test]
    fn fields_do_not_overlap() {
        for attribute in [&PORT_COUNTERS, &EXTENDED, &RECEIVE_ERRORS, &DISCARDS, &LANE_WAIT, &FEC] {
            let mut fields: Vec<&Field> = attribute.fields.iter().collect();
            fields.sort_by_key(|f| f.from);
            assert!(fields.windows(2).all(|w| w[0].from + w[0].width <= w[1].from), "{:#x}", attribute.id);
            assert!(fields.iter().all(|f| f.from + f.width <= 1536));
        }
    }

    #[test]
    fn what_is_not_offered_is_no_measurement() {
        let of = |mask, mask2| Capabilities { mask, mask2 };
        let offers = |c: Capabilities, attribute: &Attribute, name: &str| {
            let field = attribute.fields.iter().find(|f| f.name.ends_with(&format!("/{name}"))).expect("a field");
            c.offers(attribute, field, 2)
        };
        assert!(!of(0, 2).additional() && of(1 << 9, 2).additional() && !of(1 << 9, 1).additional());
        assert!(!offers(of(1 << 9, 0), &EXTENDED, "PortXmitWait") && offers(of(1 << 9, 2), &EXTENDED, "PortXmitWait"));
        assert!(!offers(of(1 << 10, 0), &EXTENDED, "PortUnicastXmitPkts"));
        assert!(
            !offers(of(0, 0), &PORT_COUNTERS, "PortXmitWait") && offers(of(1 << 12, 0), &PORT_COUNTERS, "PortXmitWait")
        );
        assert!(offers(of(0, 0), &LANE_WAIT, "PortVLXmitWait1") && !offers(of(0, 0), &LANE_WAIT, "PortVLXmitWait2"));
        let reply = reply(&[(2, &[0x12, 0x00]), (4, &[0, 0, 0, 0x52])]);
        let read = Capabilities::decode(reply.data());
        assert_eq!((read, read.extended(), read.additional()), (of(0x1200, 2), true, true));
        assert_eq!(tick(self::reply(&[(2, &[7])]).data()), 7);
    }
}
