//! Errors about the datagrams of a flow, over loopback. Needs no privilege.

use fabriclens_kernel::live::{FlowAddress, FlowSocket, IcmpError, IcmpKind, wait_for_errors};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A flow to a port that no socket has.
fn flow() -> FlowAddress {
    let closed = UdpSocket::bind(local(0)).unwrap().local_addr().unwrap();
    FlowAddress { local: local(0), remote: closed, device: None, traffic_class: 106 }
}

fn errors(socket: &FlowSocket) -> Vec<IcmpError> {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let errors = socket.errors();
        if !errors.is_empty() || Instant::now() > end {
            return errors;
        }
        wait_for_errors(&[socket.as_fd()], Duration::from_millis(100)).unwrap();
    }
}

#[test]
fn a_port_without_a_socket_is_unreachable_and_the_next_datagram_is_sent_all_the_same() {
    let socket = FlowSocket::open(&flow()).unwrap();
    for data in [&b"first"[..], b"second"] {
        socket.send(7, data).unwrap();
        let want = IcmpError { kind: IcmpKind::PortUnreachable, from: local(0).ip(), quoted: data.to_vec() };
        assert_eq!(errors(&socket), [want]);
    }
    // Not read before the next is sent.
    socket.send(7, b"third").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    socket.send(7, b"fourth").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let quoted: Vec<_> = socket.errors().into_iter().map(|error| error.quoted).collect();
    assert_eq!(quoted, [b"third".to_vec(), b"fourth".to_vec()]);
}

#[test]
fn data_that_arrives_takes_no_room_and_wakes_nobody() {
    let peer = UdpSocket::bind(local(0)).unwrap();
    let own = UdpSocket::bind(local(0)).unwrap().local_addr().unwrap();
    let flow = FlowAddress { local: own, remote: peer.local_addr().unwrap(), device: None, traffic_class: 0 };
    let socket = FlowSocket::open(&flow).unwrap();
    for _ in 0..1000 {
        peer.send_to(&[0; 1400], own).unwrap();
    }
    let begin = Instant::now();
    wait_for_errors(&[socket.as_fd()], Duration::from_millis(200)).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(190), "data is no error");
    let mut byte = 0_u8;
    let raw = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most one byte to `byte`.
    let got = unsafe { libc::recv(raw, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
    assert_eq!(got, -1, "no data is kept");
    drop(peer);
    socket.send(7, b"token").unwrap();
    assert_eq!(errors(&socket).len(), 1, "data left no room for the error");
}

#[test]
fn an_error_about_another_flow_is_not_received() {
    let flow = flow();
    let socket = FlowSocket::open(&flow).unwrap();
    let other = FlowSocket::open(&flow).unwrap();
    other.send(7, b"other").unwrap();
    assert_eq!(errors(&other).len(), 1);
    assert_eq!(socket.errors(), []);
}

#[test]
fn a_taken_source_port_is_told() {
    let taken = UdpSocket::bind(local(0)).unwrap();
    let flow = FlowAddress { local: taken.local_addr().unwrap(), ..flow() };
    assert_eq!(FlowSocket::open(&flow).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let foreign = FlowAddress { local: "192.0.2.1:0".parse().unwrap(), ..flow };
    assert_eq!(FlowSocket::open(&foreign).unwrap_err().kind(), std::io::ErrorKind::AddrNotAvailable);
    let mixed = FlowAddress { local: "[::1]:0".parse().unwrap(), ..foreign };
    assert_eq!(FlowSocket::open(&mixed).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}
