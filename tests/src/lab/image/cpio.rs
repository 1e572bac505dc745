//! Writes the "newc" archives that the kernel unpacks as its first root file system. No root rights needed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// An archive being written. Archives may be concatenated: a later file replaces an earlier one.
#[derive(Debug)]
pub struct Archive<W: Write> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// An empty archive.
    pub fn new(to: W) -> Self {
        Self { to, entries: 0 }
    }

    /// A directory; its parent must have been added before.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY | 0o755, &[])
    }

    /// A regular file.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.entry(path, REGULAR | mode, bytes)
    }

    /// A symbolic link.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, SYMLINK | 0o777, target.as_bytes())
    }

    /// Everything below `folder`, with modes and links, in name order (the same tree gives the same bytes).
    ///
    /// # Errors
    /// When the tree cannot be read, or the writer fails.
    pub fn tree(&mut self, folder: &Path) -> io::Result<()> {
        self.below(folder, "")
    }

    fn below(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        let mut names: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        names.sort_by_key(fs::DirEntry::file_name);
        for entry in names {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.directory(&name)?;
                self.below(&entry.path(), &format!("{name}/"))?;
            } else if kind.is_symlink() {
                self.symlink(&name, &fs::read_link(entry.path())?.to_string_lossy())?;
            } else {
                let mode = entry.metadata()?.permissions().mode() & 0o7777;
                self.file(&name, mode, &fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }

    /// Ends the archive and returns the writer.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        let length = u32::try_from(bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{path} is over 4 GB")))?;
        write!(self.to, "070701{:08x}{mode:08x}{:08x}{:08x}", self.entries, 0, 0)?;
        write!(self.to, "{links:08x}{:08x}{length:08x}", 0)?;
        write!(self.to, "{:08x}{:08x}{:08x}{:08x}", 0, 0, 0, 0)?;
        write!(self.to, "{:08x}{:08x}{path}\0", path.len() + 1, 0)?;
        pad(&mut self.to, HEADER + path.len() + 1)?;
        self.to.write_all(bytes)?;
        pad(&mut self.to, bytes.len())
    }
}

const HEADER: usize = 110;

fn pad(to: &mut impl Write, written: usize) -> io::Result<()> {
    to.write_all(&[0; 3][..(4 - written % 4) % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_to_four_bytes() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("etc").unwrap();
        archive.file("etc/a", 0o644, b"12345").unwrap();
        archive.symlink("etc/link", "a").unwrap();
        let bytes = archive.finish().unwrap();
        let starts: Vec<usize> = (0..bytes.len() - 6).filter(|&at| bytes[at..].starts_with(b"070701")).collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|at| at % 4 == 0), "{starts:?}");
        assert_eq!(&bytes[starts[1] + 54..starts[1] + 62], b"00000005", "size field of etc/a");
        assert_eq!(bytes.len() % 4, 0);
    }
}
