//! The datagrams of a probe: 40 bytes, big endian.
//!
//! ```text
//!  0 version 1   1 kind   2 flags   3 zero   4 source port of the answer   6 magic
//!  8 sequence: random number of the run (32 bits), counter (32 bits)
//! 16 T1, of the prober    24 T3    32 T4, of the responder; zero where not known yet
//! ```

use crate::refusal::Refusal;

/// Bytes of a message. An answer is as long as a probe, so that nobody can be flooded by answers to forged probes.
pub const SIZE: usize = 40;
const VERSION: u8 = 1;
const MAGIC: u16 = 0x464c;
const HARDWARE_TIME: u8 = 1;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A probe.
    Probe,
    /// ACK 1: sent at once.
    Arrived,
    /// ACK 2: tells when the probe arrived (T3) and when ACK 1 was sent (T4).
    Times,
}

const KINDS: [Kind; 3] = [Kind::Probe, Kind::Arrived, Kind::Times];

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Whether the sender's times are its NIC's.
    pub hardware_time: bool,
    /// UDP source port with which the responder shall answer; 0: any.
    pub source_port: u16,
    /// Sequence number.
    pub sequence: u64,
    /// When the prober posted the probe, nanoseconds of the prober's host. Answers repeat it, which a forger cannot guess.
    pub t1: u64,
    /// When the probe arrived, nanoseconds of the responder's clock.
    pub t3: u64,
    /// When ACK 1 was sent, by the same clock.
    pub t4: u64,
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        out[0] = VERSION;
        out[1] = match self.kind {
            Kind::Probe => 1,
            Kind::Arrived => 2,
            Kind::Times => 3,
        };
        out[2] = if self.hardware_time { HARDWARE_TIME } else { 0 };
        out[4..6].copy_from_slice(&self.source_port.to_be_bytes());
        out[6..8].copy_from_slice(&MAGIC.to_be_bytes());
        for (at, value) in [(8, self.sequence), (16, self.t1), (24, self.t3), (32, self.t4)] {
            out[at..at + 8].copy_from_slice(&value.to_be_bytes());
        }
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Another length, version, kind or magic; bits that version 1 does not have; times where there are none yet.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let bytes: &[u8; SIZE] = bytes.try_into().map_err(|_| Refusal::Malformed)?;
        let kind = *KINDS.get(usize::from(bytes[1]).wrapping_sub(1)).ok_or(Refusal::Malformed)?;
        let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
        let message = Self {
            kind,
            hardware_time: bytes[2] & HARDWARE_TIME != 0,
            source_port: u16::from_be_bytes([bytes[4], bytes[5]]),
            sequence: word(8),
            t1: word(16),
            t3: word(24),
            t4: word(32),
        };
        let has_times = message.t3 != 0 || message.t4 != 0;
        // Encoding it again must give the same bytes: everything that is not a field has one value.
        if message.encode() != *bytes || has_times && kind != Kind::Times {
            return Err(Refusal::Malformed);
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let times = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        (0..KINDS.len(), any::<bool>(), any::<u16>(), times).prop_map(|(kind, hardware_time, source_port, times)| {
            let (sequence, t1, t3, t4) = times;
            let (t3, t4) = if KINDS[kind] == Kind::Times { (t3, t4) } else { (0, 0) };
            Message { kind: KINDS[kind], hardware_time, source_port, sequence, t1, t3, t4 }
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(message in message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_are_the_one_form(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(&message.encode()[..], &bytes[..]);
            }
        }

        #[test]
        fn a_changed_byte_is_refused_or_changes_a_field(message in message(), at in 0..SIZE, bit in 0..8u8) {
            let mut bytes = message.encode();
            bytes[at] ^= 1u8 << bit;
            prop_assert_ne!(Message::decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn the_bytes_are_pinned() {
        let times = Message {
            kind: Kind::Times,
            hardware_time: true,
            source_port: 0xc123,
            sequence: 0x0102_0304_0506_0708,
            t1: 9,
            t3: 10,
            t4: 11,
        };
        let mut wanted = vec![1, 3, 1, 0, 0xc1, 0x23, 0x46, 0x4c, 1, 2, 3, 4, 5, 6, 7, 8];
        for time in [9, 10, 11] {
            wanted.extend([0, 0, 0, 0, 0, 0, 0, time]);
        }
        assert_eq!(times.encode().to_vec(), wanted);
        let mut probe = Message { kind: Kind::Probe, ..times }.encode();
        assert_eq!(Message::decode(&probe), Err(Refusal::Malformed), "a probe with the responder's times");
        probe[24..].fill(0);
        assert!(Message::decode(&probe).is_ok());
        probe[3] = 1;
        assert_eq!(Message::decode(&probe), Err(Refusal::Malformed), "a reserved byte");
        assert_eq!(Message::decode(&probe[..39]), Err(Refusal::Malformed));
    }
}
