//! Reads and writes a lease file, and the files beside it by which a standby claims the next epoch.
//!
//! The file is overwritten in place, because some network file systems show a replaced file late. A claim,
//! `LEASE.epoch-N`, is created exclusively: of several standbys that see the lease end, one gets epoch N.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use fabriclens_base::owned;
use serde::{Deserialize, Serialize};

/// Largest lease file, bytes.
const MAX_BYTES: u64 = 4096;
/// Version of the format.
const VERSION: u32 = 1;

/// Content of a lease file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the format; 1.
    pub version: u32,
    /// Name of the judge that holds the lease.
    pub name: String,
    /// Random number of its process.
    pub process: u64,
    /// Number of the tenure; the highest one counts.
    pub epoch: u64,
    /// Renewals in this tenure.
    pub renewal: u64,
    /// Identity of the holder's data directory, once it is open.
    pub data: Option<String>,
    /// Whether the holder gave the lease back.
    pub released: bool,
}

impl Record {
    /// The first record of a tenure.
    pub fn new(name: &str, process: u64, epoch: u64) -> Self {
        Self { version: VERSION, name: name.to_owned(), process, epoch, renewal: 0, data: None, released: false }
    }

    /// Parses the bytes of a lease file; `None` if they are no lease of this version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|record| record.version == VERSION)
    }
}

/// A lease file, which may not exist yet.
pub struct LeaseFile {
    path: PathBuf,
    dir: PathBuf,
    /// Beginning of the names of claims.
    prefix: String,
}

impl LeaseFile {
    /// The lease at this path.
    ///
    /// # Errors
    /// If the path names no file.
    pub fn new(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { path: path.to_owned(), dir: dir.to_owned(), prefix: format!("{name}.epoch-") })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file, of which at most 4 KiB are read; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or is not a regular file.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match owned::read(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Overwrites the file, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(record)?;
        bytes.push(b'\n');
        let mut file = owned::read_and_write(&self.path)?;
        file.rewind()?;
        file.write_all(&bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    }

    /// Checks that claims can be created.
    ///
    /// # Errors
    /// If the directory does not exist or cannot be written.
    pub fn check(&self) -> io::Result<()> {
        let probe = self.dir.join(format!("{}check-{}", self.prefix, std::process::id()));
        owned::options().write(true).create(true).truncate(true).open(&probe)?;
        std::fs::remove_file(&probe)
    }

    /// Claims an epoch; false if another process did.
    ///
    /// # Errors
    /// If the claim cannot be created.
    pub fn claim(&self, epoch: u64) -> io::Result<bool> {
        match owned::options().write(true).create_new(true).open(self.claim_path(epoch)) {
            Ok(_) => {
                File::open(&self.dir)?.sync_all()?;
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The highest claimed epoch; 0 if there is none.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn highest_claim(&self) -> io::Result<u64> {
        Ok(self.claims()?.into_iter().max().unwrap_or(0))
    }

    /// Removes the claims of epochs before this one; what cannot be removed stays.
    pub fn remove_claims_before(&self, epoch: u64) {
        for old in self.claims().unwrap_or_default().into_iter().filter(|old| *old < epoch) {
            _ = std::fs::remove_file(self.claim_path(old));
        }
    }

    fn claims(&self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let epoch: Option<u64> = name.to_str().and_then(|name| name.strip_prefix(&self.prefix)?.parse().ok());
            found.extend(epoch);
        }
        Ok(found)
    }

    fn claim_path(&self, epoch: u64) -> PathBuf {
        self.dir.join(format!("{}{epoch}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_one_process_claims_an_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let lease = LeaseFile::new(&dir.path().join("lease")).unwrap();
        assert_eq!((lease.read().unwrap(), lease.highest_claim().unwrap()), (None, 0));
        let mut record = Record::new("a-long-name", 7, 12);
        lease.write(&record).unwrap();
        record = Record { name: "b".into(), ..record };
        lease.write(&record).unwrap();
        assert_eq!(Record::parse(&lease.read().unwrap().unwrap()), Some(record), "the rest of a longer record is gone");
        assert!(lease.claim(3).unwrap() && !lease.claim(3).unwrap() && lease.claim(12).unwrap());
        std::fs::write(dir.path().join("lease.epoch-x"), "").unwrap();
        std::fs::write(dir.path().join("other.epoch-99"), "").unwrap();
        assert_eq!(lease.highest_claim().unwrap(), 12);
        lease.remove_claims_before(12);
        assert!(lease.claim(3).unwrap() && !lease.claim(12).unwrap());
    }

    #[test]
    fn other_content_is_no_lease() {
        let newer = serde_json::to_string(&Record { version: 2, ..Record::new("a", 1, 1) }).unwrap();
        for text in ["", "{}", "garbage", "[1]", &newer] {
            assert_eq!(Record::parse(text.as_bytes()), None, "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(LeaseFile::new(&path).unwrap().read().unwrap().unwrap().len() as u64, MAX_BYTES);
    }
}
