//! A file system that fails on demand: full disk, failing fsync, short writes. For tests of this crate and others.

use super::{Files, Input, OsFiles, Output};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Faults to inject; the default is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Bytes that still fit; the write that exceeds it is cut short and fails with ENOSPC.
    pub space: Option<u64>,
    /// fsync fails with EIO, and half of the bytes written since the last successful one are lost.
    pub sync_fails: bool,
    /// The file system is mounted read-only.
    pub read_only: bool,
    /// Reads fail with EIO.
    pub read_fails: bool,
    /// Successful operations until everything fails with EIO, like an unplugged disk.
    pub dies_after: Option<u64>,
}

/// The real file system with injected [`Faults`].
#[derive(Clone, Default)]
pub struct FaultyFiles {
    faults: Arc<Mutex<Faults>>,
}

impl FaultyFiles {
    /// Replaces the injected faults.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    /// Called before each change of the file system.
    fn step(&self) -> io::Result<()> {
        let mut faults = self.faults.lock();
        if faults.read_only {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::ROFS.raw_os_error()));
        }
        match &mut faults.dies_after {
            Some(0) => Err(eio()),
            Some(n) => {
                *n -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

fn enospc() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error())
}

impl Files for FaultyFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        self.step()?;
        OsFiles.create_dir(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        self.step()?;
        if self.faults.lock().space == Some(0) {
            return Err(enospc());
        }
        let inner = OsFiles.create(path)?;
        Ok(Box::new(FaultyOutput { inner, unsynced: Vec::new(), files: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>> {
        let inner = OsFiles.open(path)?;
        Ok(Box::new(FaultyInput { inner, files: self.clone() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        OsFiles.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        OsFiles.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        OsFiles.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        OsFiles.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        if self.faults.lock().sync_fails {
            return Err(eio());
        }
        OsFiles.sync_dir(dir)
    }
}

/// Holds bytes back until fsync, so that a failed fsync loses them as a real kernel may.
struct FaultyOutput {
    inner: Box<dyn Output>,
    unsynced: Vec<u8>,
    files: FaultyFiles,
}

impl Output for FaultyOutput {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.files.step()?;
        let mut faults = self.files.faults.lock();
        if let Some(space) = &mut faults.space {
            let fits = (bytes.len() as u64).min(*space);
            *space -= fits;
            self.unsynced.extend_from_slice(&bytes[..fits as usize]);
            if fits < bytes.len() as u64 {
                return Err(enospc());
            }
            return Ok(());
        }
        self.unsynced.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let failed = self.files.step().is_err() || self.files.faults.lock().sync_fails;
        let kept = if failed { self.unsynced.len() / 2 } else { self.unsynced.len() };
        self.inner.append(&self.unsynced[..kept])?;
        self.unsynced.clear();
        if failed {
            return Err(eio());
        }
        self.inner.sync()
    }
}

impl Drop for FaultyOutput {
    fn drop(&mut self) {
        // Unsynced bytes may reach the disk in part.
        let kept = self.unsynced.len() / 2;
        let _ = self.inner.append(&self.unsynced[..kept]);
    }
}

struct FaultyInput {
    inner: Box<dyn Input>,
    files: FaultyFiles,
}

impl Input for FaultyInput {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        if self.files.faults.lock().read_fails {
            return Err(eio());
        }
        self.inner.read_at(offset, len)
    }
}
