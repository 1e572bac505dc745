//! Failures that end a recording.

use std::path::PathBuf;

/// Failure of a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The directory is not empty.
    #[error("{0} is not empty; name a new directory")]
    NotEmpty(PathBuf),
    /// The directory cannot be created, or others could replace its files.
    #[error("directory {path}; name a new one, in a directory of your own")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
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
