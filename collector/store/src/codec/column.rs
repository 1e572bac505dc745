//! One column of a row group: which rows have a sample, and the samples encoded by their kind.
//!
//! ```text
//! column   = tag u8, [presence], body          absent in every row: no bytes at all
//! tag      = kind (bits 0-2) | GAPS 0x08 (presence follows) | EXCEPTIONS 0x10 (exception list follows) | scale << 5
//! presence = varint length, ints of alternating run lengths, present first
//! body     = kind CONST: value 8 bytes | CONST_INT: zigzag varint | INTS: ints of value × 10^scale | FLOATS: xor floats
//! exceptions (INTS) = varint count, per exception varint gap and 8 bytes of the true value
//! ```

use super::varint::{Cursor, put, put_signed};
use super::{Corrupt, floats, ints};
use fabriclens_model::{absent, is_absent};

const CONST: u8 = 0;
const CONST_INT: u8 = 1;
const INTS: u8 = 2;
const FLOATS: u8 = 3;
const GAPS: u8 = 0x08;
const EXCEPTIONS: u8 = 0x10;

/// Powers of ten that may turn decimals into integers; the index is the scale in the tag.
const SCALES: [f64; 5] = [1.0, 10.0, 100.0, 1_000.0, 1_000_000.0];
/// Integers up to this magnitude are exact in a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Appends a column of `values` (one per row, [`absent`] where there is no sample).
pub fn encode(values: &[f64], out: &mut Vec<u8>) {
    let missing = values.iter().filter(|v| is_absent(**v)).count();
    if missing == values.len() {
        return;
    }
    let (mut tag, mut presence) = (0, Vec::new());
    let mut kept = Vec::new();
    let present = if missing == 0 {
        values
    } else {
        tag = GAPS;
        let runs = runs(values);
        put(&mut presence, runs.len() as u64);
        let mut packed = Vec::new();
        ints::encode(&runs, &mut packed);
        put(&mut presence, packed.len() as u64);
        presence.extend(packed);
        kept.extend(values.iter().copied().filter(|v| !is_absent(*v)));
        &kept[..]
    };
    let bits = present[0].to_bits();
    if present.iter().all(|v| v.to_bits() == bits) {
        match integral(present[0], 0) {
            Some(i) => {
                out.push(tag | CONST_INT);
                out.extend(presence);
                put_signed(out, i);
            }
            None => {
                out.push(tag | CONST);
                out.extend(presence);
                out.extend(bits.to_le_bytes());
            }
        }
        return;
    }
    if let Some((scale, numbers, exceptions)) = as_integers(present) {
        tag |= INTS | (scale as u8) << 5;
        tag |= if exceptions.is_empty() { 0 } else { EXCEPTIONS };
        out.push(tag);
        out.extend(presence);
        write_exceptions(&exceptions, out);
        ints::encode(&numbers, out);
        return;
    }
    out.push(tag | FLOATS);
    out.extend(presence);
    floats::encode(present, out);
}

/// Alternating run lengths, present first.
fn runs(values: &[f64]) -> Vec<i64> {
    let mut runs = vec![0i64];
    let mut present = true;
    for v in values {
        if is_absent(*v) == present {
            runs.push(0);
            present = !present;
        }
        if let Some(run) = runs.last_mut() {
            *run += 1;
        }
    }
    runs
}

/// The integer that `v` is at a scale, if dividing it back yields the same bits.
fn integral(v: f64, scale: usize) -> Option<i64> {
    let scaled = (v * SCALES[scale]).round();
    if scaled.abs() > EXACT || scaled.is_nan() {
        return None;
    }
    ((scaled as i64) as f64 / SCALES[scale]).to_bits().eq(&v.to_bits()).then_some(scaled as i64)
}

type Exceptions = Vec<(usize, u64)>;

/// The smallest scale at which all but one value in sixteen are integers. The others (staleness markers, NaN, odd
/// fractions) become exceptions that repeat the integer before them.
fn as_integers(values: &[f64]) -> Option<(usize, Vec<i64>, Exceptions)> {
    let allowed = values.len() / 16 + 1;
    'scale: for scale in 0..SCALES.len() {
        let mut numbers = Vec::with_capacity(values.len());
        let mut exceptions = Vec::new();
        let mut last = None;
        for (i, v) in values.iter().enumerate() {
            match integral(*v, scale) {
                Some(n) => last = Some(n),
                None if exceptions.len() == allowed => continue 'scale,
                None => exceptions.push((i, v.to_bits())),
            }
            numbers.push(last.unwrap_or(0));
        }
        if exceptions.len() < values.len() {
            return Some((scale, numbers, exceptions));
        }
    }
    None
}

fn write_exceptions(exceptions: &Exceptions, out: &mut Vec<u8>) {
    if exceptions.is_empty() {
        return;
    }
    put(out, exceptions.len() as u64);
    let mut next = 0;
    for (i, bits) in exceptions {
        put(out, (i - next) as u64);
        out.extend(bits.to_le_bytes());
        next = i + 1;
    }
}

/// Reusable buffers for decoding columns.
#[derive(Default)]
pub struct Scratch {
    residuals: Vec<i64>,
    present: Vec<f64>,
}

/// Decodes a column of `rows` rows; `bytes` is exactly the output of [`encode`].
///
/// # Errors
/// [`Corrupt`] if the bytes are not such a column.
pub fn decode(bytes: &[u8], rows: usize) -> Result<Vec<f64>, Corrupt> {
    let mut values = Vec::with_capacity(rows);
    decode_into(bytes, rows, &mut Scratch::default(), &mut values)?;
    Ok(values)
}

/// Appends the values of a column; returns true if some are absent. After an error `out` may hold some of them.
///
/// # Errors
/// See [`decode`].
pub fn decode_into(bytes: &[u8], rows: usize, scratch: &mut Scratch, out: &mut Vec<f64>) -> Result<bool, Corrupt> {
    let before = out.len();
    if bytes.is_empty() {
        out.resize(before + rows, absent());
        return Ok(rows > 0);
    }
    let mut c = Cursor::new(bytes);
    let tag = c.byte()?;
    if tag & GAPS == 0 {
        read_present(&mut c, tag, rows, &mut scratch.residuals, out)?;
        return Ok(false);
    }
    let n = c.count(rows + 1)?;
    let runs = ints::decode(c.bytes()?, n)?;
    let present = present_of(&runs, rows)?;
    scratch.present.clear();
    read_present(&mut c, tag, present, &mut scratch.residuals, &mut scratch.present)?;
    let mut at = 0;
    for (i, run) in runs.iter().enumerate() {
        let run = *run as usize;
        if i % 2 == 0 {
            out.extend_from_slice(&scratch.present[at..at + run]);
            at += run;
        } else {
            out.resize(out.len() + run, absent());
        }
    }
    Ok(present < rows)
}

/// Decodes and appends the `n` present values.
fn read_present(
    c: &mut Cursor<'_>,
    tag: u8,
    n: usize,
    residuals: &mut Vec<i64>,
    out: &mut Vec<f64>,
) -> Result<(), Corrupt> {
    match tag & 7 {
        CONST => out.resize(out.len() + n, f64::from_bits(u64::from_le_bytes(c.array()?))),
        CONST_INT => out.resize(out.len() + n, c.signed()? as f64),
        INTS => read_ints(c, tag, n, residuals, out)?,
        FLOATS => floats::decode_into(c.rest(), n, out)?,
        _ => return Err(Corrupt("unknown column kind")),
    }
    Ok(())
}

/// Checks that the runs cover the rows and returns the number of present rows.
fn present_of(runs: &[i64], rows: usize) -> Result<usize, Corrupt> {
    let (mut total, mut present) = (0usize, 0usize);
    for (i, run) in runs.iter().enumerate() {
        let run = usize::try_from(*run).map_err(|_| Corrupt("negative run"))?;
        total = total.checked_add(run).filter(|t| *t <= rows).ok_or(Corrupt("runs past the end"))?;
        present += if i % 2 == 0 { run } else { 0 };
    }
    if total != rows {
        return Err(Corrupt("runs do not cover the rows"));
    }
    Ok(present)
}

fn read_ints(
    c: &mut Cursor<'_>,
    tag: u8,
    n: usize,
    residuals: &mut Vec<i64>,
    out: &mut Vec<f64>,
) -> Result<(), Corrupt> {
    let scale = *SCALES.get(usize::from(tag >> 5)).ok_or(Corrupt("unknown scale"))?;
    let mut exceptions = Vec::new();
    if tag & EXCEPTIONS != 0 {
        let mut next = 0usize;
        for _ in 0..c.count(n)? {
            let i = next + c.count(n)?;
            if i >= n {
                return Err(Corrupt("exception past the end"));
            }
            exceptions.push((i, u64::from_le_bytes(c.array()?)));
            next = i + 1;
        }
    }
    let before = out.len();
    if scale == 1.0 {
        ints::decode_into(c.rest(), n, residuals, out, |i| i as f64)?;
    } else {
        ints::decode_into(c.rest(), n, residuals, out, move |i| i as f64 / scale)?;
    }
    for (i, bits) in exceptions {
        out[before + i] = f64::from_bits(bits);
    }
    Ok(())
}
