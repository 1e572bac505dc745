//! Transport to `ibsim`, a simulated InfiniBand subnet, for tests: datagrams over abstract Unix sockets.
//!
//! ibsim's own clients do the same in `umad2sim`: a control socket connects as a node of the simulated subnet, a data
//! socket carries MADs with a short header. All numbers are in the byte order of the host, except LIDs and queue pairs.

use crate::packet::{Get, SIZE};
use crate::transport::Mad;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const MAGIC: u32 = 0xdead_beef;
const CONNECT: u32 = 1;
const DISCONNECT: u32 = 2;
/// Magic, client, type, length, and 64 bytes of data.
const CONTROL: usize = 80;
/// Destination and source LID, both queue pairs and status (5 × 4 bytes), 4 of padding, length of the MAD.
const HEADER: usize = 32;
/// Datagrams that a Unix socket queues with the kernel's default `net.unix.max_dgram_qlen`, less some reserve.
const WINDOW: usize = 8;
/// Time that ibsim has for an answer on its control socket.
const ANSWER: Duration = Duration::from_secs(5);

/// Connection to ibsim.
#[derive(Debug)]
pub struct IbSim {
    control: UnixDatagram,
    data: UnixDatagram,
    client: u32,
}

impl IbSim {
    /// Attaches to the node with this id (for instance `H-0002c90300c00010`) of the simulator whose sockets begin with
    /// `sockets` (`IBSIM_SOCKNAME`, by default `sim`).
    ///
    /// # Errors
    /// No simulator listens, it has no such node, or it already has ten clients.
    pub fn attach(sockets: &str, node: &str) -> io::Result<Self> {
        // ibsim names our sockets by a process id; each connection of a process needs one of its own.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = (std::process::id() << 8 | COUNT.fetch_add(1, Ordering::Relaxed) & 0xff) & 0x7fff_ffff;
        let control = UnixDatagram::bind_addr(&name(&format!("{sockets}:ctl{id}"))?)?;
        let data = UnixDatagram::bind_addr(&name(&format!("{sockets}:in{id}"))?)?;
        control.connect_addr(&name(&format!("{sockets}:ctl"))?)?;
        control.set_read_timeout(Some(ANSWER))?;
        let mut info = [0; 44];
        info[..4].copy_from_slice(&id.to_ne_bytes());
        let node = &node.as_bytes()[..node.len().min(31)];
        info[12..12 + node.len()].copy_from_slice(node);
        let mut sim = Self { control, data, client: 0 };
        let answer = sim.control(CONNECT, &info)?;
        sim.client = u32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        sim.data.connect_addr(&name(&format!("{sockets}:out{}", sim.client))?)?;
        sim.data.set_write_timeout(Some(Duration::from_millis(1)))?;
        Ok(sim)
    }

    fn control(&self, kind: u32, data: &[u8]) -> io::Result<[u8; CONTROL]> {
        let mut message = [0; CONTROL];
        #[expect(clippy::cast_possible_truncation, reason = "at most 64 bytes")]
        for (at, word) in [MAGIC, self.client, kind, data.len() as u32].into_iter().enumerate() {
            message[at * 4..at * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        message[16..16 + data.len()].copy_from_slice(data);
        self.control.send(&message)?;
        let read = self.control.recv(&mut message)?;
        if read < CONTROL || message[8..12] != kind.to_ne_bytes() {
            return Err(io::Error::other("ibsim refused; is the node in its network file?"));
        }
        Ok(message)
    }
}

impl Drop for IbSim {
    fn drop(&mut self) {
        // Gives the slot of the client back.
        _ = self.control(DISCONNECT, &[]);
    }
}

/// ibsim counts the zero at the end of a name as part of it.
fn name(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{name}\0"))
}

impl Mad for IbSim {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        let mut datagram = [0; HEADER + SIZE];
        let lid = u32::from(get.lid().to_be());
        let own = if get.lid() == u16::MAX { lid } else { 0 };
        let queue_pair = get.class().queue_pair().to_be();
        for (at, word) in [lid, own, queue_pair, queue_pair, 0].into_iter().enumerate() {
            datagram[at * 4..at * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        datagram[24..32].copy_from_slice(&(SIZE as u64).to_be_bytes());
        datagram[32..].copy_from_slice(&get.encode(transaction));
        self.data.send(&datagram).map(|_| ())
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        let mut datagram = [0; HEADER + SIZE];
        self.data.set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
        match self.data.recv(&mut datagram) {
            Ok(read) => {
                into.clear();
                // A status is a time-out; ibsim reports it at once, and the deadline of the request covers it.
                let status = u32::from_ne_bytes([datagram[16], datagram[17], datagram[18], datagram[19]]);
                into.extend(datagram.get(HEADER..read).filter(|_| status == 0).unwrap_or_default());
                Ok(Some(()))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn window(&self) -> usize {
        WINDOW
    }
}
