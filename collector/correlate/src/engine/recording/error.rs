//! Why a recording cannot be read.

use crate::model::topology::TopologyError;

/// Why a recording is not taken; names the file and what is wrong.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not JSON of the expected form.
    #[error("{path} is not understood: {error}")]
    Json {
        /// Which file.
        path: String,
        /// Why.
        error: serde_json::Error,
    },
    /// Its topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A row of the table.
    #[error("{path}, line {line}: {what}")]
    Row {
        /// Which file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}
