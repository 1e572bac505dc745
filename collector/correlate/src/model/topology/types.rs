//! Nodes, link ends and links.

use serde::{Deserialize, Serialize};

/// Role of a node.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A node with NICs or HCAs.
    Host,
    /// A switch with hosts.
    Leaf,
    /// A switch without hosts.
    Spine,
}

/// How a cable is known, from the least to the most trusted.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Traces of agents show that one switch follows another.
    Traced,
    /// Inferred from port names or rails.
    Inferred,
    /// From a scheduler's configuration, which approximates the wiring and names no ports.
    Scheduler,
    /// Inferred from counters: each port receives what the other sends.
    Counters,
    /// From a file.
    #[default]
    File,
    /// From a subnet manager's sweep.
    SubnetManager,
    /// The port hears its neighbor by LLDP.
    Lldp,
}

impl Provenance {
    /// Name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traced => "traced",
            Self::Inferred => "inferred",
            Self::Scheduler => "scheduler",
            Self::Counters => "counters",
            Self::File => "file",
            Self::SubnetManager => "subnet_manager",
            Self::Lldp => "lldp",
        }
    }
}

/// A host or a switch.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name as in series (label `host`) and incidents.
    pub name: String,
    /// Role in the fabric.
    pub role: Role,
}

impl Node {
    /// Whether the node was removed and its index is free.
    pub(crate) fn is_gone(&self) -> bool {
        self.name.is_empty()
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEnd {
    /// Index of the node.
    pub node: usize,
    /// Port name as in series: `device/port` of a host, the label `port` of a switch. `?PEER` if unknown.
    pub port: String,
}

impl LinkEnd {
    /// Whether the port of the node is unknown.
    pub fn is_unknown(&self) -> bool {
        self.port.starts_with(UNKNOWN)
    }
}

/// The switch that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressOwner {
    /// Index of the node.
    pub node: usize,
    /// Port, if it is the address of that port's interface; `None` for a loopback or management address.
    pub port: Option<String>,
}

/// First character of made-up names of unknown ports; no real port name starts with it.
pub(super) const UNKNOWN: char = '?';

/// A cable.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its two ends.
    pub ends: [LinkEnd; 2],
    /// Nominal bytes per second in each direction; `None` if unknown.
    pub rate: Option<f64>,
    /// The most trusted source that names it.
    pub known: Provenance,
    /// Its rail, if known.
    pub rail: Option<String>,
}

impl Link {
    /// A link from a file.
    pub fn new(ends: [LinkEnd; 2], rate: Option<f64>) -> Self {
        Self { ends, rate, known: Provenance::File, rail: None }
    }
}

/// Bytes per second of one gigabit per second.
pub(super) const GBPS: f64 = 1.25e8;
