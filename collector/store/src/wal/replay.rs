//! Replays the log when a store is opened.

use super::record::{self, Record};
use super::writer::{HEADER, MAGIC, VERSION};
use crate::codec::crc_matches;
use crate::error::OpenError;
use crate::head::generation::Generation;
use crate::io::{Files, Input};
use fabriclens_model::SharedLabels;
use foldhash::{HashMap, HashMapExt as _};
use std::io;
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

/// Bytes of a segment that are read at once.
const WINDOW: u64 = 1 << 20;
/// Bytes of decoded records per batch, and batches that the decoder may be ahead.
const BATCH: usize = 64 << 10;
const MAX_BATCHES: usize = 16;

/// A step of reading a segment: offset, length, and the record or an error.
struct Step {
    at: u64,
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
    let failed = |e| OpenError::io("read", dir, path, e);
    let mut log = Window::open(files, path).map_err(failed)?;
    if log.bytes.len() < HEADER {
        return Ok(());
    }
    let mut report = |offset: u64, len: usize, message: &str| {
        tracing::warn!(path = %path.display(), offset, bytes = len, message, "log is damaged");
        damage.push(Damage { path: path.into(), offset, bytes: len as u64, message: message.into() });
    };
    let header = &log.bytes[..HEADER];
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let version = word(8);
    let sound = crc_matches(&header[..HEADER - 4], word(HEADER - 4)) && header[..8] == MAGIC;
    if sound && version > VERSION {
        return Err(OpenError::Newer { path: path.into(), found: version, known: VERSION });
    }
    if !sound {
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
            let rest = decode(&mut log, |step| {
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
        decoder.join().map_err(|_| io::Error::other("the decoder thread panicked"))?
    });
    let rest = rest.map_err(failed)?;
    if rest > 0 {
        tracing::info!(path = %path.display(), bytes = rest, "dropped an incomplete record at the end of the log");
    }
    Ok(())
}

/// The part of a segment that is in memory: a log may be longer than the memory of the head that it makes.
struct Window {
    file: Box<dyn Input>,
    /// Offset of the first byte in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn open(files: &dyn Files, path: &Path) -> io::Result<Self> {
        let mut window = Self { file: files.open(path)?, start: 0, bytes: Vec::new() };
        window.advance(0)?;
        Ok(window)
    }

    /// Drops the first bytes and reads on; returns false at the end of the file.
    fn advance(&mut self, done: usize) -> io::Result<bool> {
        let end = self.start + self.bytes.len() as u64;
        // A long record is read in few steps.
        let most = WINDOW.max((self.bytes.len() - done) as u64);
        let more = self.file.size().saturating_sub(end).min(most) as usize;
        if more == 0 {
            return Ok(false);
        }
        let more = self.file.read_at(end, more)?;
        self.bytes.drain(..done);
        self.bytes.extend(more);
        self.start += done as u64;
        Ok(true)
    }
}

/// Calls `emit` for each record or damaged range after the header; returns the length of the incomplete rest.
fn decode(log: &mut Window, mut emit: impl FnMut(Step)) -> io::Result<usize> {
    let (mut at, mut shared) = (HEADER, SharedLabels::default());
    loop {
        let place = log.start + at as u64;
        let (len, what) = if let Some((payload, len)) = record::unframe(&log.bytes[at..]) {
            (len, record::decode_with(payload, &mut shared).map_err(|e| e.0))
        } else if log.advance(at)? {
            // The record may continue behind the window; whether it is damaged is known when all is read.
            at = 0;
            continue;
        } else {
            match log.bytes.get(at + 1..).and_then(record::next) {
                Some(skip) => (skip + 1, Err("record checksum mismatch")),
                None => return Ok(log.bytes.len() - at),
            }
        };
        emit(Step { at: place, len, what });
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::OsFiles;
    use crate::options::SeriesLimits;
    use crate::wal::writer;
    use fabriclens_model::Labels;

    #[test]
    fn records_across_windows_and_damage_between_them_are_found() {
        let (dir, columns) = (tempfile::tempdir().unwrap(), 5000);
        let labels: Vec<Labels> = (0..columns)
            .map(|column| Labels::new([("__name__".to_owned(), "m".to_owned()), ("c".to_owned(), column.to_string())]))
            .collect();
        let (mut log, mut starts) = (writer::header(1, 0), Vec::new());
        record::put_layout(&mut log, 0, &labels);
        let rows = 120;
        for time in 0..rows {
            starts.push(log.len());
            let values: Vec<f64> = (0..columns).map(|column| (time as f64 + column as f64).sqrt()).collect();
            record::put_rows(&mut log, 0, &[time], &values);
        }
        assert!(log.len() as u64 > 4 * WINDOW, "{}", log.len());
        let bad = 37;
        log[starts[bad] + 1000] ^= 1;
        log.truncate(log.len() - 3);
        let path = dir.path().join("log");
        std::fs::write(&path, &log).unwrap();
        let (mut head, mut damage) = (Generation::new(1, 32, &SeriesLimits::default()), Vec::new());
        segment(&OsFiles, dir.path(), &path, &mut head, &[], &mut damage).unwrap();
        let found: Vec<_> = damage.iter().map(|d| (d.offset, d.bytes)).collect();
        assert_eq!(found, [(starts[bad] as u64, (starts[bad + 1] - starts[bad]) as u64)]);
        // Without the damaged row and the incomplete last one.
        assert_eq!((head.samples, head.range()), ((rows as u64 - 2) * columns as u64, Some((0, rows - 2))));
    }
}
