//! [`Files`] on the operating system.

use super::{Files, Input, Output};
use fabriclens_base::owned;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFiles;

impl Files for OsFiles {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        // Samples, jobs and incidents are no business of other users of the host.
        fs::DirBuilder::new().recursive(true).mode(0o750).create(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let file = owned::options().append(true).create_new(true).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>> {
        let file = owned::read(path)?;
        let size = file.metadata()?.len();
        Ok(Box::new(OsInput { file, size }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if let (true, Ok(name)) = (meta.is_file(), entry.file_name().into_string()) {
                found.push((name, meta.len()));
            }
        }
        found.sort();
        Ok(found)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if fs::hard_link(from, to).is_ok() {
            return Ok(());
        }
        fs::copy(from, to)?;
        File::open(to)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl Output for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

struct OsInput {
    file: File,
    size: u64,
}

impl Input for OsInput {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        // A damaged length must not allocate unbounded memory.
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The buffer is not zeroed first: it would dominate short reads.
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_bytes_or_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"0123456789").unwrap();
        let file = OsFiles.open(&path).unwrap();
        assert_eq!((file.size(), file.read_at(3, 4).unwrap()), (10, b"3456".to_vec()));
        assert_eq!((file.read_at(0, 10).unwrap(), file.read_at(10, 0).unwrap()), (b"0123456789".to_vec(), vec![]));
        assert_eq!(file.read_at(8, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        // The file shrank after it was opened.
        File::options().write(true).open(&path).unwrap().set_len(6).unwrap();
        assert_eq!(file.read_at(4, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
