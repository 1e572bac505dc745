//! Reading the log back when a store is opened.

use super::record::{self, Record};
use super::writer::{HEADER, MAGIC, VERSION};
use crate::codec::checks;
use crate::error::OpenError;
use crate::head::generation::Generation;
use crate::io::{Files, read_all};
use foldhash::{HashMap, HashMapExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

/// Bytes that were not what was written; everything around them was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// How many bytes are lost.
    pub bytes: u64,
    /// What did not fit.
    pub message: String,
}

/// Bytes of the log that are handed over decoded at a time, and how often before who decodes waits for who applies.
const BATCH: usize = 64 << 10;
const AHEAD: usize = 16;

/// What comes next in a segment: where, how many bytes, and the record or what is wrong with it.
struct Step {
    at: usize,
    len: usize,
    what: Result<Record, &'static str>,
}

/// Replays one segment into its generation. An unfinished record at the end is what a crash leaves and is dropped;
/// damage before a later good record is skipped and reported.
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
        tracing::warn!(path = %path.display(), offset, bytes = len, message, "damaged log");
        damage.push(Damage { path: path.into(), offset: offset as u64, bytes: len as u64, message: message.into() });
    };
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let version = word(8);
    let sound = checks(&bytes[..HEADER - 4], word(HEADER - 4));
    if sound && bytes[..8] == MAGIC && version > VERSION {
        return Err(OpenError::Newer { path: path.into(), found: version, known: VERSION });
    }
    if !sound || bytes[..8] != MAGIC {
        report(0, HEADER, "header does not check");
    }
    let mut layouts: HashMap<u32, u32> = HashMap::new();
    let mut apply = |Step { at, len, what }| match what {
        Ok(Record::Layout(layout, columns)) => {
            let known = head.layout_of(&columns);
            let index = known.unwrap_or_else(|| head.define(columns, older));
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
    // To decode takes about as long as to apply.
    let rest = std::thread::scope(|scope| {
        let (give, taken) = mpsc::sync_channel::<Vec<Step>>(AHEAD);
        let decoder = std::thread::Builder::new().name("log".to_owned()).spawn_scoped(scope, || {
            let (give, mut batch, mut size) = (give, Vec::new(), 0);
            let rest = decode(&bytes, |step| {
                size += step.len;
                batch.push(step);
                if size >= BATCH {
                    // Who applies is there until all have come.
                    _ = give.send(std::mem::take(&mut batch));
                    size = 0;
                }
            });
            _ = give.send(batch);
            rest
        })?;
        taken.into_iter().flatten().for_each(&mut apply);
        decoder.join().map_err(|_| std::io::Error::other("the thread that decodes it died"))
    });
    let rest = rest.map_err(|e| OpenError::io("read", dir, path, e))?;
    if rest > 0 {
        tracing::info!(path = %path.display(), bytes = rest, "unfinished record at the end of the log");
    }
    Ok(())
}

/// Tells what is in a segment after its header, one after the other; how many bytes at its end are no whole record.
fn decode(bytes: &[u8], mut tell: impl FnMut(Step)) -> usize {
    let mut at = HEADER;
    while at < bytes.len() {
        let (len, what) = match record::unframe(&bytes[at..]) {
            Some((payload, len)) => (len, record::decode(payload).map_err(|e| e.0)),
            None => match record::next(&bytes[at + 1..]) {
                Some(skip) => (skip + 1, Err("record does not check")),
                None => return bytes.len() - at,
            },
        };
        tell(Step { at, len, what });
        at += len;
    }
    0
}
