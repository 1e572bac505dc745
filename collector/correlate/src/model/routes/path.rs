//! The path of a flow: the egress ports that its packets take, and how that is known.

use serde::{Deserialize, Serialize};

/// How a path is known.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "snake_case")]
pub enum PathSource {
    /// Packets with the flow's own addresses and source port were traced.
    Traced,
    /// The switches' forwarding tables name each next port (InfiniBand).
    ForwardingTable,
    /// One of several possible paths, because the source port is unknown or routing is adaptive (RoCE and InfiniBand).
    OneOf,
}

impl PathSource {
    /// Words for explanations.
    pub fn words(self) -> &'static str {
        match self {
            Self::Traced => "traced",
            Self::ForwardingTable => "by the forwarding tables",
            Self::OneOf => "one of several paths",
        }
    }
}

/// Packets from one host port to another that all take the same path: ports by index, and the UDP source port (RoCE), if
/// known. InfiniBand has no source port; its path follows from the two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Sending host port.
    pub from: usize,
    /// Receiving host port.
    pub to: usize,
    /// UDP source port; `None` if unknown, or on InfiniBand.
    pub source_port: Option<u16>,
}

impl Flow {
    /// The flow of the answers, which carry the same source port.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }
}

/// A path. Each egress port stands for its link in that direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Egress ports by index, from the sender's port on. Empty if packets leave the sender nowhere, shorter than to the
    /// receiver if a switch has no route.
    pub hops: Vec<usize>,
    /// How it is known.
    pub source: PathSource,
}
