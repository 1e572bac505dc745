//! LLDP neighbors: receives frames and keeps each neighbor for the time to live of its frame.
//!
//! Does not use a daemon: the protocol of `lldpd` differs with each version, and most hosts of a cluster run none. Each
//! packet socket gets a copy of a frame, so listeners do not disturb each other.

use super::sys::{Frames, interface_index};
use crate::lldp::{LldpNeighbor, Lldpdu, parse};
use crate::{CallError, live::error::call_error};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limit of neighbors per port: usually one, more behind a switch that forwards LLDP frames.
const MOST: usize = 8;
/// Limit of frames read per call; further ones stay in the socket's queue.
const AT_ONCE: usize = 64;
/// Largest Ethernet frame without jumbo frames, which LLDP never needs.
const FRAME: usize = 1600;

/// LLDP listeners by interface.
#[derive(Debug, Default)]
pub struct Lldp(Mutex<HashMap<String, LldpListener>>);

#[derive(Debug)]
struct LldpListener {
    index: u32,
    frames: Frames,
    heard: Vec<(Lldpdu, Instant)>,
}

impl Lldp {
    /// Latest neighbor, preferably one that forwards. The first call starts listening.
    pub fn lldp_neighbor(&self, netdev: &str) -> Result<LldpNeighbor, CallError> {
        let what = || format!("LLDP neighbor of {netdev}");
        let index = interface_index(netdev).map_err(|e| call_error(what(), e))?;
        let mut ears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ears.get(netdev).is_none_or(|ear| ear.index != index) {
            let frames = Frames::lldp(index).map_err(|e| match e.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => CallError::Unsupported {
                    what: what(),
                    why: "listening needs a packet socket: run as root, or with CAP_NET_RAW".into(),
                },
                _ => call_error(what(), e),
            })?;
            ears.insert(netdev.to_owned(), LldpListener { index, frames, heard: Vec::new() });
        }
        let silent = || {
            CallError::Unsupported {
            what: what(),
            why:
                "nothing heard yet, though CAP_NET_RAW is there: switches that have LLDP on send a frame each 30 s, and firmware of some NICs keeps \
                  them to itself"
                    .into(),
        }
        };
        let ear = ears.get_mut(netdev).ok_or_else(silent)?;
        ear.listen().map_err(|e| call_error(what(), e))?;
        ear.best().cloned().ok_or_else(silent)
    }
}

impl LldpListener {
    fn listen(&mut self) -> std::io::Result<()> {
        let mut buffer = [0_u8; FRAME];
        let now = Instant::now();
        for _ in 0..AT_ONCE {
            let Some(length) = self.frames.next(&mut buffer)? else { break };
            if let Some(advert) = parse(&buffer[..length]) {
                self.take(advert, now);
            }
        }
        self.heard.retain(|(_, until)| *until > now);
        Ok(())
    }

    /// Adds a frame; the newest neighbor is last.
    fn take(&mut self, advert: Lldpdu, now: Instant) {
        self.heard.retain(|(old, _)| old.neighbor != advert.neighbor);
        if self.heard.len() == MOST {
            self.heard.remove(0);
        }
        // A sender that shuts down announces a time to live of zero.
        let until = now + Duration::from_secs(u64::from(advert.ttl));
        self.heard.push((advert, until));
    }

    fn best(&self) -> Option<&LldpNeighbor> {
        let last = self.heard.iter().rev().find(|(advert, _)| advert.forwards).or(self.heard.last());
        last.map(|(advert, _)| &advert.neighbor)
    }
}
