//! Sockets of flows, live or faked by tests.

pub use fabriclens_kernel::live::{FlowAddress, IcmpError, IcmpKind};
use fabriclens_kernel::live::{FlowSocket, wait_for_errors};
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Opens sockets, and waits for answers at them.
pub trait Transport {
    /// Socket of one flow.
    type Socket: Datagrams + std::fmt::Debug;

    /// Opens the socket of a flow.
    ///
    /// # Errors
    /// `AddrInUse` if the source port is taken, and others of the kernel.
    fn open(&mut self, flow: &FlowAddress) -> io::Result<Self::Socket>;

    /// Waits until one of the sockets has an answer, or the time has passed.
    fn wait(&mut self, sockets: &[&Self::Socket], timeout: Duration);
}

/// Sends the datagrams of one flow, and takes the ICMP errors about them.
pub trait Datagrams {
    /// Sends a datagram that at most `ttl` - 1 routers forward.
    ///
    /// # Errors
    /// From the kernel, for instance without a route.
    fn send(&mut self, ttl: u8, data: &[u8]) -> io::Result<()>;

    /// Takes the errors that have come.
    fn errors(&mut self) -> Vec<IcmpError>;
}

/// Sockets of this host.
#[derive(Clone, Copy, Debug)]
pub struct Live;

impl Transport for Live {
    type Socket = FlowSocket;

    fn open(&mut self, flow: &FlowAddress) -> io::Result<FlowSocket> {
        FlowSocket::open(flow)
    }

    fn wait(&mut self, sockets: &[&FlowSocket], timeout: Duration) {
        let fds: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
        // Without memory for the call, the time alone is waited for.
        if wait_for_errors(&fds, timeout).is_err() {
            std::thread::sleep(timeout);
        }
    }
}

impl Datagrams for FlowSocket {
    fn send(&mut self, ttl: u8, data: &[u8]) -> io::Result<()> {
        FlowSocket::send(self, ttl, data)
    }

    fn errors(&mut self) -> Vec<IcmpError> {
        FlowSocket::errors(self)
    }
}
