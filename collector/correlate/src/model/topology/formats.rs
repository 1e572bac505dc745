//! The formats of topology files, and which one a file has.

use super::source::{FormatError, TopologySource};
use super::{iblinkinfo, ibnetdiscover, ibports, json, slurm, slurm_yaml, topograph};

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

/// How a file may be written.
pub struct Format {
    /// As people call it.
    pub name: &'static str,
    /// Whether this is it.
    fits: fn(&str) -> bool,
    /// Adds what it says.
    read: fn(&str, &mut TopologySource) -> Result<(), FormatError>,
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
