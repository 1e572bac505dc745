//! What one source states about the topology.

use super::types::{Provenance, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::IpAddr;

/// Cables per source; no fabric has more.
const CABLES: usize = 1 << 20;
/// Complaints that are kept; the rest is only counted.
const COMPLAINTS: usize = 20;

/// One end of a cable, in the words of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CableEnd {
    /// Host or switch; `""` if only a GUID is known.
    pub node: String,
    /// HCA of a host, if the source separates it from the port: `mlx5_0`, `HCA-1`.
    pub device: String,
    /// Port; `""` if unknown.
    pub port: String,
    /// GUIDs of the node or the port.
    pub guids: Vec<u64>,
    /// InfiniBand node description.
    pub description: String,
}

/// A cable, as its source states it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// Its two ends.
    pub sides: [CableEnd; 2],
    /// Bytes per second in each direction.
    pub rate: Option<f64>,
    /// Rail name.
    pub rail: Option<String>,
    /// How the source knows it.
    pub known: Provenance,
}

/// Nodes and cables of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologySource {
    /// File name, or a description of the source.
    pub source: String,
    /// Name of its format.
    pub format: &'static str,
    /// Nodes and their roles. `merge` decides between leaf and spine.
    pub nodes: Vec<(String, Role)>,
    /// Cables; one cable may be listed from both ends.
    pub cables: Vec<Cable>,
    /// Addresses of switches: address, switch, and its port if it is that of an interface (`""` otherwise).
    pub addresses: Vec<(IpAddr, String, String)>,
    /// Lines that were not understood and skipped; at most `COMPLAINTS`.
    pub complaints: Vec<String>,
    /// Number of all skipped lines.
    pub left_out: usize,
}

impl TopologySource {
    /// A source that states nothing yet.
    pub fn new(source: &str, format: &'static str) -> Self {
        let (nodes, cables, complaints) = (Vec::new(), Vec::new(), Vec::new());
        Self { source: source.to_owned(), format, nodes, cables, addresses: Vec::new(), complaints, left_out: 0 }
    }

    /// Skips something on a line, from 1.
    pub(super) fn complain(&mut self, line: usize, what: impl Display) {
        self.complain_at(format_args!("line {line}"), what);
    }

    /// Skips something at a place that has no line number.
    pub(super) fn complain_at(&mut self, place: impl Display, what: impl Display) {
        self.left_out += 1;
        if self.complaints.len() < COMPLAINTS {
            self.complaints.push(format!("{}, {place}: {what}", self.source));
        }
    }

    /// Adds a cable, up to `CABLES`.
    pub fn cable(&mut self, line: usize, cable: Cable) {
        if self.cables.len() < CABLES {
            self.cables.push(cable);
        } else {
            self.complain(line, format_args!("more than {CABLES} cables"));
        }
    }
}

/// Why a whole file cannot be read: line, from 1, and what is wrong.
pub(super) type FormatError = (usize, String);

/// Addresses of switches, as [`TopologySource::addresses`], from what switches announce: pairs of address and name. An address that
/// two names announce is that of neither: a default of the vendor, or one in several networks.
pub(super) fn announced_addresses<'a>(
    announced: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(IpAddr, String, String)> {
    let mut names: BTreeMap<IpAddr, BTreeSet<&str>> = BTreeMap::new();
    for (address, name) in announced {
        if let Ok(address) = address.parse::<IpAddr>() {
            names.entry(address.to_canonical()).or_default().insert(name);
        }
    }
    let sole = names.into_iter().filter(|(_, names)| names.len() == 1);
    sole.flat_map(|(ip, names)| names.into_iter().map(move |name| (ip, name.to_owned(), String::new()))).collect()
}
