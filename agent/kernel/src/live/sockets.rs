//! Established TCP sockets by socket diagnosis (`sock_diag`). Read-only. Called by [`super::LiveKernel`].
//!
//! Constants are those of the kernel's `linux/inet_diag.h`, `linux/sock_diag.h` and `linux/tcp.h`.

use super::netlink::{ReopeningChannel, Request, attribute, u32_at, u64_at};
use crate::{CallError, TcpSocket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Message type `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// Bit of the state `TCP_ESTABLISHED`.
const ESTABLISHED: u32 = 1 << 1;
/// Attribute `INET_DIAG_INFO`: `struct tcp_info`. Requested by bit `INFO - 1`.
const INFO: u16 = 2;
/// Attribute `INET_DIAG_CGROUP_ID`. Sent without a request.
const CGROUP_ID: u16 = 21;
/// Size of the socket id in `struct inet_diag_req_v2`; all zeros select all sockets.
const SOCKET_ID: usize = 48;
/// Size of `struct inet_diag_msg`.
const HEADER: usize = 72;
// Offsets in `struct tcp_info`.
const RTT_US: usize = 68;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;

/// See [`crate::KernelCalls::tcp_sockets`].
pub fn tcp(netlink: &ReopeningChannel) -> Result<Vec<TcpSocket>, CallError> {
    let mut all = Vec::new();
    for (family, name) in [(libc::AF_INET, "IPv4"), (libc::AF_INET6, "IPv6")] {
        let what = format!("TCP sockets of {name} by socket diagnosis");
        all.extend(netlink.dump(&what, request(family), parse)?);
    }
    Ok(all)
}

fn request(family: i32) -> Request {
    let small = |number: i32| u8::try_from(number).unwrap_or(0);
    let mut header = vec![small(family), small(libc::IPPROTO_TCP), 1 << (INFO - 1), 0];
    header.extend(ESTABLISHED.to_ne_bytes());
    header.resize(header.len() + SOCKET_ID, 0);
    Request::new(BY_FAMILY, true, &header)
}

/// Parses a socket; `None` also for connections of this host to itself.
pub(super) fn parse(message: &[u8]) -> Option<TcpSocket> {
    let end = |port: usize, address: usize| -> Option<SocketAddr> {
        let port = u16::from_be_bytes(*message.get(port..)?.first_chunk()?);
        let octets: [u8; 16] = *message.get(address..)?.first_chunk()?;
        let address = match i32::from(*message.first()?) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::from(*octets.first_chunk::<4>()?)),
            libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(octets)),
            _ => return None,
        };
        Some(SocketAddr::new(address.to_canonical(), port))
    };
    let (local, remote) = (end(4, 8)?, end(6, 24)?);
    if remote.ip().is_loopback() || remote.ip() == local.ip() {
        return None;
    }
    let attributes = message.get(HEADER..)?;
    let info = attribute(attributes, INFO).unwrap_or_default();
    Some(TcpSocket {
        cookie: u64_at(message, 44)?,
        local,
        remote,
        cgroup: attribute(attributes, CGROUP_ID).and_then(|id| u64_at(id, 0)),
        // Older kernels have a shorter structure.
        transferred: u64_at(info, BYTES_ACKED).zip(u64_at(info, BYTES_RECEIVED)).map(Into::into),
        rtt: u32_at(info, RTT_US).filter(|us| *us > 0).map(|us| Duration::from_micros(us.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer as the kernel would send it.
    fn answer(family: i32, ends: [(u16, &[u8]); 2], info: &[u8]) -> Vec<u8> {
        let mut header = vec![0_u8; HEADER];
        header[0] = u8::try_from(family).unwrap();
        header[4..6].copy_from_slice(&ends[0].0.to_be_bytes());
        header[6..8].copy_from_slice(&ends[1].0.to_be_bytes());
        header[8..8 + ends[0].1.len()].copy_from_slice(ends[0].1);
        header[24..24 + ends[1].1.len()].copy_from_slice(ends[1].1);
        header[44..52].copy_from_slice(&77_u64.to_ne_bytes());
        let request = Request::new(0, false, &header).put(INFO, info).put(CGROUP_ID, &4242_u64.to_ne_bytes());
        request.bytes()[16..].to_vec()
    }

    #[test]
    fn sockets_of_both_families() {
        let mut info = [0_u8; 136];
        info[68..72].copy_from_slice(&250_u32.to_ne_bytes());
        info[120..128].copy_from_slice(&1000_u64.to_ne_bytes());
        info[128..136].copy_from_slice(&7_u64.to_ne_bytes());
        let v4 = parse(&answer(libc::AF_INET, [(5000, &[10, 0, 0, 1]), (41000, &[10, 0, 0, 2])], &info)).unwrap();
        let want = TcpSocket {
            cookie: 77,
            local: "10.0.0.1:5000".parse().unwrap(),
            remote: "10.0.0.2:41000".parse().unwrap(),
            cgroup: Some(4242),
            transferred: Some([1000, 7]),
            rtt: Some(Duration::from_micros(250)),
        };
        assert_eq!(v4, want);
        // An IPv6 socket with an IPv4 remote address, on a kernel with a shorter `tcp_info`.
        let mapped: Vec<u8> = "::ffff:10.0.0.2".parse::<Ipv6Addr>().unwrap().octets().to_vec();
        let v6 = parse(&answer(libc::AF_INET6, [(1, &[0xfd; 16]), (2, &mapped)], &info[..104])).unwrap();
        assert_eq!((v6.remote, v6.transferred), ("10.0.0.2:2".parse().unwrap(), None));
        assert_eq!(parse(&answer(libc::AF_INET, [(1, &[127, 0, 0, 1]), (2, &[127, 0, 0, 1])], &info)), None);
        assert_eq!(parse(&answer(libc::AF_INET, [(1, &[10, 0, 0, 1]), (2, &[10, 0, 0, 1])], &info)), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }
    }
}
