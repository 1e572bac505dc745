//! Why a recording cannot be read.

use crate::model::topology::TopologyError;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// File.
        path: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// A file is not JSON of the expected form.
    #[error("cannot parse {path}: {error}")]
    Json {
        /// File.
        path: String,
        /// Parser error.
        error: serde_json::Error,
    },
    /// The topology is invalid.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A row of the table is invalid.
    #[error("{path}, line {line}: {what}")]
    Row {
        /// File.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The rows are neither in order of time, nor those of each port.
    #[error(
        "ports.csv.gz: a port's sample of {time_ms} ms follows a later one; sort the rows by time, or by port and time"
    )]
    Order {
        /// Time of the sample, Unix ms.
        time_ms: i64,
    },
    /// The temporary file for rows that are sorted by port cannot be written or read.
    #[error("cannot use a temporary file (TMPDIR names its directory); rows in order of time need none: {0}")]
    Wait(std::io::Error),
}
