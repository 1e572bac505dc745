//! Log lines of NCCL and RCCL (both begin with `NCCL`), and of PyTorch's watchdog: which transport and interfaces a job chose, slow and
//! failed work requests with their queue pairs, time-outs and aborts.
//!
//! The kinds of lines are rows of [`PATTERNS`]. NCCL tells a failed work request in two lines: the queue pair, and then the peer and
//! the status; [`Reader`] joins them.

mod file;
mod patterns;
mod reader;

pub use file::FollowedLog;
pub use patterns::{PATTERNS, Pattern};
pub use reader::{Origin, Reader};

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// NCCL uses this network for a communicator: `IB`, `Socket`, or a plugin's name.
    Network,
    /// RDMA devices and ports that NCCL uses.
    Devices,
    /// NCCL found no RDMA device: the job runs over TCP, unless a plugin brings a network of its own.
    NoDevice,
    /// Interfaces that NCCL uses for TCP.
    SocketInterfaces,
    /// Transport of a channel between two ranks.
    Channel,
    /// A work request took longer than the threshold (`NCCL_IB_WQE_LATENCY_REPORT`).
    SlowWorkRequest,
    /// A work request failed.
    FailedWorkRequest,
    /// A communicator was aborted.
    Abort,
    /// A collective did not end in time, as PyTorch's watchdog says.
    Timeout,
    /// A rank's RAS service has no port, because another process of the host has it.
    RasPortTaken,
}

impl EventKind {
    /// Value of the label `kind`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Devices => "devices",
            Self::NoDevice => "no_device",
            Self::SocketInterfaces => "socket_interfaces",
            Self::Channel => "channel",
            Self::SlowWorkRequest => "slow_work_request",
            Self::FailedWorkRequest => "failed_work_request",
            Self::Abort => "abort",
            Self::Timeout => "timeout",
            Self::RasPortTaken => "ras_port_taken",
        }
    }
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// Host and process that wrote it, where the line has them.
    pub origin: Option<Origin>,
    /// Fields of the row, by name; those that the line lacks are absent.
    pub fields: Vec<(&'static str, String)>,
}

impl Event {
    /// Text of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// Number in a field.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}
