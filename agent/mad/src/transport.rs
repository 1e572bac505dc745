//! How MADs travel: one trait, and its implementations in `umad` (the kernel) and `ibsim` (a simulated subnet).

use crate::packet::Get;
use std::io;
use std::time::Duration;

/// Sends requests and receives datagrams. One user at a time; neither call blocks for long.
pub trait Mad: Send {
    /// Sends a request.
    ///
    /// # Errors
    /// `WouldBlock` if the queue is full: try again after a receive. Other errors: the port is gone.
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()>;

    /// Waits up to `wait` for a datagram; returns its bytes in `into`, or `None`.
    ///
    /// # Errors
    /// The port is gone.
    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>>;

    /// Most requests in flight that it can hold.
    fn window(&self) -> usize;
}
