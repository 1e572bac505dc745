//! Which node is cabled to which. Files in several formats describe it ([`FORMATS`]), and so do agents, which see the neighbor
//! at the other end of a cable ([`from_agents`]). [`merge`] makes one topology of all sources and lists where they contradict
//! each other.

mod agents;
mod contradiction;
mod formats;
mod ib;
mod iblinkinfo;
mod ibnetdiscover;
mod ibports;
mod json;
mod merge;
mod names;
mod slurm;
mod slurm_yaml;
mod source;
mod switches;
mod topograph;
mod types;
mod wiring;

pub use agents::{PortInfo, from_agents, port_name};
pub use contradiction::{Claim, Contradiction};
pub use formats::{FORMATS, Format, TopologyError, parse};
pub(crate) use json::Id;
pub use merge::merge;
pub use names::HostNames;
pub use source::{Cable, CableEnd, TopologySource};
pub use switches::{SwitchNeighbor, from_switches};
pub use types::{AddressOwner, Link, LinkEnd, Node, Provenance, Role};
pub use wiring::Topology;
