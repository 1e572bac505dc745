//! Files of one queue: the header of a segment, its name, how it is read when a queue is opened, and the cursor.
//!
//! ```text
//! forward/NAME/NNNNNNNNNNNN.fwd   "FABLENSF"  u32 version  u64 number  u64 samples queued before  u64 Unix ms  u32 crc
//!                                 record*     as in the store's log (`collector/store/FORMAT.md`)
//! forward/NAME/cursor             "FABLENSC"  u64 segment  u64 offset  u64 until  u64 samples sent  u32 crc
//! ```
//! Integers are little-endian. Layout numbers hold within a segment and are defined before they are used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use fabriclens_model::present;
use fabriclens_store::codec::crc_matches;
use fabriclens_store::io::{Files, read_all};
use fabriclens_store::log_record::{self, Record};

const MAGIC: [u8; 8] = *b"FABLENSF";
const VERSION: u32 = 2;
/// Bytes of a segment's header.
pub(super) const HEADER: usize = 40;
const CURSOR_MAGIC: [u8; 8] = *b"FABLENSC";
const CURSOR_BYTES: usize = 44;

/// A segment that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// Bytes that are durable, header included.
    pub(super) len: u64,
    /// Samples queued before this segment, since the queue exists.
    pub(super) first: u64,
    /// When it was last written, Unix ms.
    pub(super) last_ms: i64,
}

pub(super) fn name(number: u64) -> String {
    format!("{number:012}.fwd")
}

pub(super) fn header(number: u64, first: u64, now_ms: i64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    for word in [number, first, now_ms.cast_unsigned()] {
        out.extend(word.to_le_bytes());
    }
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out
}

/// What a queue's directory holds, oldest first, and the number of samples ever queued.
pub(super) fn list(files: &dyn Files, dir: &Path) -> io::Result<(Vec<Segment>, u64)> {
    let mut found: Vec<Segment> = Vec::new();
    for (file, len) in files.list(dir)? {
        let Some(number) = file.strip_suffix(".fwd").and_then(|n| n.parse().ok()) else { continue };
        let path = dir.join(&file);
        if len < HEADER as u64 {
            // Created, but nothing of it was ever acknowledged.
            files.remove(&path)?;
            continue;
        }
        let head = files.open(&path)?.read_at(0, HEADER)?;
        let sound = head[..8] == MAGIC && crc_matches(&head[..36], u32_at(&head, 36));
        if !sound {
            tracing::warn!(path = %path.display(), "damaged header of a forward queue's segment; its records are read");
        } else if u32_at(&head, 8) > VERSION {
            let found = u32_at(&head, 8);
            return Err(io::Error::other(format!(
                "{} has format version {found}, this release reads up to {VERSION}; use a newer release",
                path.display()
            )));
        }
        let first = if sound { u64_at(&head, 20) } else { found.last().map_or(0, |s| s.first) };
        let written = std::fs::metadata(&path).and_then(|m| m.modified()).ok();
        let ms = written.and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_millis() as i64);
        found.push(Segment { number, len, first, last_ms: ms });
    }
    found.sort_by_key(|s| s.number);
    let Some(last) = found.last_mut() else { return Ok((found, 0)) };
    // Only the newest can end in a record that was never finished.
    let bytes = read_all(files, &dir.join(name(last.number)))?;
    let (len, samples) = scan(&bytes);
    last.len = len as u64;
    let total = last.first.saturating_add(samples);
    Ok((found, total))
}

/// Where the last good record ends, and the samples up to there.
fn scan(bytes: &[u8]) -> (usize, u64) {
    let (mut at, mut end, mut samples) = (HEADER.min(bytes.len()), HEADER.min(bytes.len()), 0);
    while at < bytes.len() {
        let Some((payload, len)) = log_record::unframe(&bytes[at..]) else {
            let Some(skip) = log_record::next(&bytes[at + 1..]) else { break };
            at += skip + 1;
            continue;
        };
        if let Ok(Record::Rows(_, _, values)) = log_record::decode(payload) {
            samples += present(&values);
        }
        at += len;
        end = at;
    }
    (end, samples)
}

/// How far a queue has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) segment: u64,
    /// Everything before this is done with.
    pub(super) offset: u64,
    /// When larger than `offset`: up to here it may have been sent. After a restart exactly this stretch is sent again,
    /// so that a receiver which refuses what it has already refuses nothing new with it.
    pub(super) until: u64,
    /// Samples before `offset`, since the queue exists.
    pub(super) done: u64,
}

impl Cursor {
    /// Reads it; `None` when there is none or it is damaged.
    pub(super) fn load(file: &File) -> Option<Self> {
        let mut bytes = [0; CURSOR_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let sound = bytes[..8] == CURSOR_MAGIC && crc_matches(&bytes[..40], u32_at(&bytes, 40));
        let word = |at| u64_at(&bytes, at);
        sound.then(|| Self { segment: word(8), offset: word(16), until: word(24), done: word(32) })
    }

    /// Writes it in place, without syncing: what a crash of the machine undoes is sent again, never lost.
    pub(super) fn save(&self, file: &File) -> io::Result<()> {
        let mut out = CURSOR_MAGIC.to_vec();
        for word in [self.segment, self.offset, self.until, self.done] {
            out.extend(word.to_le_bytes());
        }
        out.extend(crc32fast::hash(&out).to_le_bytes());
        file.write_all_at(&out, 0)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |w, b| w << 8 | u32::from(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_a_damaged_one_does_not() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Cursor::load(&file), None);
        let cursor = Cursor { segment: 3, offset: 400, until: 900, done: 77 };
        cursor.save(&file).unwrap();
        assert_eq!(Cursor::load(&file), Some(cursor));
        file.write_all_at(&[0xff], 17).unwrap();
        assert_eq!(Cursor::load(&file), None);
    }

    #[test]
    fn a_header_that_tells_of_too_many_samples_is_no_overflow() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = header(1, u64::MAX, 0);
        log_record::put_rows(&mut bytes, 1, &[1], &[1.0]);
        std::fs::write(dir.path().join(name(1)), bytes).unwrap();
        assert_eq!(list(&fabriclens_store::io::OsFiles, dir.path()).unwrap().1, u64::MAX);
    }
}
