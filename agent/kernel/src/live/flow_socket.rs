//! UDP socket of one flow, for tracing: sends datagrams with a chosen TTL, and reads the ICMP errors that they cause.
//!
//! It needs no privilege: the kernel puts ICMP errors into the socket's error queue (`IP_RECVERR`). The socket is connected,
//! so the kernel hands it errors about its own addresses and ports alone, and it takes no data: a filter drops all of it, which
//! leaves the buffer to the errors.

use super::sys_udp as sys;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Bytes of a datagram that are returned with an error, at most.
const QUOTED: usize = 64;
/// Bytes for control messages: two of 16 bytes of header, 16 of error and 28 of address fit.
const CONTROL: usize = 256;
/// Errors that are read at once, at most.
const ERRORS: usize = 64;

/// Addresses and options of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAddress {
    /// Own address and source port; port 0: chosen by the kernel.
    pub local: SocketAddr,
    /// Address and port of the target.
    pub remote: SocketAddr,
    /// Interface through which all packets go; `None`: as the routing table says.
    pub device: Option<String>,
    /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
}

/// An ICMP error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What it says.
    pub kind: IcmpKind,
    /// Who sent it.
    pub from: IpAddr,
    /// Beginning of the datagram's data as the sender of the error quotes it; routers may quote none of it.
    pub quoted: Vec<u8>,
}

/// Kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// The TTL ended at a router.
    TimeExceeded,
    /// The host has no socket at the destination port.
    PortUnreachable,
    /// The destination cannot be reached, for another reason.
    Unreachable,
    /// Something else, for instance a packet that is too large.
    Other,
}

/// A connected UDP socket that receives errors only.
#[derive(Debug)]
pub struct FlowSocket {
    fd: OwnedFd,
    is_v4: bool,
}

impl FlowSocket {
    /// Opens the socket of a flow.
    ///
    /// # Errors
    /// `AddrInUse` if another socket has the source port, `AddrNotAvailable` if the host lost the address, `PermissionDenied`
    /// if a kernel before 5.7 denies choosing the interface, and others of the kernel.
    pub fn open(flow: &FlowAddress) -> io::Result<Self> {
        let is_v4 = flow.local.is_ipv4();
        if is_v4 != flow.remote.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "addresses of different families"));
        }
        let fd = sys::socket(is_v4)?;
        sys::drop_data(&fd)?;
        let class = i32::from(flow.traffic_class);
        if is_v4 {
            sys::set(&fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
            sys::set(&fd, libc::IPPROTO_IP, libc::IP_TOS, class)?;
        } else {
            sys::set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
            sys::set(&fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?;
            // Switches may hash over the flow label, which adapters leave at zero.
            sys::set(&fd, libc::IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0)?;
        }
        if let Some(device) = &flow.device {
            sys::bind_to_device(&fd, device)?;
        }
        sys::bind(&fd, &flow.local)?;
        sys::connect(&fd, &flow.remote)?;
        Ok(Self { fd, is_v4 })
    }

    /// Sends a datagram that at most `ttl` - 1 routers forward. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if the queue of the interface is full; others of the kernel, for instance without a route. An error that
    /// waits in the error queue is none.
    pub fn send(&self, ttl: u8, data: &[u8]) -> io::Result<()> {
        let (level, name) = match self.is_v4 {
            true => (libc::IPPROTO_IP, libc::IP_TTL),
            false => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        };
        sys::set(&self.fd, level, name, i32::from(ttl.max(1)))?;
        // The kernel returns the error of an earlier datagram once, before it sends the next one.
        sys::send(&self.fd, data).or_else(|_| sys::send(&self.fd, data))
    }

    /// Takes the errors that have come, the oldest first.
    pub fn errors(&self) -> Vec<IcmpError> {
        let mut errors = Vec::new();
        while errors.len() < ERRORS {
            let (mut data, mut control) = ([0; QUOTED], [0; CONTROL]);
            let Ok((data_len, control_len)) = sys::receive_error(&self.fd, &mut data, &mut control) else { break };
            errors.extend(parse(&control[..control_len.min(CONTROL)], &data[..data_len.min(QUOTED)]));
        }
        errors
    }
}

impl AsFd for FlowSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until one of the sockets has an error to read, or the time has passed.
///
/// # Errors
/// From the kernel, for instance for lack of memory.
pub fn wait_for_errors(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<()> {
    sys::poll_errors(sockets, timeout)
}

/// `IPV6_AUTOFLOWLABEL`, which musl's headers lack.
const IPV6_AUTOFLOWLABEL: i32 = 70;
/// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6`; other origins are the host itself.
const ORIGINS: [(u8, bool); 2] = [(2, true), (3, false)];
/// Bytes of `struct sock_extended_err`.
const EXTENDED: usize = 16;

/// Error from the control messages of one read.
pub(super) fn parse(control: &[u8], quoted: &[u8]) -> Option<IcmpError> {
    let mut rest = control;
    loop {
        // `struct cmsghdr`: length in a machine word, level, type; then data; padded to words.
        let word = size_of::<usize>();
        let length = usize::from_ne_bytes(rest.get(..word)?.try_into().ok()?);
        let level = i32::from_ne_bytes(rest.get(word..word + 4)?.try_into().ok()?);
        let kind = i32::from_ne_bytes(rest.get(word + 4..word + 8)?.try_into().ok()?);
        let data = rest.get(word + 8..length)?;
        let is_error = (level, kind) == (libc::IPPROTO_IP, libc::IP_RECVERR)
            || (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
        if is_error {
            return extended(data, quoted);
        }
        rest = rest.get(length.next_multiple_of(word)..)?;
    }
}

/// Error from `struct sock_extended_err` and the address behind it.
fn extended(data: &[u8], quoted: &[u8]) -> Option<IcmpError> {
    let (origin, icmp, code) = (*data.get(4)?, *data.get(5)?, *data.get(6)?);
    let (_, is_v4) = ORIGINS.into_iter().find(|(known, _)| *known == origin)?;
    let address = data.get(EXTENDED..)?;
    let family = i32::from(u16::from_ne_bytes(address.get(..2)?.try_into().ok()?));
    // `sockaddr_in` has the address behind the port, `sockaddr_in6` behind port and flow label.
    let from: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(address.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(address.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    let kind = match (is_v4, icmp, code) {
        (true, 11, 0) | (false, 3, 0) => IcmpKind::TimeExceeded,
        (true, 3, 3) | (false, 1, 4) => IcmpKind::PortUnreachable,
        // A datagram that is too large, which is type 3 for IPv4, says nothing of the path.
        (true, 3, code) if code != 4 => IcmpKind::Unreachable,
        (false, 1, _) => IcmpKind::Unreachable,
        _ => IcmpKind::Other,
    };
    Some(IcmpError { kind, from: from.to_canonical(), quoted: quoted.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control message as the kernel writes it.
    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let word = size_of::<usize>();
        let mut bytes = (word + 8 + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(word), 0);
        bytes
    }

    fn v4(origin: u8, icmp: u8, code: u8) -> Vec<u8> {
        let mut data = 113_u32.to_ne_bytes().to_vec();
        data.extend([origin, icmp, code, 0]);
        data.extend([0; 8]);
        data.extend((libc::AF_INET as u16).to_ne_bytes());
        data.extend([0, 0, 10, 0, 1, 1]);
        data.extend([0; 8]);
        message(libc::IPPROTO_IP, libc::IP_RECVERR, &data)
    }

    fn v6(icmp: u8, code: u8) -> Vec<u8> {
        let mut data = 113_u32.to_ne_bytes().to_vec();
        data.extend([3, icmp, code, 0]);
        data.extend([0; 8]);
        data.extend((libc::AF_INET6 as u16).to_ne_bytes());
        data.extend([0; 6]);
        data.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        data.extend([0; 4]);
        message(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &data)
    }

    fn kind(control: &[u8]) -> Option<IcmpKind> {
        parse(control, b"").map(|error| error.kind)
    }

    #[test]
    fn errors_of_routers_and_hosts_are_told_apart() {
        let exceeded = parse(&v4(2, 11, 0), b"token").expect("an error");
        let from: IpAddr = "10.0.1.1".parse().unwrap();
        assert_eq!(exceeded, IcmpError { kind: IcmpKind::TimeExceeded, from, quoted: b"token".to_vec() });
        assert_eq!(kind(&v4(2, 3, 3)), Some(IcmpKind::PortUnreachable));
        assert_eq!(kind(&v4(2, 3, 1)), Some(IcmpKind::Unreachable));
        assert_eq!(kind(&v4(2, 3, 13)), Some(IcmpKind::Unreachable));
        assert_eq!(kind(&v4(2, 3, 4)), Some(IcmpKind::Other), "too large");
        assert_eq!(kind(&v4(2, 11, 1)), Some(IcmpKind::Other), "fragments that did not arrive");
        let exceeded = parse(&v6(3, 0), b"").expect("an error");
        assert_eq!((exceeded.kind, exceeded.from), (IcmpKind::TimeExceeded, "fd00::1".parse().unwrap()));
        assert_eq!(kind(&v6(1, 4)), Some(IcmpKind::PortUnreachable));
        assert_eq!(kind(&v6(1, 0)), Some(IcmpKind::Unreachable));
        assert_eq!(kind(&v6(2, 0)), Some(IcmpKind::Other), "too large");
    }

    #[test]
    fn errors_of_the_own_host_and_other_messages_are_left_out() {
        assert_eq!(kind(&v4(1, 3, 1)), None, "SO_EE_ORIGIN_LOCAL");
        let stamp = message(libc::SOL_SOCKET, 35, &[0; 16]);
        assert_eq!(kind(&stamp), None);
        assert_eq!(kind(&[stamp, v4(2, 11, 0)].concat()), Some(IcmpKind::TimeExceeded), "behind another message");
    }

    #[test]
    fn cut_messages_are_no_errors() {
        let whole = v4(2, 11, 0);
        for length in 0..40 {
            assert_eq!(kind(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(kind(&[0; 64]), None, "a length of zero");
    }
}
