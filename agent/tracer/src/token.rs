//! Data of a datagram: by it a quoted datagram is known to be the one that waits for an answer.
//!
//! It begins as a base transport header (BTH) that no adapter takes: an opcode reserved for manufacturers, and a transport
//! version that does not exist. So a datagram that arrives against expectation is dropped, whatever its queue pair.

/// Bytes of the header.
const HEADER: [u8; 12] = [0xFF, 0x0F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Bytes of the data.
pub const LENGTH: usize = HEADER.len() + 8;

/// Random part of the tokens of one socket.
#[derive(Clone, Copy, Debug)]
pub struct Secret(pub u64);

/// How a quoted datagram compares with the one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// It is the one.
    Same,
    /// Too little is quoted to know.
    Short,
    /// It is another one.
    Other,
}

impl Secret {
    /// Data of datagram `number`.
    pub fn data(self, number: u32) -> [u8; LENGTH] {
        let mut data = [0; LENGTH];
        data[..HEADER.len()].copy_from_slice(&HEADER);
        // The golden ratio spreads the numbers over all bits.
        let token = self.0 ^ u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        data[HEADER.len()..].copy_from_slice(&token.to_be_bytes());
        data
    }

    /// Compares what is quoted with datagram `number`.
    pub fn compare(self, number: u32, quoted: &[u8]) -> Quote {
        let data = self.data(number);
        let common = quoted.len().min(LENGTH);
        match (data[..common] == quoted[..common], common == LENGTH) {
            (true, true) => Quote::Same,
            (true, false) => Quote::Short,
            (false, _) => Quote::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_datagram_is_the_same() {
        let secret = Secret(0x1234_5678_9ABC_DEF0);
        let data = secret.data(7);
        assert_eq!(secret.compare(7, &data), Quote::Same);
        assert_eq!(secret.compare(7, &[&data[..], &[0; 8]].concat()), Quote::Same, "padded by the router");
        assert_eq!(secret.compare(8, &data), Quote::Other, "another datagram of this socket");
        assert_eq!(Secret(1).compare(7, &data), Quote::Other, "of another trace");
        assert_eq!((secret.compare(7, &[]), secret.compare(7, &data[..19])), (Quote::Short, Quote::Short));
        assert_eq!(secret.compare(7, b"forged"), Quote::Other);
    }
}
