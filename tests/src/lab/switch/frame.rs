//! Fields of an Ethernet frame that the switch uses: addresses, RoCEv2 or not, and the ECN bits.

/// A MAC address.
pub type Mac = [u8; 6];

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [8, 0];
const UDP: u8 = 17;
const ROCE_PORT: [u8; 2] = 4791_u16.to_be_bytes();

/// Destination and source; `None` for a runt.
#[must_use]
pub fn addresses(frame: &[u8]) -> Option<(Mac, Mac)> {
    Some((frame.get(0..6)?.try_into().ok()?, frame.get(6..12)?.try_into().ok()?))
}

/// True for broadcast and multicast.
#[must_use]
pub fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

/// True for RoCEv2: IPv4, UDP, port 4791.
#[must_use]
pub fn is_roce(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&IPV4)
        && frame.get(ETHERNET + 9) == Some(&UDP)
        && udp(frame).and_then(|at| frame.get(at + 2..at + 4)) == Some(&ROCE_PORT)
}

/// Changes ECT(0) or ECT(1) to "congestion experienced", checksum included. False if the packet is not ECN-capable.
pub fn mark_congestion(frame: &mut [u8]) -> bool {
    if frame.len() < ETHERNET + 20 || frame[12..14] != IPV4 || !matches!(frame[15] & 3, 1 | 2) {
        return false;
    }
    let before = u16::from_be_bytes([frame[14], frame[15]]);
    frame[15] |= 3;
    let after = u16::from_be_bytes([frame[14], frame[15]]);
    // RFC 1624: the new sum follows from the old one and the changed word.
    let sum = u16::from_be_bytes([frame[24], frame[25]]);
    let mut new = u32::from(!sum) + u32::from(!before) + u32::from(after);
    new = (new & 0xffff) + (new >> 16);
    new = (new & 0xffff) + (new >> 16);
    frame[24..26].copy_from_slice(&(!(new as u16)).to_be_bytes());
    true
}

fn udp(frame: &[u8]) -> Option<usize> {
    Some(ETHERNET + 4 * usize::from(frame.get(ETHERNET)? & 15))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum over the header, which is 0xffff when the checksum is right.
    fn header_sum(frame: &[u8]) -> u32 {
        let mut sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    fn roce(tos: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(IPV4);
        frame.extend([0x45, tos, 0, 60, 1, 2, 0x40, 0, 64, UDP, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, 40, 0, 0]);
        let sum = !(header_sum(&frame) as u16);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn marking_keeps_the_checksum_valid() {
        for tos in [1, 2, 106, 0xfd, 0xfe] {
            let mut frame = roce(tos);
            assert_eq!(header_sum(&frame), 0xffff);
            assert!(mark_congestion(&mut frame));
            assert_eq!(frame[15], tos | 3);
            assert_eq!(header_sum(&frame), 0xffff, "tos {tos}");
        }
    }

    #[test]
    fn only_ecn_capable_frames_are_marked() {
        for tos in [0, 104, 3] {
            assert!(!mark_congestion(&mut roce(tos)), "tos {tos}");
        }
        assert!(!mark_congestion(&mut [0; 20]));
    }

    #[test]
    fn roce_is_recognized_by_its_port() {
        assert!(is_roce(&roce(0)));
        let mut other = roce(0);
        other[37] = 0;
        assert!(!is_roce(&other));
        assert!(!is_roce(&[0; 13]));
    }
}
