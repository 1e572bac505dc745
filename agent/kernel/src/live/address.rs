//! IP addresses of the interfaces by rtnetlink. Called by [`super::LiveKernel`].

use super::netlink::{ReopeningChannel, Request, attribute, u32_at};
use crate::{CallError, InterfaceAddress};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const GETADDR: u16 = 22;
/// `IFA_ADDRESS`: the address, or the remote address of a point-to-point link.
const ADDRESS: u16 = 1;
/// `IFA_LOCAL`: the local address, if it differs from `IFA_ADDRESS`.
const LOCAL: u16 = 2;
/// Size of `struct ifaddrmsg`.
const HEADER: usize = 8;

/// All addresses of all interfaces.
pub fn all(rtnetlink: &ReopeningChannel) -> Result<Vec<InterfaceAddress>, CallError> {
    rtnetlink.dump("addresses of the interfaces", Request::new(GETADDR, true, &[0; HEADER]), parse)
}

pub(super) fn parse(message: &[u8]) -> Option<InterfaceAddress> {
    let attributes = message.get(HEADER..)?;
    let bytes = attribute(attributes, LOCAL).or_else(|| attribute(attributes, ADDRESS))?;
    let address = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(InterfaceAddress { interface: u32_at(message, 4)?, address, prefix: *message.get(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_address_is_listed() {
        let all = all(&ReopeningChannel::new(libc::NETLINK_ROUTE)).unwrap();
        let own = all.iter().find(|a| a.address == IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!((own.interface, own.prefix), (1, 8));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            parse(&bytes);
        }
    }
}
