//! What one source says of the fabric, and the table of the formats in which files say it.

use super::{Provenance, Role};
use super::{iblinkinfo, ibnetdiscover, ibports, json, slurm, slurm_yaml, topograph};
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

/// Why a file does not tell a topology.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TopologyError {
    /// In none of the formats.
    #[error("{source_name}, line {line}: no topology in a format that is known; give one of: {}", formats())]
    Unknown {
        /// The file.
        source_name: String,
        /// The first line that says something.
        line: usize,
    },
    /// Its format is known, but it is not well formed.
    #[error("{source_name}, line {line}: {what} ({format}); write it anew, or correct the line")]
    Form {
        /// The file.
        source_name: String,
        /// From 1.
        line: usize,
        /// Which format it has.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// It is well formed and has no cable.
    #[error(
        "{source_name}: no cable in it ({format}){}; was the fabric down when it was made?",
        .first.as_ref().map(|f| format!("; {f}")).unwrap_or_default()
    )]
    Empty {
        /// The file.
        source_name: String,
        /// Which format it has.
        format: &'static str,
        /// The first thing that was left out.
        first: Option<String>,
    },
}

/// What a reader says is wrong with a whole file: a line (from 1) and what.
pub(super) type Wrong = (usize, String);

/// How a file may be written.
pub struct Format {
    /// As people call it.
    pub name: &'static str,
    /// Whether this is it.
    fits: fn(&str) -> bool,
    /// Adds what it says.
    read: fn(&str, &mut TopologySource) -> Result<(), Wrong>,
}

/// All formats, a file each; the first that fits is taken.
pub const FORMATS: [Format; 8] = [
    Format { name: "JSON of hosts, switches and links", fits: json::fits, read: json::read },
    Format { name: "topograph's graph (JSON)", fits: topograph::fits, read: topograph::read },
    Format { name: "ibnetdiscover", fits: ibnetdiscover::fits, read: ibnetdiscover::read },
    Format { name: "ibnetdiscover -p", fits: ibports::fits, read: ibports::read },
    Format { name: "iblinkinfo", fits: iblinkinfo::fits, read: iblinkinfo::read },
    Format { name: "iblinkinfo --line", fits: iblinkinfo::fits_lines, read: iblinkinfo::read_lines },
    Format { name: "Slurm topology.conf", fits: slurm::fits, read: slurm::read },
    Format { name: "Slurm topology.yaml", fits: slurm_yaml::fits, read: slurm_yaml::read },
];

fn formats() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// Reads a file, whatever its format: that is told by what is in it. `source` names it.
///
/// # Errors
/// [`TopologyError`] when it tells no cable at all. Lines that are not understood beside others that are, are left out
/// and told in [`TopologySource::complaints`].
pub fn parse(source: &str, text: &str) -> Result<TopologySource, TopologyError> {
    let source_name = source.to_owned();
    let Some(format) = FORMATS.iter().find(|f| (f.fits)(text)) else {
        let line = text.lines().position(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#')).unwrap_or(0) + 1;
        return Err(TopologyError::Unknown { source_name, line });
    };
    let mut described = TopologySource::new(source, format.name);
    if let Err((line, what)) = (format.read)(text, &mut described) {
        return Err(TopologyError::Form { source_name, line, format: format.name, what });
    }
    // A file of hosts alone is a beginning; one of which nothing was understood is not.
    if described.cables.is_empty() && (described.nodes.is_empty() || described.left_out > 0) {
        let first = described.complaints.into_iter().next();
        return Err(TopologyError::Empty { source_name, format: format.name, first });
    }
    Ok(described)
}
