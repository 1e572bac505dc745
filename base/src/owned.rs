//! Opens a program's own files without following links: by a link, a user who can write into their directory would make the
//! program, often root, write over other files.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Write permission for everybody.
const OTHERS_WRITE: u32 = 0o002;

/// Checks that this process's user or root owns a directory, and that not every user can write into it.
///
/// # Errors
/// With the command that mends it, if another user owns it or every user can write into it.
pub fn check_dir(dir: &Path) -> io::Result<()> {
    let meta = std::fs::metadata(dir)?;
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let (owner, own) = (meta.uid(), rustix::process::geteuid().as_raw());
    if !meta.is_dir() {
        return refuse("is not a directory".to_owned());
    }
    if owner != own && owner != 0 {
        return refuse(format!(
            "belongs to user {owner}, who could replace its files; run: chown {own} {}",
            dir.display()
        ));
    }
    check_mode(dir)
}

/// Checks that not every user can write into a directory.
///
/// # Errors
/// With the command that mends it, if they can.
pub fn check_mode(dir: &Path) -> io::Result<()> {
    if std::fs::metadata(dir)?.mode() & OTHERS_WRITE != 0 {
        let why = format!("every user can write into it; run: chmod o-w {}", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Options that follow no link at the end of a path.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Opens a file to read.
///
/// # Errors
/// If it is a link, or not a regular file.
pub fn read(path: &Path) -> io::Result<File> {
    regular(options().read(true).open(path)?)
}

/// Opens an existing file to read and write.
///
/// # Errors
/// If it is a link, or not a regular file.
pub fn update(path: &Path) -> io::Result<File> {
    regular(options().read(true).write(true).open(path)?)
}

/// Opens a file to read and write, and creates it if it does not exist. Another name of the file, outside of the directory,
/// is an error, too.
///
/// # Errors
/// If it is a link, not a regular file, or has another name.
pub fn read_and_write(path: &Path) -> io::Result<File> {
    let file = regular(options().read(true).write(true).create(true).truncate(false).open(path)?)?;
    if file.metadata()?.nlink() > 1 {
        let why = format!("{} has another name (hard link); remove it", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}
