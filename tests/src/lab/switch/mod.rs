//! A switch for the guests' Ethernet frames: learning, rate, loss, ECN marks, and back-pressure as PFC does it.
//!
//! Each port is a unix socket that QEMU's `-netdev stream` connects to (length, then frame). Settings may change while
//! traffic flows. While the egress queue of a lossless port is full, the switch does not read from the ingress ports that
//! feed it; head-of-line blocking, congestion spreading and victim flows follow from that.

mod frame;
mod port;

use anyhow::{Context, Result};
use frame::Mac;
use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Settings of a port, for the frames that it sends.
#[derive(Clone, Debug)]
pub struct Knobs {
    /// Bytes per second; `None`: unlimited.
    pub rate: Option<u64>,
    /// Queue length from which ECN-capable packets are marked, bytes.
    pub mark_from: Option<usize>,
    /// Longest queue, bytes; a frame that does not fit is dropped, or waits if `lossless`.
    pub limit: usize,
    /// RoCE packets lost per million. ARP and TCP packets are never lost, so that only the tested traffic is.
    pub lose_per_million: u32,
    /// Blocks senders instead of dropping.
    pub lossless: bool,
    /// Whether frames pass, in both directions.
    pub up: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { rate: None, mark_from: None, limit: 1 << 20, lose_per_million: 0, lossless: false, up: true }
    }
}

/// Counters of a port. `received` is from its guest, `sent` is to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames from the guest.
    pub received: u64,
    /// Bytes from the guest.
    pub received_bytes: u64,
    /// Frames to the guest.
    pub sent: u64,
    /// Bytes to the guest.
    pub sent_bytes: u64,
    /// Packets to the guest that were marked.
    pub marked: u64,
    /// RoCE packets to the guest lost on purpose.
    pub lost: u64,
    /// Frames to the guest that found its queue full.
    pub dropped: u64,
    /// How often this guest was blocked.
    pub pauses: u64,
    /// Total time blocked, in microseconds.
    pub paused_us: u64,
}

struct Port {
    knobs: Knobs,
    stats: Stats,
    queue: VecDeque<Vec<u8>>,
    queued: usize,
    connected: bool,
}

struct State {
    ports: Vec<Port>,
    learned: HashMap<Mac, usize>,
    random: u64,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// A panic of one port's thread must not hide what the others counted.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running switch; it stops when dropped.
pub struct Switch {
    shared: Arc<Shared>,
    sockets: Vec<PathBuf>,
    threads: Vec<JoinHandle<()>>,
}

impl Switch {
    /// A switch with sockets `port-0` … in `folder`.
    ///
    /// # Errors
    /// When a socket cannot be created.
    pub fn new(folder: &Path, ports: usize) -> Result<Self> {
        let port = || Port {
            knobs: Knobs::default(),
            stats: Stats::default(),
            queue: VecDeque::new(),
            queued: 0,
            connected: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ports: (0..ports).map(|_| port()).collect(),
                learned: HashMap::new(),
                random: 0x9e37_79b9_7f4a_7c15,
                stop: false,
            }),
            changed: Condvar::new(),
        });
        let (mut sockets, mut threads) = (Vec::new(), Vec::new());
        for number in 0..ports {
            let socket = folder.join(format!("port-{number}"));
            let listener = UnixListener::bind(&socket).with_context(|| format!("binding {}", socket.display()))?;
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || port::accept(&shared, number, &listener)));
            sockets.push(socket);
        }
        Ok(Self { shared, sockets, threads })
    }

    /// Socket of a port, for `Config::on`.
    ///
    /// # Panics
    /// When there is no such port.
    #[must_use]
    pub fn socket(&self, port: usize) -> &Path {
        &self.sockets[port]
    }

    /// Changes the settings of a port.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn turn(&self, port: usize, change: impl FnOnce(&mut Knobs)) {
        change(&mut self.shared.lock().ports[port].knobs);
        self.shared.changed.notify_all();
    }

    /// Counters of a port.
    ///
    /// # Panics
    /// When there is no such port.
    #[must_use]
    pub fn stats(&self, port: usize) -> Stats {
        self.shared.lock().ports[port].stats
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for socket in &self.sockets {
            // Wakes the accepting thread, which then sees `stop`.
            drop(std::os::unix::net::UnixStream::connect(socket));
        }
        for thread in self.threads.drain(..) {
            // A port that panicked has printed why.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
