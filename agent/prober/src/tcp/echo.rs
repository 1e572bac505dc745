//! Answers TCP twins: sends each message back, and nothing else. Connections, their rate and their idle time are bounded.

use super::message::{SIZE, decode};
use super::socket::set_traffic_class;
use crate::bucket::Bucket;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

/// Connections in all.
pub const CONNECTIONS: usize = 1024;
/// Connections of one address.
const PER_ADDRESS: usize = 64;
/// Messages a second of one connection.
const PER_SECOND: u32 = 200;
/// Time after which a silent connection is closed.
pub const IDLE: Duration = Duration::from_secs(120);

/// An accepted connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: IpAddr,
    /// Part of a message.
    part: [u8; SIZE],
    length: usize,
    class: u8,
    used: Duration,
    rate: Bucket,
}

/// Whether one more connection of this address is taken.
pub fn is_admitted<'a>(connections: impl Iterator<Item = &'a Connection> + Clone, peer: IpAddr) -> bool {
    connections.clone().count() < CONNECTIONS && connections.filter(|other| other.peer == peer).count() < PER_ADDRESS
}

impl Connection {
    /// An accepted stream.
    ///
    /// # Errors
    /// The stream cannot be set up.
    pub fn new(stream: TcpStream, peer: IpAddr, now: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let rate = Bucket::new(PER_SECOND, now);
        Ok(Self { stream, peer, part: [0; SIZE], length: 0, class: 0, used: now, rate })
    }

    /// Its stream.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether it was silent for too long.
    pub fn is_idle(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) >= IDLE
    }

    /// Answers what has arrived; the number of answers.
    ///
    /// # Errors
    /// The connection must be closed: it ended, sent something else, too much, or does not take its answers.
    pub fn serve(&mut self, now: Duration) -> io::Result<u64> {
        let mut answers = 0;
        loop {
            match self.stream.read(&mut self.part[self.length..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.length += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(answers),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.length < SIZE {
                continue;
            }
            self.length = 0;
            let (class, _) = decode(&self.part).ok_or(io::ErrorKind::InvalidData)?;
            if !self.rate.take(now) {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            if class != self.class {
                set_traffic_class(&self.stream, self.peer, class)?;
                self.class = class;
            }
            // A full send buffer means that the peer reads no answers.
            self.stream.write_all(&self.part)?;
            self.used = now;
            answers += 1;
        }
    }
}
