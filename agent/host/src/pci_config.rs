//! Configuration space of PCI functions: where capabilities are, and the registers of settings.
//!
//! Only a process with `CAP_SYS_ADMIN` at the time of opening reads more than the first 64 bytes, where no capability is.
//! Threads of devices have dropped it, so the files of all RDMA adapters and of the bridges above them are opened before
//! and kept. Opening touches no device. Files are read by a few bytes at a time, as each is a cycle on the bus.

use crate::sysfile::FileError;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// PCI Express capability.
pub const EXPRESS: u16 = 0x10;
/// Access control services, an extended capability.
pub const ACS: u16 = 0x0d;
/// Address translation service, an extended capability.
pub const ATS: u16 = 0x0f;

/// Device control register, from the start of [`EXPRESS`].
pub const DEVICE_CONTROL: u16 = 8;
/// Control register, from the start of [`ACS`] and [`ATS`].
pub const CONTROL: u16 = 6;

/// Most files that are kept open.
const MOST_FILES: usize = 256;
/// Pointer to the first capability.
const FIRST: u16 = 0x34;
/// First byte of extended capabilities, and the end of the space.
const EXTENDED: u16 = 0x100;
const END: u16 = 0x1000;

/// Files of configuration spaces that were opened early.
#[derive(Debug, Default)]
pub struct PciConfigs(Mutex<BTreeMap<PathBuf, Arc<File>>>);

impl PciConfigs {
    /// Opens the files of functions, by their directories, and keeps them.
    pub fn open_all(&self, functions: impl IntoIterator<Item = PathBuf>) {
        let mut files = self.0.lock();
        for function in functions {
            if files.len() < MOST_FILES
                && !files.contains_key(&function)
                && let Ok(file) = open(&function)
            {
                files.insert(function, Arc::new(file));
            }
        }
    }

    /// Configuration space of the function at `dir`.
    ///
    /// # Errors
    /// [`FileError`] if it has none that can be opened.
    pub fn of(&self, dir: &Path) -> Result<ConfigSpace, FileError> {
        let kept = self.0.lock().get(dir).cloned();
        // A function that was removed and added again has a new file.
        let kept = kept.filter(|file| file.read_at(&mut [0; 2], 0).is_ok());
        let file = match kept {
            Some(file) => file,
            None => Arc::new(open(dir)?),
        };
        Ok(ConfigSpace { path: dir.join("config"), file })
    }
}

fn open(dir: &Path) -> Result<File, FileError> {
    let path = dir.join("config");
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(|error| FileError::io(&path, error))
}

/// Configuration space of one function.
#[derive(Debug)]
pub struct ConfigSpace {
    path: PathBuf,
    file: Arc<File>,
}

impl ConfigSpace {
    /// Offset of a capability; `None` if the function lacks it.
    ///
    /// # Errors
    /// As for [`Self::u16`].
    pub fn capability(&self, id: u16) -> Result<Option<u16>, FileError> {
        Ok(self.capabilities()?.into_iter().find(|(found, _)| *found == id).map(|(_, at)| at))
    }

    /// Offset of an extended capability; `None` if the function lacks it.
    ///
    /// # Errors
    /// As for [`Self::u16`].
    pub fn extended(&self, id: u16) -> Result<Option<u16>, FileError> {
        Ok(self.extended_capabilities()?.into_iter().find(|(found, _)| *found == id).map(|(_, at)| at))
    }

    /// Id and offset of each capability, in the order of the list.
    ///
    /// # Errors
    /// As for [`Self::u16`].
    pub fn capabilities(&self) -> Result<Vec<(u16, u16)>, FileError> {
        let mut found = Vec::new();
        let mut at = self.u16(FIRST)? & 0xfc;
        while at >= 0x40 && !found.iter().any(|(_, before)| *before == at) {
            let [id, next] = self.u16(at)?.to_le_bytes();
            found.push((u16::from(id), at));
            at = u16::from(next) & 0xfc;
        }
        Ok(found)
    }

    /// Id and offset of each extended capability, in the order of the list; none if the space ends before.
    ///
    /// # Errors
    /// As for [`Self::u16`].
    pub fn extended_capabilities(&self) -> Result<Vec<(u16, u16)>, FileError> {
        // The list is readable wherever this one is.
        self.capabilities()?;
        let mut found = Vec::new();
        let mut at = EXTENDED;
        while (EXTENDED..END - 3).contains(&at) && !found.iter().any(|(_, before)| *before == at) {
            let (Some(id), Some(next)) = (self.bytes(at)?, self.bytes(at + 2)?) else { break };
            if matches!(id, 0 | u16::MAX) {
                break;
            }
            found.push((id, at));
            at = (next >> 4) & 0xffc;
        }
        Ok(found)
    }

    /// A space with the same lists of capabilities, and with nothing else than the registers of settings.
    ///
    /// # Errors
    /// As for [`Self::u16`].
    pub fn settings(&self) -> Result<Vec<u8>, FileError> {
        let mut copied = vec![(FIRST, 1)];
        for (id, at) in self.capabilities()? {
            copied.push((at, 1));
            copied.extend((id == EXPRESS).then_some((at + DEVICE_CONTROL, 1)));
        }
        for (id, at) in self.extended_capabilities()? {
            copied.push((at, 2));
            copied.extend([ACS, ATS].contains(&id).then_some((at + CONTROL, 1)));
        }
        let mut space = vec![0; usize::from(END)];
        for (start, words) in copied {
            for at in (start..).step_by(2).take(words) {
                let value = self.bytes(at)?.unwrap_or_default();
                space[usize::from(at)..][..2].copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok(space)
    }

    /// Register of 16 bits.
    ///
    /// # Errors
    /// [`FileError`]: `Absent` if the process may not read it, or the function does not answer.
    pub fn u16(&self, at: u16) -> Result<u16, FileError> {
        let absent = |why: &str| FileError::Absent { path: self.path.clone(), why: why.into() };
        match self.bytes(at)? {
            None => Err(absent("beyond byte 64 it is readable only with CAP_SYS_ADMIN when the agent starts")),
            // No register that is read has all bits set: the function does not answer.
            Some(u16::MAX) => Err(absent("the function does not answer")),
            Some(value) => Ok(value),
        }
    }

    fn bytes(&self, at: u16) -> Result<Option<u16>, FileError> {
        let mut bytes = [0; 2];
        match self.file.read_at(&mut bytes, at.into()) {
            Ok(2) => Ok(Some(u16::from_le_bytes(bytes))),
            Ok(_) => Ok(None),
            Err(error) => Err(FileError::io(&self.path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A space with Express at 0x60 behind another capability, and with ACS behind another extended one.
    fn space() -> Vec<u8> {
        let mut space = vec![0; 4096];
        space[0x34] = 0x40;
        space[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        space[0x60..0x62].copy_from_slice(&[0x10, 0x00]);
        space[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x02, 0x22]);
        space[0x220..0x224].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00]);
        space
    }

    fn written(bytes: &[u8]) -> (tempfile::TempDir, ConfigSpace) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config"), bytes).unwrap();
        let config = PciConfigs::default().of(dir.path()).unwrap();
        (dir, config)
    }

    #[test]
    fn capabilities_are_found() {
        let (_dir, config) = written(&space());
        assert_eq!(config.capability(EXPRESS).unwrap(), Some(0x60));
        assert_eq!(config.capability(0x05).unwrap(), None);
        assert_eq!(config.extended(ACS).unwrap(), Some(0x220));
        assert_eq!(config.extended(ATS).unwrap(), None);
    }

    #[test]
    fn what_the_process_may_not_read_is_absent() {
        let (_dir, config) = written(&space()[..64]);
        let error = config.capability(EXPRESS).unwrap_err();
        assert!(error.is_absent() && error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
        assert!(config.extended(ACS).is_err(), "not the same as no capability");
        let (_dir, config) = written(&space()[..256]);
        assert_eq!(config.extended(ACS).unwrap(), None, "PCI without Express ends there");
    }

    #[test]
    fn lists_end_even_if_they_are_broken() {
        let mut circle = space();
        circle[0x61] = 0x40;
        circle[0x222..0x224].copy_from_slice(&[0x01, 0x10]);
        let (_dir, config) = written(&circle);
        assert_eq!((config.capability(0x7f).unwrap(), config.extended(0x7f).unwrap()), (None, None));
        let (_dir, config) = written(&[0xff; 4096]);
        assert!(config.capability(EXPRESS).unwrap_err().to_string().contains("does not answer"));
    }
}
