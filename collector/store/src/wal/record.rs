//! Log records: framing, layout definitions, rows. `FORMAT.md` specifies them. The collector's forward queues use the
//! same records.

use crate::codec::varint::{Cursor, put};
use crate::codec::{Corrupt, crc_matches};
use fabriclens_model::{Labels, SharedLabels};
use foldhash::{HashMap, HashMapExt as _};

/// Starts each record, so that reading can resume after damage.
pub const MARK: [u8; 4] = *b"\xf1rec";
/// Bytes of mark, length and checksum.
pub const FRAME: usize = 12;
/// Maximum record length; a longer length is damage.
pub const MAX_LEN: usize = 1 << 30;

const LAYOUT: u8 = 1;
/// Rows with full values; written before version 2.
const WIDE_ROWS: u8 = 2;
/// Rows with values without their trailing zero bytes.
const ROWS: u8 = 3;

/// A decoded record.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// Layout index and its columns; indexes count from 0 in each log generation.
    Layout(u32, Box<[Labels]>),
    /// Layout index, times and column-major values.
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

/// Writes each text once, then the label sets as text indexes.
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
        out.push(ROWS);
        put(out, u64::from(layout));
        put(out, times.len() as u64);
        put(out, values.len() as u64);
        out.reserve(8 * times.len());
        out.extend(times.iter().flat_map(|t| t.to_le_bytes()));
        put_values(out, values);
    });
}

/// Whole numbers and common fractions have few significant bits, so trailing bytes are zero. Writes the lengths of all
/// values (two per byte), then the leading bytes of each value.
fn put_values(out: &mut Vec<u8>, values: &[f64]) {
    let lengths = out.len();
    let mut at = lengths + values.len().div_ceil(2);
    out.resize(at + 8 * values.len(), 0);
    for (lengths, pair) in (lengths..).zip(values.chunks(2)) {
        let mut both = 0;
        for (value, shift) in pair.iter().zip([0, 4]) {
            let bits = value.to_bits();
            let length = 8 - bits.trailing_zeros() / 8;
            both |= (length as u8) << shift;
            out[at..at + 8].copy_from_slice(&bits.to_be_bytes());
            at += length as usize;
        }
        out[lengths] = both;
    }
    out.truncate(at);
}

/// Reads `n` values written by [`put_values`].
fn values(c: &mut Cursor<'_>, n: usize) -> Result<Vec<f64>, Corrupt> {
    let lengths = c.take(n.div_ceil(2))?;
    let lengths = lengths.iter().flat_map(|both| [both & 15, both >> 4]).take(n);
    let value = |length: u8| {
        if length > 8 {
            return Err(Corrupt("value longer than eight bytes"));
        }
        let after = c.rest();
        let first = c.take(usize::from(length))?;
        // Loading eight bytes and masking is faster than copying; the last values may have fewer bytes after them.
        let bits = match after.first_chunk() {
            Some(eight) => u64::from_be_bytes(*eight) & !u64::MAX.checked_shr(8 * u32::from(length)).unwrap_or(0),
            None => {
                first.iter().zip((0..64).step_by(8)).fold(0, |bits, (b, shift)| bits | u64::from(*b) << (56 - shift))
            }
        };
        Ok(f64::from_bits(bits))
    };
    lengths.map(value).collect()
}

/// Splits the first record off: payload and total length. `None` if no complete, undamaged record starts here.
pub fn unframe(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let header = bytes.get(..FRAME)?;
    if header[..4] != MARK {
        return None;
    }
    let len = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let crc = u32::from_le_bytes(header[8..12].try_into().ok()?);
    let payload = bytes.get(FRAME..FRAME + len as usize)?;
    (len as usize <= MAX_LEN && crc_matches(payload, crc ^ len)).then_some((payload, FRAME + len as usize))
}

/// Offset of the next complete, undamaged record.
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
///
/// # Errors
/// [`Corrupt`] if the bytes are not such a payload.
pub fn decode(payload: &[u8]) -> Result<Record, Corrupt> {
    decode_with(payload, &mut SharedLabels::default())
}

/// Decodes the payload of a record, whose labels share texts and lists with those of records decoded before.
///
/// # Errors
/// See [`decode`].
pub fn decode_with(payload: &[u8], shared: &mut SharedLabels) -> Result<Record, Corrupt> {
    let mut c = Cursor::new(payload);
    let kind = c.byte()?;
    let layout = c.count(u32::MAX as usize)? as u32;
    match kind {
        LAYOUT => Ok(Record::Layout(layout, columns(&mut c, shared)?)),
        ROWS | WIDE_ROWS => {
            let n = c.count(payload.len() / 8)?;
            // One byte holds two lengths, so a record cannot claim more values than it has bytes for.
            let known = if kind == ROWS { Some(c.count(2 * payload.len())?) } else { None };
            let times = c.take(n * 8)?.chunks_exact(8).map(word).map(u64::cast_signed).collect();
            let values = match known {
                Some(n) => values(&mut c, n)?,
                None => c.rest().chunks_exact(8).map(word).map(f64::from_bits).collect(),
            };
            Ok(Record::Rows(layout, times, values))
        }
        _ => Err(Corrupt("unknown kind of record")),
    }
}

fn word(b: &[u8]) -> u64 {
    b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))
}

fn columns(c: &mut Cursor<'_>, shared: &mut SharedLabels) -> Result<Box<[Labels]>, Corrupt> {
    let texts = c.count(c.rest().len())?;
    let texts = (0..texts).map(|_| c.text()).collect::<Result<Vec<_>, _>>()?;
    let sets = c.count(c.rest().len())?;
    (0..sets)
        .map(|_| {
            let pairs = c.count(c.rest().len() / 2)?;
            let text = |c: &mut Cursor<'_>| texts.get(c.count(texts.len())?).copied().ok_or(Corrupt("unknown text"));
            let pairs = (0..pairs).map(|_| Ok((text(c)?, text(c)?))).collect::<Result<Vec<_>, Corrupt>>()?;
            let in_order = pairs.is_sorted_by(|a, b| a.0 < b.0) && pairs.iter().all(|(_, value)| !value.is_empty());
            Ok(if in_order { shared.of(pairs) } else { Labels::new(pairs) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn values_round_trip_and_truncation_fails(
            values in prop::collection::vec(
                prop_oneof![any::<u64>(), any::<u32>().prop_map(|v| f64::from(v).to_bits()), Just(0), Just(1 << 63)], 0..70),
            times in prop::collection::vec(any::<i64>(), 0..4),
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from_bits).collect();
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let mut log = Vec::new();
            put_rows(&mut log, 300, &times, &values);
            let (payload, len) = unframe(&log).unwrap();
            prop_assert_eq!(len, log.len());
            let Record::Rows(layout, got_times, got) = decode(payload).unwrap() else { panic!("no rows") };
            prop_assert_eq!((layout, got_times, bits(&got)), (300, times, bits(&values)));
            for cut in 0..payload.len() {
                prop_assert!(decode(&payload[..cut]).is_err(), "cut at {}", cut);
            }
        }

        #[test]
        fn any_payload_is_a_record_or_an_error(mut payload in prop::collection::vec(any::<u8>(), 0..60), kind in 0..5u8) {
            payload.insert(0, kind);
            _ = decode(&payload);
        }
    }

    #[test]
    fn texts_of_records_are_shared() {
        let mut shared = SharedLabels::default();
        let mut pairs = |column: &str| {
            let (mut log, labels) = (Vec::new(), Labels::new([("__name__", "m"), ("c", column)]));
            put_layout(&mut log, 1, &[labels]);
            let record = decode_with(unframe(&log).unwrap().0, &mut shared).unwrap();
            let Record::Layout(_, columns) = record else { panic!("no layout") };
            columns[0].to_pairs().collect::<Vec<_>>()
        };
        let (first, second) = (pairs("1"), pairs("2"));
        assert!(Arc::ptr_eq(&first[0].0, &second[0].0) && Arc::ptr_eq(&first[0].1, &second[0].1));
        assert!(Arc::ptr_eq(&first[1].0, &second[1].0) && first[1].1 != second[1].1);
    }

    #[test]
    fn rows_of_version_1_are_read() {
        let mut payload = vec![2, 7, 1];
        payload.extend(9i64.to_le_bytes());
        payload.extend([1.5f64, -0.0].iter().flat_map(|v| v.to_le_bytes()));
        assert_eq!(decode(&payload).unwrap(), Record::Rows(7, vec![9], vec![1.5, -0.0]));
    }

    #[test]
    fn records_round_trip_and_damage_is_detected() {
        let columns =
            [Labels::new([("__name__", "a"), ("host", "h")]), Labels::new([("__name__", "b"), ("host", "h")])];
        let mut log = Vec::new();
        put_layout(&mut log, 7, &columns);
        let first = log.len();
        put_rows(&mut log, 7, &[-5, i64::MAX], &[1.0, -0.0, f64::INFINITY, 4.5]);
        let (payload, len) = unframe(&log).unwrap();
        assert_eq!((decode(payload).unwrap(), len), (Record::Layout(7, Box::from(columns)), first));
        let (payload, len) = unframe(&log[first..]).unwrap();
        let values = vec![1.0, -0.0, f64::INFINITY, 4.5];
        assert_eq!((decode(payload).unwrap(), len), (Record::Rows(7, vec![-5, i64::MAX], values), log.len() - first));
        // Three bytes of kind and counts, one more of values; four lengths in two bytes, and 2 + 1 + 2 + 2 bytes.
        assert_eq!(log.len() - first, FRAME + 4 + 16 + 2 + 7);
        for i in 0..first {
            let mut bad = log[..first].to_vec();
            bad[i] ^= 0x40;
            assert!(unframe(&bad).is_none(), "byte {i}");
            assert!(unframe(&log[..i]).is_none(), "cut at {i}");
        }
    }
}
