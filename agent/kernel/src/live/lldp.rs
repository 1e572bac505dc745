//! LLDP neighbors: receives frames and keeps each neighbor for the time to live of its frame.
//!
//! Does not use a daemon: the protocol of `lldpd` changes with each version, and most cluster hosts run none. Each
//! packet socket receives its own copy of a frame, so listeners do not interfere with each other.

use super::sys::{Frames, interface_index};
use crate::lldp::{LldpNeighbor, Lldpdu, parse};
use crate::{CallError, live::error::call_error};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limit of neighbors per port. Usually there is one; a switch that forwards LLDP frames adds more.
const MAX_NEIGHBORS: usize = 8;
/// Limit of frames read per call; further ones stay in the socket's queue.
const MAX_FRAMES: usize = 64;
/// Buffer size in bytes, above the largest Ethernet frame; LLDP needs no jumbo frames.
const FRAME_BYTES: usize = 1600;

/// LLDP listeners by interface.
#[derive(Debug, Default)]
pub struct Lldp(Mutex<HashMap<String, LldpListener>>);

#[derive(Debug)]
struct LldpListener {
    index: u32,
    frames: Frames,
    /// Neighbors with their expiry, newest last.
    neighbors: Vec<(Lldpdu, Instant)>,
}

impl Lldp {
    /// Latest neighbor, preferably one that forwards. The first call starts listening.
    pub fn lldp_neighbor(&self, netdev: &str) -> Result<LldpNeighbor, CallError> {
        let what = || format!("LLDP neighbor of {netdev}");
        let index = interface_index(netdev).map_err(|e| call_error(what(), e))?;
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.get(netdev).is_none_or(|listener| listener.index != index) {
            let frames = Frames::lldp(index).map_err(|e| match e.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => CallError::Unsupported {
                    what: what(),
                    why: "listening needs a packet socket: run as root, or with CAP_NET_RAW".into(),
                },
                _ => call_error(what(), e),
            })?;
            listeners.insert(netdev.to_owned(), LldpListener { index, frames, neighbors: Vec::new() });
        }
        let no_neighbor = || CallError::Unsupported {
            what: what(),
            why:
                "no frame received yet: switches with LLDP enabled send one every 30 s, but the firmware of some NICs \
                  consumes them"
                    .into(),
        };
        let listener = listeners.get_mut(netdev).ok_or_else(no_neighbor)?;
        listener.receive().map_err(|e| call_error(what(), e))?;
        listener.best().cloned().ok_or_else(no_neighbor)
    }
}

impl LldpListener {
    /// Reads the frames that have arrived and removes expired neighbors.
    fn receive(&mut self) -> std::io::Result<()> {
        let mut buffer = [0_u8; FRAME_BYTES];
        let now = Instant::now();
        for _ in 0..MAX_FRAMES {
            let Some(length) = self.frames.next(&mut buffer)? else { break };
            if let Some(lldpdu) = parse(&buffer[..length]) {
                self.add(lldpdu, now);
            }
        }
        self.neighbors.retain(|(_, expires)| *expires > now);
        Ok(())
    }

    /// Adds a neighbor, or renews its expiry; drops the oldest beyond the limit.
    fn add(&mut self, lldpdu: Lldpdu, now: Instant) {
        self.neighbors.retain(|(known, _)| known.neighbor != lldpdu.neighbor);
        if self.neighbors.len() == MAX_NEIGHBORS {
            self.neighbors.remove(0);
        }
        // A sender that shuts down announces a time to live of zero.
        let expires = now + Duration::from_secs(u64::from(lldpdu.ttl));
        self.neighbors.push((lldpdu, expires));
    }

    /// Latest neighbor that forwards, or else the latest of all.
    fn best(&self) -> Option<&LldpNeighbor> {
        let forwarding = self.neighbors.iter().rev().find(|(lldpdu, _)| lldpdu.forwards);
        forwarding.or(self.neighbors.last()).map(|(lldpdu, _)| &lldpdu.neighbor)
    }
}
