//! Reading the log back when a store is opened.

use super::record::{self, Record};
use super::writer::{HEADER, MAGIC, VERSION};
use crate::codec::checks;
use crate::error::OpenError;
use crate::head::generation::Generation;
use crate::io::{Files, read_all};
use foldhash::{HashMap, HashMapExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let mut at = HEADER;
    while at < bytes.len() {
        let Some((payload, len)) = record::unframe(&bytes[at..]) else {
            let Some(skip) = record::next(&bytes[at + 1..]) else {
                tracing::info!(path = %path.display(), bytes = bytes.len() - at, "unfinished record at the end of the log");
                break;
            };
            report(at, skip + 1, "record does not check");
            at += skip + 1;
            continue;
        };
        match record::decode(payload) {
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
            Err(e) => report(at, len, e.0),
        }
        at += len;
    }
    Ok(())
}
