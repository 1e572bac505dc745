//! The 256 bytes of a management datagram (MAD): requests of the method Get, and their replies.
//!
//! A [`Get`] is the only request that can be built, so this crate cannot change a subnet. Offsets are those of the
//! InfiniBand specification, chapters 13.4 (common header), 14.2 (SMP) and 16.1 (performance management).

use crate::route::Route;

/// Bytes of a MAD.
pub const SIZE: usize = 256;
/// Offset of the attribute's data in every class that this crate reads.
const DATA: usize = 64;
/// Method `GetResp`.
const RESPONSE: u8 = 0x81;
/// Method `Get`.
const GET: u8 = 0x01;
/// Status bit of a directed-route SMP that is on its way back.
const DIRECTION: u16 = 0x8000;
/// LID that means "this port" in a directed route.
const PERMISSIVE: u16 = 0xffff;

/// Management class, byte 1 of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Subnet management, routed by LID.
    Subnet = 0x01,
    /// Subnet management by directed route.
    SubnetDirected = 0x81,
    /// Performance management.
    Performance = 0x04,
}

impl Class {
    /// Queue pair that answers the class: 0 for subnet management, 1 for all other classes.
    pub fn queue_pair(self) -> u32 {
        match self {
            Self::Subnet | Self::SubnetDirected => 0,
            Self::Performance => 1,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Subnet, Self::SubnetDirected, Self::Performance].into_iter().find(|class| *class as u8 == byte)
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// By the forwarding tables.
    Lid(u16),
    /// Hop by hop, before or without forwarding tables; subnet management only.
    Route(Route),
}

/// A request to read one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    destination: Destination,
    class: Class,
    attribute: u16,
    modifier: u32,
    port_select: u8,
}

impl Get {
    /// Reads an attribute of subnet management (`smp`). `key` of the M_Key is 0: a subnet manager that guards reads by
    /// an M_Key does not answer.
    pub fn subnet(destination: Destination, attribute: u16, modifier: u32) -> Self {
        let class = match destination {
            Destination::Lid(_) => Class::Subnet,
            Destination::Route(_) => Class::SubnetDirected,
        };
        Self { destination, class, attribute, modifier, port_select: 0 }
    }

    /// Reads an attribute of performance management (`pma`) of port `port` at the agent with this LID.
    pub fn performance(lid: u16, attribute: u16, port: u8) -> Self {
        let destination = Destination::Lid(lid);
        Self { destination, class: Class::Performance, attribute, modifier: 0, port_select: port }
    }

    /// Management class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// LID that the local port sends to.
    pub fn lid(&self) -> u16 {
        match &self.destination {
            Destination::Lid(lid) => *lid,
            Destination::Route(_) => PERMISSIVE,
        }
    }

    /// The datagram. The kernel replaces the upper half of the transaction's number, so ours is the lower half.
    pub fn encode(&self, transaction: u32) -> [u8; SIZE] {
        let mut mad = [0; SIZE];
        mad[..4].copy_from_slice(&[1, self.class as u8, 1, GET]);
        mad[12..16].copy_from_slice(&transaction.to_be_bytes());
        mad[16..18].copy_from_slice(&self.attribute.to_be_bytes());
        mad[20..24].copy_from_slice(&self.modifier.to_be_bytes());
        if let Destination::Route(route) = &self.destination {
            mad[7] = route.hops();
            mad[32..36].fill(0xff);
            let ports = route.ports();
            mad[129..129 + ports.len()].copy_from_slice(ports);
        }
        mad[DATA + 1] = self.port_select;
        mad
    }

    /// Whether a reply answers this request: its class, attribute and modifier.
    pub fn is_answered_by(&self, reply: &Reply) -> bool {
        (reply.class, reply.attribute, reply.modifier) == (self.class, self.attribute, self.modifier)
    }
}

/// Why bytes are not a reply to a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReply {
    /// Fewer bytes than a MAD has.
    #[error("{0} bytes instead of 256")]
    Short(usize),
    /// A request, a trap, or a reply to another method.
    #[error("method 0x{0:02x} instead of GetResp")]
    Method(u8),
    /// A class that is never asked for.
    #[error("class 0x{0:02x} is not read")]
    Class(u8),
}

/// A decoded reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Lower half of the transaction's number.
    pub transaction: u32,
    /// Management class.
    pub class: Class,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Status, 0 for success; 0x0c: the attribute is not supported.
    pub status: u16,
    data: [u8; SIZE - DATA],
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reply {{ class {:?}, attribute {:#x}, status {:#x} }}", self.class, self.attribute, self.status)
    }
}

impl Reply {
    /// Decodes a datagram.
    ///
    /// # Errors
    /// [`NotReply`] for requests, traps, foreign classes and truncated datagrams.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotReply> {
        let mad: &[u8; SIZE] = bytes.get(..SIZE).and_then(|b| b.try_into().ok()).ok_or(NotReply::Short(bytes.len()))?;
        let class = Class::of(mad[1]).ok_or(NotReply::Class(mad[1]))?;
        if mad[3] != RESPONSE {
            return Err(NotReply::Method(mad[3]));
        }
        let mut status = u16::from_be_bytes([mad[4], mad[5]]);
        if class == Class::SubnetDirected {
            status &= !DIRECTION;
        }
        let mut data = [0; SIZE - DATA];
        data.copy_from_slice(&mad[DATA..]);
        Ok(Self {
            transaction: u32::from_be_bytes([mad[12], mad[13], mad[14], mad[15]]),
            class,
            attribute: u16::from_be_bytes([mad[16], mad[17]]),
            modifier: u32::from_be_bytes([mad[20], mad[21], mad[22], mad[23]]),
            status,
            data,
        })
    }

    /// Data of the attribute.
    pub fn data(&self) -> Data<'_> {
        Data(&self.data)
    }
}

/// Data of an attribute. Bits are numbered as in the specification: bit 0 is the highest bit of the first byte.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a>(&'a [u8; SIZE - DATA]);

impl<'a> Data<'a> {
    /// The `width` bits (at most 64) from bit `from`; 0 beyond the end of the data.
    pub fn bits(self, from: usize, width: usize) -> u64 {
        let bit = |at: usize| u64::from(self.0.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1));
        if from.is_multiple_of(8) && width.is_multiple_of(8) {
            let bytes = self.0.iter().skip(from / 8).take(width / 8);
            return bytes.fold(0, |value, byte| value << 8 | u64::from(*byte));
        }
        (from..from + width).fold(0, |value, at| value << 1 | bit(at))
    }

    /// A byte; 0 beyond the end of the data.
    pub fn byte(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// The 64 bytes of an SMP's data.
    pub fn smp(self) -> &'a [u8] {
        &self.0[..64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directed_route_get_has_the_bytes_of_the_specification() {
        let route = Route::local().then(1).and_then(|r| r.then(7)).expect("short");
        let mad = Get::subnet(Destination::Route(route), 0x15, 3).encode(0x0102_0304);
        assert_eq!(mad[..8], [1, 0x81, 1, 1, 0, 0, 0, 2], "hop pointer 0, hop count 2");
        assert_eq!(mad[8..24], [0, 0, 0, 0, 1, 2, 3, 4, 0, 0x15, 0, 0, 0, 0, 0, 3]);
        assert_eq!(mad[24..36], [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], "M_Key 0, DrSLID, DrDLID");
        assert_eq!((mad[128..132].to_vec(), mad[132..].iter().any(|b| *b != 0)), (vec![0, 1, 7, 0], false));
    }

    #[test]
    fn performance_get_selects_the_port() {
        let get = Get::performance(9, 0x1d, 36);
        let mad = get.encode(1);
        assert_eq!((get.lid(), get.class().queue_pair()), (9, 1));
        assert_eq!((&mad[..4], mad[17], mad[65]), (&[1, 4, 1, 1][..], 0x1d, 36));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let mut mad = Get::performance(9, 0x1d, 36).encode(1);
        assert_eq!(Reply::decode(&mad), Err(NotReply::Method(GET)));
        mad[3] = RESPONSE;
        assert_eq!(Reply::decode(&mad[..255]), Err(NotReply::Short(255)));
        assert_eq!(Reply::decode(&[]), Err(NotReply::Short(0)));
        mad[1] = 0x21;
        assert_eq!(Reply::decode(&mad), Err(NotReply::Class(0x21)));
    }

    #[test]
    fn status_of_a_directed_route_has_no_direction_bit() {
        let mut mad = Get::subnet(Destination::Route(Route::local()), 0x11, 0).encode(5);
        (mad[3], mad[4], mad[5]) = (RESPONSE, 0x80, 0x0c);
        let reply = Reply::decode(&mad).expect("a reply");
        assert_eq!((reply.status, reply.transaction), (0x0c, 5));
    }

    proptest::proptest! {
        #[test]
        fn bits_are_the_same_however_they_are_read(bytes in proptest::collection::vec(0_u8.., 192), from in 0_usize..1500, width in 1_usize..=64) {
            let data: [u8; 192] = bytes.try_into().expect("192 bytes");
            let one_by_one = (from..from + width).fold(0, |value, at| value << 1 | Data(&data).bits(at, 1));
            proptest::prop_assert!(from + width > 1536 || Data(&data).bits(from, width) == one_by_one);
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(0_u8.., 0..300)) {
            if let Ok(reply) = Reply::decode(&bytes) {
                proptest::prop_assert!(bytes.len() >= SIZE && bytes[3] == RESPONSE);
                reply.data().bits(1530, 64);
            }
        }
    }
}
