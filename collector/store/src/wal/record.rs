//! Records of the log: framing, layout definitions, rows. `FORMAT.md` draws them. The collector's forward queues are
//! written in the same records.

use crate::codec::Corrupt;
use crate::codec::varint::{Cursor, put};
use fabriclens_model::Labels;
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Starts each record, so that reading can go on after damage.
pub const MARK: [u8; 4] = *b"\xf1rec";
/// Bytes of mark, length and checksum.
pub const FRAME: usize = 12;
/// No record is longer; a longer length is damage.
pub const MAX_LEN: usize = 1 << 30;

const LAYOUT: u8 = 1;
const ROWS: u8 = 2;

/// A decoded record.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// Columns of a layout; indexes count from 0 in each log generation.
    Layout(u32, Arc<[Labels]>),
    /// Layout, times and column-major values.
    Rows(u32, Vec<i64>, Vec<f64>),
}

fn framed(log: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = log.len();
    log.extend_from_slice(&[0; FRAME]);
    write(log);
    let len = (log.len() - start - FRAME) as u32;
    let crc = crc32fast::hash(&log[start + FRAME..]) ^ len;
    log[start..start + 4].copy_from_slice(&MARK);
    log[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    log[start + 8..start + 12].copy_from_slice(&crc.to_le_bytes());
}

/// Appends the definition of a layout.
pub fn put_layout(log: &mut Vec<u8>, layout: u32, columns: &[Labels]) {
    framed(log, |out| {
        out.push(LAYOUT);
        put(out, u64::from(layout));
        put_columns(out, columns);
    });
}

/// Each text once, then the label sets as indexes.
fn put_columns(out: &mut Vec<u8>, columns: &[Labels]) {
    let mut index: HashMap<&str, u64> = HashMap::new();
    let mut texts = Vec::new();
    let mut sets = Vec::new();
    put(&mut sets, columns.len() as u64);
    for labels in columns {
        put(&mut sets, labels.len() as u64);
        for text in labels.iter().flat_map(|(n, v)| [n, v]) {
            let next = index.len() as u64;
            let i = *index.entry(text).or_insert_with(|| {
                put(&mut texts, text.len() as u64);
                texts.extend_from_slice(text.as_bytes());
                next
            });
            put(&mut sets, i);
        }
    }
    put(out, index.len() as u64);
    out.extend(texts);
    out.extend(sets);
}

/// Appends rows of a layout.
pub fn put_rows(log: &mut Vec<u8>, layout: u32, times: &[i64], values: &[f64]) {
    framed(log, |out| {
        out.reserve(16 + 8 * (times.len() + values.len()));
        out.push(ROWS);
        put(out, u64::from(layout));
        put(out, times.len() as u64);
        out.extend(times.iter().flat_map(|t| t.to_le_bytes()));
        out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    });
}

/// Splits the record off the front: payload and total length; `None` when no whole, undamaged record starts here.
pub fn unframe(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let header = bytes.get(..FRAME)?;
    if header[..4] != MARK {
        return None;
    }
    let len = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let crc = u32::from_le_bytes(header[8..12].try_into().ok()?);
    let payload = bytes.get(FRAME..FRAME + len as usize)?;
    (len as usize <= MAX_LEN && crc32fast::hash(payload) ^ len == crc).then_some((payload, FRAME + len as usize))
}

/// Offset of the next whole, undamaged record.
pub fn next(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(i) = bytes[at..].windows(4).position(|w| w == MARK) {
        if unframe(&bytes[at + i..]).is_some() {
            return Some(at + i);
        }
        at += i + 1;
    }
    None
}

/// Decodes the payload of a record.
pub fn decode(payload: &[u8]) -> Result<Record, Corrupt> {
    let mut c = Cursor::new(payload);
    let kind = c.byte()?;
    let layout = c.count(u32::MAX as usize)? as u32;
    match kind {
        LAYOUT => Ok(Record::Layout(layout, columns(&mut c)?)),
        ROWS => {
            let n = c.count(payload.len() / 8)?;
            let times = c.take(n * 8)?.chunks_exact(8).map(word).map(u64::cast_signed).collect();
            let values = c.rest().chunks_exact(8).map(word).map(f64::from_bits).collect();
            Ok(Record::Rows(layout, times, values))
        }
        _ => Err(Corrupt("unknown kind of record")),
    }
}

fn word(b: &[u8]) -> u64 {
    b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))
}

fn columns(c: &mut Cursor<'_>) -> Result<Arc<[Labels]>, Corrupt> {
    let texts = c.count(c.rest().len())?;
    let texts = (0..texts).map(|_| c.text().map(Arc::from)).collect::<Result<Vec<Arc<str>>, _>>()?;
    let sets = c.count(c.rest().len())?;
    (0..sets)
        .map(|_| {
            let pairs = c.count(c.rest().len() / 2)?;
            let text = |c: &mut Cursor<'_>| texts.get(c.count(texts.len())?).cloned().ok_or(Corrupt("unknown text"));
            let pairs = (0..pairs).map(|_| Ok((text(c)?, text(c)?))).collect::<Result<Vec<_>, Corrupt>>()?;
            Ok(Labels::new(pairs))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_damage_is_seen() {
        let columns =
            [Labels::new([("__name__", "a"), ("host", "h")]), Labels::new([("__name__", "b"), ("host", "h")])];
        let mut log = Vec::new();
        put_layout(&mut log, 7, &columns);
        let first = log.len();
        put_rows(&mut log, 7, &[-5, i64::MAX], &[1.0, -0.0, f64::INFINITY, 4.5]);
        let (payload, len) = unframe(&log).unwrap();
        assert_eq!((decode(payload).unwrap(), len), (Record::Layout(7, Arc::from(columns)), first));
        let (payload, len) = unframe(&log[first..]).unwrap();
        let values = vec![1.0, -0.0, f64::INFINITY, 4.5];
        assert_eq!((decode(payload).unwrap(), len), (Record::Rows(7, vec![-5, i64::MAX], values), log.len() - first));
        for i in 0..first {
            let mut bad = log[..first].to_vec();
            bad[i] ^= 0x40;
            assert!(unframe(&bad).is_none(), "byte {i}");
            assert!(unframe(&log[..i]).is_none(), "cut at {i}");
        }
    }
}
