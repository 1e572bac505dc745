//! Reads one file of a recording. Accepts only regular files up to a size limit. Called by every format in [`super`].

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::CallError;

/// Size limit of a file. The largest known recording has less than 1 MiB per file.
pub const MAX_BYTES: u64 = 4 << 20;

/// Text of `root/relative`.
///
/// # Errors
/// `Unsupported` if the file does not exist, `Failed` if it is not regular, too large, not UTF-8 or unreadable.
pub fn text(root: &Path, relative: &Path) -> Result<String, CallError> {
    let path = root.join(relative);
    read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            CallError::Unsupported { what: path.display().to_string(), why: "the recording has no such file".into() }
        }
        io::ErrorKind::PermissionDenied => {
            CallError::Denied { what: path.display().to_string(), remedy: "make the recording readable for this user" }
        }
        _ => failed(&path, source),
    })
}

fn read(path: &Path) -> io::Result<String> {
    // Without O_NONBLOCK the open of a FIFO blocks until there is a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

fn failed(path: &Path, source: io::Error) -> CallError {
    CallError::Failed { what: format!("read {}", path.display()), source }
}

/// `Failed` with file and line, for malformed text.
pub fn malformed(root: &Path, relative: &Path, line: usize, why: impl Into<String>) -> CallError {
    let path: PathBuf = root.join(relative);
    CallError::Failed {
        what: format!("parse {} line {line}", path.display()),
        source: io::Error::new(io::ErrorKind::InvalidData, why.into()),
    }
}

/// [`malformed`] for a JSON error, with its line.
pub fn bad_json(root: &Path, relative: &Path, error: &serde_json::Error) -> CallError {
    malformed(root, relative, error.line(), error.to_string())
}
