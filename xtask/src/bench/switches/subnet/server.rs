//! Answers the datagrams of `agent/mad/src/ibsim.rs`, faster than ibsim does: one client, no forwarding.

use super::answers::{MAD, answer};
use super::tree::Tree;
use anyhow::{Context, Result};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Instant;

/// Bytes of a message on the control socket, and the offset of its data.
const CONTROL: usize = 80;
const DATA: usize = 16;
/// Bytes before a datagram.
const HEADER: usize = 32;

/// A simulated subnet with its sockets.
pub struct Simulator {
    control: UnixDatagram,
    data: UnixDatagram,
    sockets: String,
    tree: Tree,
}

fn name(name: &str) -> Result<SocketAddr> {
    // The zero at the end is part of ibsim's names.
    SocketAddr::from_abstract_name(format!("{name}\0")).context("name a socket")
}

impl Simulator {
    /// Binds the sockets, whose names begin with `sockets`.
    ///
    /// # Errors
    /// When the names are taken.
    pub fn bind(sockets: &str, tree: Tree) -> Result<Self> {
        let bind = |end: &str| {
            UnixDatagram::bind_addr(&name(&format!("{sockets}:{end}"))?).context("bind a socket of the simulator")
        };
        Ok(Self { control: bind("ctl")?, data: bind("out0")?, sockets: sockets.to_owned(), tree })
    }

    /// Waits for the agent, then answers until its socket is gone.
    ///
    /// # Errors
    /// When the agent's socket cannot be used.
    pub fn run(self) -> Result<()> {
        let mut message = [0; CONTROL];
        self.control.recv(&mut message).context("wait for the agent")?;
        let id = u32::from_ne_bytes([message[DATA], message[DATA + 1], message[DATA + 2], message[DATA + 3]]);
        // The number of the client.
        message[DATA..DATA + 4].fill(0);
        self.data.connect_addr(&name(&format!("{}:in{id}", self.sockets))?).context("connect to the agent")?;
        self.control.send_to_addr(&message, &name(&format!("{}:ctl{id}", self.sockets))?)?;
        let (started, mut datagram) = (Instant::now(), [0; HEADER + MAD]);
        loop {
            if self.data.recv(&mut datagram).context("receive from the agent")? < HEADER + MAD {
                continue;
            }
            // The LID is in network order within a word in the order of this machine.
            let word = u32::from_ne_bytes([datagram[0], datagram[1], datagram[2], datagram[3]]);
            #[expect(clippy::cast_possible_truncation, reason = "16 bits of the word are the LID")]
            let lid = u16::from_be(word as u16);
            let elapsed_ms = u64::try_from(started.elapsed().as_millis())?;
            let Some(mad) = datagram.last_chunk_mut() else { continue };
            if answer(self.tree, mad, lid, elapsed_ms) && self.data.send(&datagram).is_err() {
                // The agent has ended.
                return Ok(());
            }
        }
    }
}
