//! The data directory: layout, marker file and exclusive lock.
//!
//! ```text
//! FABRICLENS   marker: "fabriclens store\nversion 1\n"
//! LOCK         locked with flock while open; holds the process id
//! wal/         GENERATION-SEGMENT.wal
//! blocks/      ID.blk
//! rollups/     ID.blk
//! meta.redb    metric metadata, jobs, incidents, topology
//! meta.copy.redb   its copy
//! ```

use crate::error::OpenError;
use crate::io::{Files, read_all, write_whole};
use crate::wal::replay::Damage;
use fabriclens_base::owned;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Name of the file that marks a directory as a store.
pub const MARKER: &str = "FABRICLENS";
/// Version of the directory layout.
const VERSION: u32 = 1;
const LOCK: &str = "LOCK";

/// A locked data directory; dropping it releases the lock.
pub struct DataDir {
    /// The directory itself.
    pub root: PathBuf,
    /// Log segments.
    pub wal: PathBuf,
    /// Block files.
    pub blocks: PathBuf,
    /// Block files of rollups.
    pub rollups: PathBuf,
    lock: File,
}

impl Drop for DataDir {
    /// Unlocks explicitly instead of relying on closing the file: a child process that is being started holds a copy
    /// of each descriptor until it executes its program, and a lock lasts as long as any copy.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.lock, FlockOperation::Unlock) {
            tracing::warn!(dir = %self.root.display(), %error, "cannot release the lock of the data directory");
        }
    }
}

impl DataDir {
    /// Creates or checks the directory and locks it. An unreadable marker next to existing data is moved aside and
    /// reported: it holds nothing but itself.
    pub fn open(files: &dyn Files, root: &Path, damage: &mut Vec<Damage>) -> Result<Self, OpenError> {
        let fail = |what, path: &Path, e| OpenError::io(what, root, path, e);
        files.create_dir(root).and_then(|()| check_owner(root)).map_err(|e| fail("use", root, e))?;
        let marker = root.join(MARKER);
        match read_all(files, &marker) {
            Ok(bytes) => match check_version(&marker, &bytes) {
                Err(OpenError::Foreign { .. }) if ["wal", "blocks"].iter().all(|d| root.join(d).is_dir()) => {
                    let aside = root.join(format!("{MARKER}.damaged"));
                    tracing::error!(path = %marker.display(), "damaged marker of the data directory is moved aside and rewritten");
                    files.rename(&marker, &aside).map_err(|e| fail("move aside", &marker, e))?;
                    let message = "not a valid data directory marker".to_owned();
                    damage.push(Damage { path: aside, offset: 0, bytes: bytes.len() as u64, message });
                }
                checked => checked?,
            },
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let mut entries = std::fs::read_dir(root).map_err(|e| fail("list", root, e))?;
                let ours = |name: &str| name == LOCK || name.starts_with(MARKER);
                if entries.any(|e| e.is_ok_and(|e| !e.file_name().to_str().is_some_and(ours))) {
                    return Err(OpenError::Foreign { dir: root.into() });
                }
            }
            Err(e) => return Err(fail("read", &marker, e)),
        }
        let lock = lock(root)?;
        if !marker.exists() {
            let text = format!("fabriclens store\nversion {VERSION}\n");
            write_whole(files, &marker, text.as_bytes()).map_err(|e| fail("write", &marker, e))?;
        }
        let [wal, blocks, rollups] = ["wal", "blocks", "rollups"].map(|sub| root.join(sub));
        let dir = Self { root: root.into(), wal, blocks, rollups, lock };
        for sub in [&dir.wal, &dir.blocks, &dir.rollups] {
            files.create_dir(sub).and_then(|()| check_owner(sub)).map_err(|e| fail("use", sub, e))?;
        }
        files.sync_dir(root).map_err(|e| fail("sync", root, e))?;
        Ok(dir)
    }
}

fn check_version(marker: &Path, bytes: &[u8]) -> Result<(), OpenError> {
    let text = String::from_utf8_lossy(bytes);
    let found = text.strip_prefix("fabriclens store\nversion ").and_then(|v| v.trim_end().parse().ok());
    match found {
        Some(found) if found > VERSION => Err(OpenError::Newer { path: marker.into(), found, known: VERSION }),
        Some(_) => Ok(()),
        None => Err(OpenError::Foreign { dir: marker.parent().unwrap_or(marker).into() }),
    }
}

/// Refuses as root a directory that another user controls: links in it would make root write over other files. Other users
/// can harm only their own files, and volumes of containers often belong to all, so they get a warning.
fn check_owner(dir: &Path) -> std::io::Result<()> {
    match owned::check_dir(dir) {
        Err(error) if !rustix::process::geteuid().is_root() => {
            tracing::warn!(dir = %dir.display(), %error, "others control the data directory");
            Ok(())
        }
        // Not an error of permissions: writing would succeed.
        checked => checked.map_err(std::io::Error::other),
    }
}

fn lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join(LOCK);
    let fail = |what, e| OpenError::io(what, root, &path, e);
    let mut file = owned::read_and_write(&path).map_err(|e| fail("open", e))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let read = file.read_to_string(&mut pid);
            let known = read.is_ok() && !pid.trim().is_empty();
            return Err(OpenError::Locked {
                dir: root.into(),
                pid: if known { pid.trim().into() } else { "?".into() },
            });
        }
        Err(e) => return Err(fail("lock", e.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| write!(file, "{}", std::process::id()))
        .map_err(|e| fail("write", e))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::OsFiles;

    #[test]
    fn drop_unlocks_despite_copied_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let open = || DataDir::open(&OsFiles, dir.path(), &mut Vec::new());
        let first = open().unwrap();
        assert!(matches!(open(), Err(OpenError::Locked { .. })));
        // As held by a process that was forked and has not executed its program yet.
        let copy = first.lock.try_clone().unwrap();
        drop(first);
        let second = open().unwrap();
        drop(copy);
        assert!(matches!(open(), Err(OpenError::Locked { .. })), "the copy does not unlock the next holder");
        drop(second);
    }

    #[test]
    fn links_are_not_followed_and_roots_directory_is_not_everyones() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (data, victim) = (dir.path().join("data"), dir.path().join("victim"));
        let open = || DataDir::open(&OsFiles, &data, &mut Vec::new()).map(drop);
        open().unwrap();
        std::fs::write(&victim, "precious").unwrap();
        for name in [LOCK, MARKER] {
            std::fs::rename(data.join(name), data.join("aside")).unwrap();
            symlink(&victim, data.join(name)).unwrap();
            assert!(open().is_err(), "{name} is a link");
            std::fs::rename(data.join("aside"), data.join(name)).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
        match open() {
            Ok(()) => assert!(!rustix::process::geteuid().is_root()),
            Err(error) => assert!(format!("{error:#?}").contains("run: chmod o-w"), "{error:#?}"),
        }
    }
}
