//! The message of a TCP twin: 16 bytes, which come back as they are.
//!
//! ```text
//!  0 magic   4 version   5 traffic class of the answer   6 zero   8 sequence, big endian
//! ```

/// Bytes of a message.
pub const SIZE: usize = 16;
const START: [u8; 5] = *b"FLTW\x01";

/// Bytes of a message.
pub fn encode(traffic_class: u8, sequence: u64) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    out[..5].copy_from_slice(&START);
    out[5] = traffic_class;
    out[8..].copy_from_slice(&sequence.to_be_bytes());
    out
}

/// Traffic class and sequence; `None` if it is no message.
pub fn decode(bytes: &[u8; SIZE]) -> Option<(u8, u64)> {
    let sequence = bytes[8..].try_into().map_or(0, u64::from_be_bytes);
    (encode(bytes[5], sequence) == *bytes).then_some((bytes[5], sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_encoded_is_decoded(class: u8, sequence: u64, other: [u8; SIZE]) {
            proptest::prop_assert_eq!(decode(&encode(class, sequence)), Some((class, sequence)));
            if let Some((class, sequence)) = decode(&other) {
                proptest::prop_assert_eq!(encode(class, sequence), other);
            }
        }
    }

    #[test]
    fn other_bytes_are_no_message() {
        let good = encode(104, 7);
        assert_eq!(good, *b"FLTW\x01\x68\0\0\0\0\0\0\0\0\0\x07");
        for at in [0, 4, 6, 7] {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(decode(&bad), None, "byte {at}");
        }
        assert_eq!(decode(b"GET / HTTP/1.1\r\n"), None);
    }
}
