//! What happens to a damaged file of the database: it is reported and gets another name.

use super::file::FileError;
use crate::error::OpenError;
use crate::wal::replay::Damage;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reports damage of the database.
pub fn report(damage: &mut Vec<Damage>, path: PathBuf, message: String) {
    tracing::error!(path = %path.display(), message, "the metadata database is damaged; samples are not affected");
    damage.push(Damage { path, offset: 0, bytes: 0, message });
}

/// A free name beside a file or directory, with a reason and the time, Unix seconds.
pub fn aside(path: &Path, reason: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (0..).map(|n| path.with_file_name(format!("{name}.{reason}-{}", now + n)));
    names.into_iter().find(|to| !to.exists()).unwrap_or_else(|| path.with_extension(reason))
}

/// Maps an error of a file to one with its remedy.
pub fn open_error(root: &Path, path: &Path, e: FileError) -> OpenError {
    use std::io::ErrorKind as K;
    match e {
        FileError::Io(e) if matches!(e.kind(), K::StorageFull | K::QuotaExceeded) => {
            OpenError::io("write", root, path, e)
        }
        e => OpenError::Metadata { path: path.into(), message: e.to_string() },
    }
}
