//! Writer of a recording: enforces the size limits, scrubs identities and lists skipped files.

use super::CaptureError;
use super::scrub::Scrub;
use fabriclens_base::owned;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Largest file that is copied: an attribute of sysfs is a page, `/proc/net/netstat` a few.
const FILE: u64 = 64 << 10;
/// Limits of one capture, all ticks together.
const FILES: usize = 1_000_000;
const BYTES: u64 = 2 << 30;

pub(super) struct RecordingWriter<'a> {
    dir: &'a Path,
    scrub: Option<&'a Scrub>,
    files: usize,
    bytes: u64,
    written: BTreeSet<PathBuf>,
    /// (directory, reason) → names, or calls → reason.
    skipped: BTreeMap<(String, String), Vec<String>>,
}

impl<'a> RecordingWriter<'a> {
    pub(super) fn new(dir: &'a Path, scrub: Option<&'a Scrub>, files: usize, bytes: u64) -> Self {
        Self { dir, scrub, files, bytes, written: BTreeSet::new(), skipped: BTreeMap::new() }
    }

    pub(super) fn files(&self) -> usize {
        self.files
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn skipped(&self) -> usize {
        self.skipped.values().map(Vec::len).sum()
    }

    pub(super) fn scrubs(&self) -> bool {
        self.scrub.is_some()
    }

    /// Replacement of a name of the site.
    pub(super) fn hidden(&self, kind: &str, name: &str) -> String {
        self.scrub.map_or_else(|| name.to_owned(), |scrub| scrub.named(kind, name))
    }

    /// Replacement of a user id.
    pub(super) fn hidden_number(&self, uid: u32) -> u32 {
        self.scrub.map_or(uid, |scrub| scrub.user(uid))
    }

    /// Replacement of an address.
    pub(super) fn address(&self, address: IpAddr) -> IpAddr {
        self.scrub.map_or(address, |scrub| scrub.address(address))
    }

    /// Lists a path in the manifest as not recorded.
    pub(super) fn skip(&mut self, path: &Path, why: impl ToString) {
        let text = path.display().to_string();
        let (dir, name) = text.rsplit_once('/').unwrap_or(("", &text));
        let key = (dir.to_owned(), why.to_string());
        self.skipped.entry(key).or_default().push(name.to_owned());
    }

    /// Copies the text of a regular file to `to`; lists it as skipped if it cannot be read.
    pub(super) fn copy(&mut self, from: &Path, to: &Path) -> Result<(), CaptureError> {
        match read(from) {
            Ok(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => self.text(to, text),
                // VPD and other binary files are copied unchanged, unless scrubbing is on: they hold serial numbers.
                Err(_) if self.scrubs() => {
                    self.skip(to, "binary, left out of a scrubbed recording");
                    Ok(())
                }
                Err(_) => self.write(to, &bytes),
            },
            Err(why) => {
                self.skip(to, why);
                Ok(())
            }
        }
    }

    /// Writes bytes that say nothing about the site.
    pub(super) fn harmless(&mut self, to: &Path, bytes: &[u8]) -> Result<(), CaptureError> {
        self.write(to, bytes)
    }

    /// Writes a text file.
    pub(super) fn text(&mut self, to: &Path, text: &str) -> Result<(), CaptureError> {
        match self.scrub {
            Some(scrub) => self.write(to, scrub.file(to, text).as_bytes()),
            None => self.write(to, text.as_bytes()),
        }
    }

    /// Writes a relative symbolic link.
    pub(super) fn link(&mut self, at: &Path, target: &Path) -> Result<(), CaptureError> {
        let (at, target) = (self.path(at), self.scrubbed(target));
        if !self.written.insert(at.clone()) {
            return Ok(());
        }
        self.parent(&at)?;
        std::os::unix::fs::symlink(target, &at).map_err(|source| CaptureError::Write { path: at, source })?;
        self.account(0)
    }

    /// Creates a directory, which may stay empty.
    pub(super) fn dir(&mut self, at: &Path) -> Result<(), CaptureError> {
        let path = self.path(at);
        std::fs::create_dir_all(&path).map_err(|source| CaptureError::Write { path, source })
    }

    /// Writes `manifest.json`.
    pub(super) fn manifest(&mut self, host: &str, time_ns: u64) -> Result<(), CaptureError> {
        let skipped: Vec<_> = self
            .skipped
            .iter()
            .map(|((dir, why), names)| json!({ "directory": dir, "names": names, "why": why }))
            .collect();
        let manifest = json!({
            "format": 1, "agent": env!("CARGO_PKG_VERSION"), "host": host, "time_ns": time_ns,
            "scrubbed": self.scrubs(), "files": self.written.len(), "skipped": skipped,
        });
        let text = format!("{manifest:#}\n");
        let text = self.scrub.map_or_else(|| text.clone(), |s| s.text(&text));
        self.write(Path::new("manifest.json"), text.as_bytes())
    }

    fn write(&mut self, to: &Path, bytes: &[u8]) -> Result<(), CaptureError> {
        let path = self.path(to);
        if !self.written.insert(path.clone()) {
            return Ok(());
        }
        self.parent(&path)?;
        let written = owned::options().mode(0o644).write(true).create_new(true).open(&path);
        let written = written.and_then(|mut file| file.write_all(bytes));
        written.map_err(|source| CaptureError::Write { path, source })?;
        self.account(bytes.len() as u64)
    }

    fn account(&mut self, bytes: u64) -> Result<(), CaptureError> {
        self.files += 1;
        self.bytes += bytes;
        match () {
            () if self.files > FILES => Err(CaptureError::TooLarge { limit: "a million files" }),
            () if self.bytes > BYTES => Err(CaptureError::TooLarge { limit: "2 GiB" }),
            () => Ok(()),
        }
    }

    fn parent(&self, path: &Path) -> Result<(), CaptureError> {
        let Some(parent) = path.parent() else { return Ok(()) };
        std::fs::create_dir_all(parent).map_err(|source| CaptureError::Write { path: parent.to_owned(), source })
    }

    fn path(&self, relative: &Path) -> PathBuf {
        self.dir.join(self.scrubbed(relative))
    }

    fn scrubbed(&self, path: &Path) -> PathBuf {
        match (self.scrub, path.to_str()) {
            (Some(scrub), Some(text)) => scrub.path(text).into(),
            _ => path.to_owned(),
        }
    }
}

/// Reads a regular file. Other file types could block or never end.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let text = |e: std::io::Error| e.to_string();
    let kind = std::fs::metadata(path).map_err(text)?;
    if !kind.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|f| f.take(FILE + 1).read_to_end(&mut bytes)).map_err(text)?;
    if bytes.len() as u64 > FILE { Err(format!("larger than {} KiB", FILE >> 10)) } else { Ok(bytes) }
}
