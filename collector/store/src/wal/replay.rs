//! Replays the log when a store is opened.

use super::record::{self, Record};
use super::writer::{HEADER, MAGIC, VERSION};
use crate::codec::crc_matches;
use crate::error::OpenError;
use crate::head::generation::Generation;
use crate::io::{Files, read_all};
use foldhash::{HashMap, HashMapExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

/// A damaged range of a file; everything around it was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes lost.
    pub bytes: u64,
    /// Description of the damage.
    pub message: String,
}

/// Bytes of decoded records per batch, and batches that the decoder may be ahead.
const BATCH: usize = 64 << 10;
const MAX_BATCHES: usize = 16;

/// A step of reading a segment: offset, length, and the record or an error.
struct Step {
    at: usize,
    len: usize,
    what: Result<Record, &'static str>,
}

/// Replays one segment into its generation. An incomplete record at the end is left by a crash and dropped; damage
/// before a later good record is skipped and reported.
pub fn segment(
    files: &dyn Files,
    dir: &Path,
    path: &Path,
    head: &mut Generation,
    older: &[Arc<Generation>],
    damage: &mut Vec<Damage>,
) -> Result<(), OpenError> {
    let bytes = read_all(files, path).map_err(|e| OpenError::io("read", dir, path, e))?;
    if bytes.len() < HEADER {
        return Ok(());
    }
    let mut report = |offset: usize, len: usize, message: &str| {
        tracing::warn!(path = %path.display(), offset, bytes = len, message, "log is damaged");
        damage.push(Damage { path: path.into(), offset: offset as u64, bytes: len as u64, message: message.into() });
    };
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let version = word(8);
    let sound = crc_matches(&bytes[..HEADER - 4], word(HEADER - 4));
    if sound && bytes[..8] == MAGIC && version > VERSION {
        return Err(OpenError::Newer { path: path.into(), found: version, known: VERSION });
    }
    if !sound || bytes[..8] != MAGIC {
        report(0, HEADER, "header checksum mismatch");
    }
    let mut layouts: HashMap<u32, u32> = HashMap::new();
    let mut apply = |Step { at, len, what }| match what {
        Ok(Record::Layout(layout, columns)) => {
            let known = head.layout_of(&columns);
            let index = known.unwrap_or_else(|| head.define(columns.into(), None, older));
            layouts.insert(layout, index);
        }
        Ok(Record::Rows(layout, times, values)) => match layouts.get(&layout) {
            Some(l) if values.len() == times.len() * head.layouts[*l as usize].series.len() => {
                head.apply(*l, &times, &values, older);
            }
            _ => report(at, len, "rows of an unknown layout"),
        },
        Err(message) => report(at, len, message),
    };
    // Decoding takes about as long as applying, so both run in parallel.
    let rest = std::thread::scope(|scope| {
        let (give, taken) = mpsc::sync_channel::<Vec<Step>>(MAX_BATCHES);
        let decoder = std::thread::Builder::new().name("log".to_owned()).spawn_scoped(scope, || {
            let (give, mut batch, mut size) = (give, Vec::new(), 0);
            let rest = decode(&bytes, |step| {
                size += step.len;
                batch.push(step);
                if size >= BATCH {
                    // The receiver lives until the channel is drained.
                    _ = give.send(std::mem::take(&mut batch));
                    size = 0;
                }
            });
            _ = give.send(batch);
            rest
        })?;
        taken.into_iter().flatten().for_each(&mut apply);
        decoder.join().map_err(|_| std::io::Error::other("the decoder thread panicked"))
    });
    let rest = rest.map_err(|e| OpenError::io("read", dir, path, e))?;
    if rest > 0 {
        tracing::info!(path = %path.display(), bytes = rest, "dropped an incomplete record at the end of the log");
    }
    Ok(())
}

/// Calls `emit` for each record or damaged range after the header; returns the length of the incomplete rest.
fn decode(bytes: &[u8], mut emit: impl FnMut(Step)) -> usize {
    let mut at = HEADER;
    while at < bytes.len() {
        let (len, what) = match record::unframe(&bytes[at..]) {
            Some((payload, len)) => (len, record::decode(payload).map_err(|e| e.0)),
            None => match record::next(&bytes[at + 1..]) {
                Some(skip) => (skip + 1, Err("record checksum mismatch")),
                None => return bytes.len() - at,
            },
        };
        emit(Step { at, len, what });
        at += len;
    }
    0
}
