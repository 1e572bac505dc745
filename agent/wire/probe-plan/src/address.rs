//! IP addresses as they stand in messages: 4 bytes, or 16.

use std::net::IpAddr;

/// Bytes of an address.
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The address of 4 or 16 bytes; `None` of another number. An IPv4 address in 16 bytes stays IPv6.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_four_or_sixteen_bytes() {
        for text in ["10.0.0.1", "fd00::7", "::ffff:10.0.0.1"] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(address(&octets(ip)), Some(ip));
        }
        assert_eq!([address(&[]), address(&[1, 2, 3])], [None, None]);
    }
}
