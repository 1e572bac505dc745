//! Transport over `/dev/infiniband/umadN`.

use crate::packet::Get;
use crate::transport::Mad;
use crate::umad_ports::UmadPair;
use fabriclens_kernel::CallError;
use fabriclens_kernel::live::Umad;
use std::io;
use std::time::Duration;

/// Requests in flight; the kernel queues them per port.
const WINDOW: usize = 256;

/// An open umad device, or a pair of them.
#[derive(Debug)]
pub struct UmadTransport(Umad);

impl UmadTransport {
    /// Opens a port. `deadline`: see [`crate::exchange::Pace::deadline`].
    ///
    /// # Errors
    /// See [`Umad::open`].
    pub fn open(pair: &UmadPair, deadline: Duration) -> Result<Self, CallError> {
        Umad::open(&pair.subnet.path, &pair.general.path, deadline).map(Self)
    }
}

impl Mad for UmadTransport {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        self.0.send(get.class().queue_pair(), get.lid(), &get.encode(transaction))
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        self.0.receive(wait, into)
    }

    fn window(&self) -> usize {
        WINDOW
    }
}
