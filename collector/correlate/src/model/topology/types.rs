//! Nodes, link ends and links.

use serde::{Deserialize, Serialize};

/// What a node is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has NICs or HCAs.
    Host,
    /// A switch that hosts are wired to.
    Leaf,
    /// A switch between switches.
    Spine,
}

/// How a cable is known, from what is trusted least to what is trusted most.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Nobody says it; it fits what ports are called.
    Inferred,
    /// A scheduler places jobs by it: near enough for that, and it knows no ports.
    Scheduler,
    /// Counters of two ports move together: what one sends, the other receives.
    Counters,
    /// Somebody wrote it down.
    #[default]
    File,
    /// A subnet manager walked it.
    SubnetManager,
    /// The port hears it from the other end of its cable, now.
    Lldp,
}

impl Provenance {
    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
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
    /// As series have it (label `host`) and incidents name it.
    pub name: String,
    /// What it is.
    pub role: Role,
}

impl Node {
    /// Only its number is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.name.is_empty()
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEnd {
    /// Index of the node.
    pub node: usize,
    /// As series have it: `device/port` of a host, the label `port` of a switch. `?PEER` where nobody says which.
    pub port: String,
}

impl LinkEnd {
    /// Nobody says which port of the node it is.
    pub fn is_unknown(&self) -> bool {
        self.port.starts_with(UNKNOWN)
    }
}

/// Begins the names of ports that nobody names: no counter has such a one.
pub(super) const UNKNOWN: char = '?';

/// A cable.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its two ends.
    pub ends: [LinkEnd; 2],
    /// Bytes a second in each direction, as it should be; `None` if nobody says.
    pub rate: Option<f64>,
    /// By whom it is known; the most trusted of those who say it.
    pub known: Provenance,
    /// The rail that it belongs to, if somebody says.
    pub rail: Option<String>,
}

impl Link {
    /// One that is written down somewhere.
    pub fn new(ends: [LinkEnd; 2], rate: Option<f64>) -> Self {
        Self { ends, rate, known: Provenance::File, rail: None }
    }
}

/// Bytes per second of one gigabit per second.
pub(super) const GBPS: f64 = 1.25e8;
