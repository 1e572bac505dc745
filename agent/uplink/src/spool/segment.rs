//! On-disk format of a spool: segment header, records, cursor.
//!
//! ```text
//! DIR/NNNNNNNNNNNN.spool   "FABLENSP"  u32 version  u64 number  u32 crc
//!                          record*
//! record                   u32 length  u64 points  u64 Unix ns  u8 encoding  u32 crc of the payload  u32 crc of these
//!                          payload
//! DIR/NNNNNNNNNNNN.aside   the same, of what is not delivered now
//! DIR/cursor               "FABLENSQ"  u64 segment  u64 offset  u32 crc
//! ```
//! Integers are little-endian. Everything before the cursor was delivered. A damaged record is skipped: the checksum of
//! the record head finds the next one.

use fabriclens_base::sealed::{is_intact, seal, u32_at, u64_at};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

/// Bytes of a segment's header.
pub(super) const HEADER: usize = 24;
/// Bytes of a record before its payload.
pub(super) const HEAD: usize = 29;
const MAGIC: [u8; 8] = *b"FABLENSP";
const VERSION: u32 = 1;
const CURSOR: [u8; 8] = *b"FABLENSQ";
const CURSOR_BYTES: usize = 28;

/// A segment that is not delivered now, because it cannot be read.
#[derive(Debug)]
pub(super) struct QuarantinedSegment {
    pub number: u64,
    pub bytes: u64,
    /// When `spool.age` expires for it.
    pub until: Instant,
}

/// File name of a segment.
pub(super) fn name(number: u64) -> String {
    format!("{number:012}.spool")
}

/// Number in a segment's file name.
pub(super) fn number(name: &str) -> Option<u64> {
    number_before(name, ".spool")
}

/// File name of a quarantined segment.
pub(super) fn aside_name(number: u64) -> String {
    format!("{number:012}.aside")
}

/// Number in the file name of a quarantined segment.
pub(super) fn aside_number(name: &str) -> Option<u64> {
    number_before(name, ".aside")
}

fn number_before(name: &str, end: &str) -> Option<u64> {
    name.strip_suffix(end).filter(|digits| digits.len() == 12)?.parse().ok()
}

pub(super) fn header(number: u64) -> Vec<u8> {
    seal(&[&MAGIC, &VERSION.to_le_bytes(), &number.to_le_bytes()])
}

/// Version of a segment of a later release; `None` if this release reads it. A damaged header is ignored, and intact
/// records are read.
pub(super) fn foreign(file: &File) -> Option<u32> {
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let version = u32_at(&bytes, 8);
    (bytes[..8] == MAGIC && is_intact(&bytes) && version != VERSION).then_some(version)
}

/// Range in which an intact head is searched, bytes: segments are far smaller, and a disk may report any file length.
const SEARCHED: u64 = 32 << 20;

/// Limit of points per request, so that sums stay correct also with damaged heads.
const MOST: u64 = 1 << 40;

/// Head of a record, before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes of the payload.
    pub len: u32,
    /// Points in the payload.
    pub points: u64,
    /// Time of writing, Unix ns.
    pub time_ns: u64,
    /// Encoding of the payload, chosen by the writer.
    pub encoding: u8,
    /// Checksum of the payload.
    pub crc: u32,
}

impl Head {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let [len, crc] = [self.len, self.crc].map(u32::to_le_bytes);
        let [points, time] = [self.points, self.time_ns].map(u64::to_le_bytes);
        seal(&[&len, &points, &time, &[self.encoding], &crc])
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD).filter(|bytes| is_intact(bytes))?;
        Some(Self {
            len: u32_at(bytes, 0),
            points: u64_at(bytes, 4).min(MOST),
            time_ns: u64_at(bytes, 12),
            encoding: bytes[20],
            crc: u32_at(bytes, 21),
        })
    }

    /// Bytes of the record.
    pub(super) fn size(&self) -> u64 {
        HEAD as u64 + u64::from(self.len)
    }
}

/// First complete record at or after `from` and before `end`, with its offset. Reads only the head, unless the record
/// at `from` is damaged.
pub(super) fn find(file: &File, from: u64, end: u64) -> io::Result<Option<(u64, Head)>> {
    let whole = |at: u64, bytes: &[u8]| Head::read(bytes).filter(|head| at + head.size() <= end).map(|head| (at, head));
    if end.saturating_sub(from) < HEAD as u64 {
        return Ok(None);
    }
    let mut bytes = vec![0; HEAD];
    if !read(file, &mut bytes, from)? {
        return Ok(None);
    }
    if let Some(found) = whole(from, &bytes) {
        return Ok(Some(found));
    }
    bytes.resize((end - from).min(SEARCHED) as usize, 0);
    if !read(file, &mut bytes, from)? {
        return Ok(None);
    }
    Ok((1..bytes.len()).find_map(|skip| whole(from + skip as u64, &bytes[skip..])))
}

/// Payload of the record at `at`; `None` if it is damaged.
pub(super) fn payload(file: &File, at: u64, head: &Head) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; head.len as usize];
    let there = read(file, &mut bytes, at + HEAD as u64)?;
    Ok((there && crc32fast::hash(&bytes) == head.crc).then_some(bytes))
}

/// False if the file is shorter than expected, because another program changed it.
fn read(file: &File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, at) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

/// Position of the reader; everything before it was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub segment: u64,
    pub offset: u64,
}

impl Cursor {
    /// `None` if it is missing or damaged.
    pub(super) fn load(file: &File) -> Option<Self> {
        let mut bytes = [0; CURSOR_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let sound = bytes[..8] == CURSOR && is_intact(&bytes);
        sound.then(|| Self { segment: u64_at(&bytes, 8), offset: u64_at(&bytes, 16) })
    }

    /// Writes in place without syncing: after a crash of the machine requests are sent again, which has no effect.
    pub(super) fn save(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&seal(&[&CURSOR, &self.segment.to_le_bytes(), &self.offset.to_le_bytes()]), 0)
    }
}
