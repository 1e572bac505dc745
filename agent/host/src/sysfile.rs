//! Reads small kernel files without the risk of blocking or flooding the agent.
//!
//! Files are opened without blocking and only if regular (a FIFO or directory in a recorded tree is an error), kept
//! open and read with `pread`, up to a size limit. Used by discovery and by the samplers of sysfs and procfs.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of opens that failed because this process ran out of descriptors.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

/// Size limit of [`text`], bytes.
pub const TEXT_LIMIT: usize = 64 * 1024;
/// Size limit of a counter file: 20 digits, a prefix, a newline, and room to detect other content.
const NUMBER_LIMIT: usize = 64;

/// Reason why a file gave no value.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not exist, or the driver reports that it has no such value.
    #[error("{path}: not offered ({why})")]
    Absent {
        /// The file.
        path: PathBuf,
        /// Error or content found instead.
        why: String,
    },
    /// A privilege is missing.
    #[error("{path}: permission denied; run the agent as root or make the file readable")]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// The device was removed while the file was open.
    #[error("{path}: device is gone")]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The content is not a value.
    #[error("{path}: {why}")]
    Bad {
        /// The file.
        path: PathBuf,
        /// Description of the content.
        why: String,
    },
    /// Out of file descriptors or memory; the state of the file is unknown.
    #[error("reading {path}")]
    Shortage {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Another input/output error.
    #[error("reading {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// Whether this process or machine ran out of descriptors or memory, which says nothing about the file; counted.
pub fn is_shortage(error: &std::io::Error) -> bool {
    let short = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    SHORTAGES.fetch_add(u64::from(short), Ordering::Relaxed);
    short
}

/// Number of shortages so far. If it grew, missing files may exist.
pub fn shortages() -> u64 {
    SHORTAGES.load(Ordering::Relaxed)
}

impl FileError {
    /// True if there is no value to read, as opposed to a failure.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// Classifies an error of the kernel.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_path_buf();
        if is_shortage(&source) {
            return Self::Shortage { path, source };
        }
        match (source.kind(), source.raw_os_error()) {
            (ErrorKind::NotFound, _) => Self::Absent { path, why: "no such file".into() },
            (ErrorKind::PermissionDenied, _) => Self::Denied { path },
            (_, Some(libc::ENODEV | libc::ENXIO | libc::ESTALE)) => Self::Gone { path },
            (_, Some(libc::EOPNOTSUPP | libc::EINVAL)) => {
                Self::Absent { path, why: format!("the driver refuses: {source}") }
            }
            _ => Self::Io { path, source },
        }
    }
}

/// A file that is kept open and read repeatedly.
#[derive(Debug)]
pub struct CachedFile {
    path: PathBuf,
    file: Option<File>,
}

impl CachedFile {
    /// Does not open the file before the first read.
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file; the next read opens it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Content from the start, at most `buf.len()` bytes.
    ///
    /// # Errors
    /// [`FileError`]; after `Gone` the next read opens the path again.
    pub fn read<'b>(&mut self, buf: &'b mut [u8]) -> Result<&'b [u8], FileError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.path)?),
        };
        match read_full(file, buf) {
            Ok(n) => Ok(&buf[..n]),
            Err(error) => {
                self.file = None;
                Err(FileError::io(&self.path, error))
            }
        }
    }

    /// Content as one decimal number.
    ///
    /// # Errors
    /// [`FileError`]: `Absent` for empty files and `N/A …`, `Bad` for any other text that is not a number.
    pub fn number(&mut self) -> Result<u64, FileError> {
        self.parse(number)
    }

    /// The content as one number, hexadecimal after `0x`, else decimal.
    ///
    /// # Errors
    /// As for [`Self::number`].
    pub fn prefixed_number(&mut self) -> Result<u64, FileError> {
        self.parse(prefixed_number)
    }

    /// A number from the content, of which `parse` gets the first [`NUMBER_LIMIT`] bytes.
    ///
    /// # Errors
    /// As for [`Self::number`].
    pub(crate) fn parse(&mut self, parse: fn(&[u8]) -> Result<u64, NotNumber>) -> Result<u64, FileError> {
        let mut buf = [0; NUMBER_LIMIT];
        // Split borrow: the error needs the path after the buffer was filled.
        let n = self.read(&mut buf)?.len();
        parse(&buf[..n]).map_err(|why| match why {
            NotNumber::Absent(why) => FileError::Absent { path: self.path.clone(), why },
            NotNumber::Bad(why) => FileError::Bad { path: self.path.clone(), why },
        })
    }
}

/// Reason why a text is not a number.
#[derive(Debug, PartialEq, Eq)]
pub enum NotNumber {
    /// The text means that there is no value.
    Absent(String),
    /// Any other text.
    Bad(String),
}

/// Parses strict decimal: digits, surrounded by white space.
///
/// # Errors
/// [`NotNumber`].
pub fn number(text: &[u8]) -> Result<u64, NotNumber> {
    let trimmed = text.trim_ascii();
    if trimmed.is_empty() {
        return Err(NotNumber::Absent("empty".into()));
    }
    if text.len() >= NUMBER_LIMIT {
        return Err(NotNumber::Bad(format!("longer than {NUMBER_LIMIT} bytes, not a counter")));
    }
    let mut value: u64 = 0;
    for &byte in trimmed {
        if !byte.is_ascii_digit() {
            let shown = String::from_utf8_lossy(trimmed).into_owned();
            let absent = trimmed.starts_with(b"N/A");
            return Err(if absent {
                NotNumber::Absent(shown)
            } else {
                NotNumber::Bad(format!("not a number: {shown:?}"))
            });
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(byte - b'0')))
            .ok_or_else(|| NotNumber::Bad("larger than 64 bits".into()))?;
    }
    Ok(value)
}

/// Content of a small text file, trimmed.
///
/// # Errors
/// [`FileError`]; `Bad` if longer than [`TEXT_LIMIT`].
pub fn text(path: &Path) -> Result<String, FileError> {
    let file = open(path)?;
    let mut buf = vec![0; 4096];
    let mut len = 0;
    loop {
        let n = read_at(&file, &mut buf[len..], len).map_err(|e| FileError::io(path, e))?;
        len += n;
        if n == 0 {
            break;
        }
        if len == buf.len() {
            if len > TEXT_LIMIT {
                return Err(FileError::Bad {
                    path: path.to_path_buf(),
                    why: format!("longer than {TEXT_LIMIT} bytes"),
                });
            }
            buf.resize(len * 2, 0);
        }
    }
    Ok(String::from_utf8_lossy(buf[..len].trim_ascii()).into_owned())
}

/// [`text`], or `None` on any failure and for empty files.
pub fn maybe(path: &Path) -> Option<String> {
    text(path).ok().filter(|text| !text.is_empty())
}

fn open(path: &Path) -> Result<File, FileError> {
    // Without O_NONBLOCK the open of a FIFO blocks until there is a writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|e| FileError::io(path, e))?;
    let meta = file.metadata().map_err(|e| FileError::io(path, e))?;
    if !meta.is_file() {
        return Err(FileError::Bad { path: path.to_path_buf(), why: "not a regular file".into() });
    }
    Ok(file)
}

/// One `pread`; sysfs returns the whole value at once. A second call is needed only on other file systems, if the
/// buffer is not full.
fn read_full(file: &File, buf: &mut [u8]) -> std::io::Result<usize> {
    read_at(file, buf, 0)
}

fn read_at(file: &File, buf: &mut [u8], offset: usize) -> std::io::Result<usize> {
    loop {
        match file.read_at(buf, offset as u64) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn prefixed_number(text: &[u8]) -> Result<u64, NotNumber> {
    match text.trim_ascii().strip_prefix(b"0x") {
        None => number(text),
        Some(digits) => {
            let digits = String::from_utf8_lossy(digits);
            u64::from_str_radix(&digits, 16).map_err(|why| NotNumber::Bad(format!("0x{digits}: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_tells_hexadecimal() {
        assert_eq!(prefixed_number(b"0x1f\n"), Ok(31));
        assert_eq!(prefixed_number(b"12\n"), Ok(12));
        assert!(matches!(prefixed_number(b""), Err(NotNumber::Absent(_))));
        for bad in ["0x", "0xg", "0x10000000000000000", "1f"] {
            assert!(matches!(prefixed_number(bad.as_bytes()), Err(NotNumber::Bad(_))), "{bad}");
        }
    }

    #[test]
    fn numbers_are_strict() {
        assert_eq!(number(b"18446744073709551615\n"), Ok(u64::MAX));
        assert_eq!(number(b" 42 \n"), Ok(42));
        assert!(matches!(number(b""), Err(NotNumber::Absent(_))));
        assert!(matches!(number(b"N/A (no PMA)\n"), Err(NotNumber::Absent(_))));
        for bad in ["-1", "0x10", "4 5", "1.5", "18446744073709551616", "abc"] {
            assert!(matches!(number(bad.as_bytes()), Err(NotNumber::Bad(_))), "{bad}");
        }
        assert!(matches!(number(&[b'1'; 64]), Err(NotNumber::Bad(_))));
    }

    #[test]
    fn fifos_directories_and_huge_files_are_errors_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0)
            .unwrap();
        assert!(matches!(CachedFile::new(fifo.clone()).number(), Err(FileError::Bad { .. })));
        assert!(matches!(text(&fifo), Err(FileError::Bad { .. })));
        assert!(CachedFile::new(dir.path().to_path_buf()).number().is_err());
        let huge = dir.path().join("huge");
        std::fs::write(&huge, vec![b'7'; 1 << 20]).unwrap();
        assert!(matches!(CachedFile::new(huge.clone()).number(), Err(FileError::Bad { .. })));
        assert!(matches!(text(&huge), Err(FileError::Bad { .. })));
        assert!(CachedFile::new(dir.path().join("none")).number().is_err_and(|e| e.is_absent()));
    }

    #[test]
    fn kernel_errors_are_classified() {
        let of = |errno| FileError::io(Path::new("counters/x"), std::io::Error::from_raw_os_error(errno));
        assert!(matches!(of(libc::EACCES), FileError::Denied { .. }));
        assert!(of(libc::EACCES).to_string().contains("run the agent as root"), "the remedy");
        for gone in [libc::ENODEV, libc::ENXIO, libc::ESTALE] {
            assert!(matches!(of(gone), FileError::Gone { .. }), "{gone}");
        }
        for absent in [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOENT] {
            assert!(of(absent).is_absent(), "{absent}: no such counter here");
        }
        assert!(matches!(of(libc::EIO), FileError::Io { .. }));
        // Can be opened; the read fails.
        assert!(matches!(CachedFile::new("/proc/self/mem".into()).number(), Err(FileError::Io { .. })));
    }

    #[test]
    fn open_file_sees_later_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        std::fs::write(&path, "1\n").unwrap();
        let mut held = CachedFile::new(path.clone());
        assert_eq!(held.number().unwrap(), 1);
        std::fs::write(&path, "2\n").unwrap();
        assert_eq!(held.number().unwrap(), 2);
    }
}
