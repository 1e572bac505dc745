//! The formats of topology files, and which one a file has.

use super::source::{FormatError, TopologySource};
use super::{iblinkinfo, ibnetdiscover, ibports, json, slurm, slurm_yaml, topograph};

/// Why a topology file is rejected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TopologyError {
    /// Its format is unknown.
    #[error("{source_name}, line {line}: unknown topology format; supported formats: {}", formats())]
    Unknown {
        /// File name.
        source_name: String,
        /// First line with content, from 1.
        line: usize,
    },
    /// Its format is known, but it is malformed.
    #[error("{source_name}, line {line}: {what} ({format}); correct the line, or write the file again")]
    Form {
        /// File name.
        source_name: String,
        /// Line, from 1.
        line: usize,
        /// Name of its format.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
    /// It is well formed but has no cable.
    #[error(
        "{source_name}: the file has no cables ({format}){}; was the fabric down when it was written?",
        .first.as_ref().map(|f| format!("; {f}")).unwrap_or_default()
    )]
    Empty {
        /// File name.
        source_name: String,
        /// Name of its format.
        format: &'static str,
        /// The first complaint.
        first: Option<String>,
    },
}

/// A file format.
pub struct Format {
    /// Name for messages.
    pub name: &'static str,
    /// Whether a text looks like this format.
    fits: fn(&str) -> bool,
    /// Adds nodes and cables of a text.
    read: fn(&str, &mut TopologySource) -> Result<(), FormatError>,
}

/// All formats, one file each. The first that fits is used.
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

/// Reads a file and detects its format from its content. `source` names the file in messages.
///
/// # Errors
/// [`TopologyError`] if the file has no cable. Single lines that are not understood are skipped and listed in
/// [`TopologySource::complaints`].
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
    // A file of hosts alone is a valid start; a file of which nothing was understood is not.
    if described.cables.is_empty() && (described.nodes.is_empty() || described.left_out > 0) {
        let first = described.complaints.into_iter().next();
        return Err(TopologyError::Empty { source_name, format: format.name, first });
    }
    Ok(described)
}
