//! What one source says of the fabric, and the table of the formats in which files say it.

use super::types::{Provenance, Role};
use std::fmt::Display;

/// Cables of one source: no fabric has more.
const CABLES: usize = 1 << 20;
/// Complaints that are kept; the rest are counted.
const COMPLAINTS: usize = 20;

/// One end of a cable, as its source calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CableEnd {
    /// The host or switch; `""` if only a GUID is known.
    pub node: String,
    /// A host's HCA, where the source tells it apart from the port: `mlx5_0`, `HCA-1`.
    pub device: String,
    /// The port; `""` if the source does not say.
    pub port: String,
    /// GUIDs of the node or of the port.
    pub guids: Vec<u64>,
    /// InfiniBand's node description, as it was set.
    pub description: String,
}

/// A cable, as its source tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// Its two ends.
    pub sides: [CableEnd; 2],
    /// Bytes a second in each direction.
    pub rate: Option<f64>,
    /// A rail.
    pub rail: Option<String>,
    /// How the source knows it.
    pub known: Provenance,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologySource {
    /// A file, or who else says it.
    pub source: String,
    /// The name of its format.
    pub format: &'static str,
    /// Nodes that the source names, and what they are: leaf or spine is worked out of the cables later.
    pub nodes: Vec<(String, Role)>,
    /// Cables; the same may be told from both of its ends.
    pub cables: Vec<Cable>,
    /// What was not understood and left out, by line; bounded.
    pub complaints: Vec<String>,
    /// All that was left out.
    pub left_out: usize,
}

impl TopologySource {
    pub(crate) fn new(source: &str, format: &'static str) -> Self {
        let (nodes, cables, complaints) = (Vec::new(), Vec::new(), Vec::new());
        Self { source: source.to_owned(), format, nodes, cables, complaints, left_out: 0 }
    }

    /// Something on a line (from 1) is left out.
    pub(super) fn complain(&mut self, line: usize, what: impl Display) {
        self.complain_at(format_args!("line {line}"), what);
    }

    /// Something is left out.
    pub(super) fn complain_at(&mut self, place: impl Display, what: impl Display) {
        self.left_out += 1;
        if self.complaints.len() < COMPLAINTS {
            self.complaints.push(format!("{}, {place}: {what}", self.source));
        }
    }

    /// Takes a cable, if there is room.
    pub(crate) fn cable(&mut self, line: usize, cable: Cable) {
        if self.cables.len() < CABLES {
            self.cables.push(cable);
        } else {
            self.complain(line, format_args!("more than {CABLES} cables"));
        }
    }
}

/// What a reader says is wrong with a whole file: a line (from 1) and what.
pub(super) type FormatError = (usize, String);
