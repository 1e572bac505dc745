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
}
