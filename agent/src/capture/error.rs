//! Failures that end a recording.

use std::path::PathBuf;

/// Failure of a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The directory is not empty.
    #[error("{0} is not empty; name a new directory")]
    NotEmpty(PathBuf),
    /// A file cannot be written.
    #[error("writing {path}; check permissions and free space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The recording would be too large.
    #[error("the recording exceeds {limit}; leave devices out with sampling.exclude_devices")]
    TooLarge {
        /// Exceeded limit, for people.
        limit: &'static str,
    },
}
