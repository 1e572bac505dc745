//! Unreliable datagrams (UD queue pairs) of one RDMA port, by which the agent sends and answers probes.
//!
//! [`DatagramPort`] has two implementations: [`crate::live::UdPort`] (libibverbs) and the simulated network of the
//! prober's tests. All times of a port are of one clock, so only their differences mean something.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Longest payload, bytes.
pub const LONGEST: usize = 64;

/// Key that datagrams carry; a queue pair drops those with another one. Without the upper bit, which is for privileged
/// users of the subnet.
pub const Q_KEY: u32 = 0x464c_5042;

/// What must be known of a port before it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSource {
    /// RDMA device, such as `mlx5_0`.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
    /// RoCE v2: index of the GID from which datagrams are sent, and its address. `None` on InfiniBand.
    pub gid: Option<(u8, IpAddr)>,
    /// InfiniBand: base LID; 0 on Ethernet.
    pub lid: u16,
    /// How the driver chooses source ports.
    pub source_ports: SourcePorts,
}

impl PortSource {
    /// Name as in samples and plans, such as `mlx5_0/1`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.device, self.port)
    }
}

/// Facts of an open port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// RoCE v2: IP address of the GID from which datagrams are sent.
    pub address: Option<IpAddr>,
    /// Queue pairs, each of which sends and receives.
    pub queue_pairs: Vec<QueuePair>,
    /// Meaning of [`Route::source_port`].
    pub source_ports: SourcePorts,
    /// Whether times are those of the NIC; otherwise they are of the host.
    pub hardware_time: bool,
}

/// A UD queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePair {
    /// Number, 24 bits.
    pub number: u32,
    /// UDP source port of everything that it sends, if the driver fixes it.
    pub source_port: Option<u16>,
}

/// How the driver chooses the UDP source port of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePorts {
    /// By the flow label of the route: ports from 0xC001 to 0xFFFF can be chosen.
    Chosen,
    /// Fixed for each queue pair.
    Fixed,
    /// By a rule that is not known, or none (InfiniBand).
    #[default]
    Unknown,
}

/// The other end of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// RoCE v2: IP address; `None` on InfiniBand.
    pub address: Option<IpAddr>,
    /// InfiniBand: LID; 0 on Ethernet.
    pub lid: u16,
    /// Number of the queue pair.
    pub queue_pair: u32,
}

/// Where a datagram goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Destination.
    pub peer: Peer,
    /// Number of the own queue pair that sends; 0: the one with the source port, or any.
    pub queue_pair: u32,
    /// UDP source port, where it can be chosen; ignored otherwise. 0: any.
    pub source_port: u16,
    /// Traffic class (DSCP in the upper six bits); ignored on InfiniBand.
    pub traffic_class: u8,
    /// Service level; ignored on Ethernet.
    pub service_level: u8,
}

/// A datagram that was sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The NIC has sent a datagram.
    Sent {
        /// Number that the sender gave it.
        id: u64,
        /// Time, nanoseconds of the port's clock.
        at: u64,
        /// UDP source port; `None` if unknown.
        source_port: Option<u16>,
    },
    /// A datagram has arrived.
    Received(Received),
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Time, nanoseconds of the port's clock.
    pub at: u64,
    /// Sender.
    pub from: Peer,
    /// Number of the own queue pair that received it.
    pub queue_pair: u32,
    /// Traffic class with which it arrived.
    pub traffic_class: u8,
    /// Service level with which it arrived.
    pub service_level: u8,
    /// Payload; bytes from `length` on are zero.
    pub payload: [u8; LONGEST],
    /// Bytes of the payload; more than [`LONGEST`] if it was cut.
    pub length: usize,
}

impl Received {
    /// The payload; `None` if it was longer than [`LONGEST`].
    pub fn bytes(&self) -> Option<&[u8]> {
        self.payload.get(..self.length)
    }
}

/// Reason why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The send queue does not drain: the port is paused or overloaded.
    #[error("the send queue is full")]
    Full,
    /// The next hop's address is being resolved; try again later.
    #[error("the next hop is not resolved yet")]
    Resolving,
    /// The next hop did not resolve; it is tried again after a while.
    #[error("the next hop does not resolve")]
    Unreachable,
    /// The driver refused it.
    #[error("the driver refuses the datagram (error {0})")]
    Refused(i32),
}

/// The port cannot be used any more; open it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PortLost(pub String);

/// Reason why a port cannot send datagrams. `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// libibverbs is missing.
    #[error("libibverbs cannot be loaded: {0}; install rdma-core")]
    NoLibrary(String),
    /// libibverbs does not know the device, or it is gone.
    #[error("libibverbs has no provider for {0}, or the device is gone; install the provider's package")]
    NoDevice(String),
    /// The character device cannot be opened.
    #[error("{} of {device} is missing or access is denied; load ib_uverbs and let the agent read and write the file, \
             or restart the agent if the directory is newer than its sandbox", .file.display())]
    NoDeviceFile {
        /// RDMA device.
        device: String,
        /// Its character device.
        file: PathBuf,
    },
    /// No GID can be used.
    #[error("{0} has no RoCE v2 GID of a routable address; give its network interface an IP address")]
    NoGid(String),
    /// The port has no LID.
    #[error("{0} has no LID; a subnet manager must run")]
    NoLid(String),
    /// The transport has no UD queue pairs (iWARP, EFA without UD).
    #[error("{0} has a transport without unreliable datagrams")]
    NoDatagrams(String),
    /// Memory cannot be locked.
    #[error(
        "{port}: {needed_kib} KiB of memory cannot be locked, the limit is {limit}; raise LimitMEMLOCK= of the service"
    )]
    Memlock {
        /// Port.
        port: String,
        /// Memory that the port needs, KiB.
        needed_kib: usize,
        /// Limit of the process.
        limit: String,
    },
    /// The driver refused a step.
    #[error("{port}: the driver refuses to {step}: {source}")]
    Refused {
        /// Port.
        port: String,
        /// Step.
        step: &'static str,
        /// Its error.
        #[source]
        source: std::io::Error,
    },
}

/// A port that sends and receives datagrams. One thread uses it.
pub trait DatagramPort {
    /// Facts of the port, which do not change while it is open.
    fn facts(&self) -> &PortFacts;

    /// Sends a datagram; `id` comes back in [`Completion::Sent`]. Does not block.
    ///
    /// # Errors
    /// The datagram was not sent.
    fn send(&mut self, route: &Route, bytes: &[u8], id: u64) -> Result<(), SendError>;

    /// Appends completions to `out`; waits up to `wait` for the first one.
    ///
    /// # Errors
    /// The device is removed or has failed: drop the port at once, because a removal may wait for that.
    fn poll(&mut self, wait: Duration, out: &mut Vec<Completion>) -> Result<(), PortLost>;
}

/// UDP source port of all packets of a soft-RoCE queue pair: the kernel's `hash_32` of its number, 14 bits of it.
pub fn rxe_source_port(queue_pair: u32) -> u16 {
    const GOLDEN_RATIO_32: u32 = 0x61C8_8647;
    0xC000 | (queue_pair.wrapping_mul(GOLDEN_RATIO_32) >> 18) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_roce_hashes_the_number_of_the_queue_pair() {
        // The source ports of the packets of queue pairs 17 to 24, as Linux 6.1 sent them (`cargo xtask vm rxe-probes`).
        let seen = [57_236, 63_494, 53_368, 59_626, 49_500, 55_758, 62_017, 51_891];
        assert_eq!((17..25).map(rxe_source_port).collect::<Vec<_>>(), seen);
    }
}
