//! Why forwarding cannot start.

/// Forwarding cannot start; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The queue on disk cannot be opened.
    #[error(
        "forward queue {name:?}: cannot open {dir}: {source}; check its permissions, or move it away to discard waiting samples"
    )]
    Queue {
        /// Queue name.
        name: String,
        /// Queue directory.
        dir: std::path::PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A password, token or CA file cannot be used.
    #[error("forward {name:?}: {source}; give a file that this user can read")]
    File {
        /// Queue name.
        name: String,
        /// File and cause.
        source: fabriclens_core::endpoint::FileError,
    },
    /// Invalid selector, or failure of the system.
    #[error("forward {name:?}: {message}")]
    Other {
        /// Queue name.
        name: String,
        /// Cause.
        message: String,
    },
}
