//! Integer sequences: counters, integral gauges, time stamps, run lengths.
//!
//! Differences of order 0, 1 or 2 are taken, common low zero bits are dropped, and the residuals are written by the
//! smallest of three packers: frames (bit-packed around a minimum), Rice codes, or zero runs.

use super::Corrupt;
use super::bits::{BitReader, BitWriter};
use super::rice;
use super::varint::{Cursor, put_signed, unzigzag, zigzag};

/// Values per frame of the frame packer.
const FRAME: usize = 128;

/// Packer of the residuals; the low bits of the head byte.
#[derive(Clone, Copy, PartialEq)]
enum Packer {
    Zero = 0,
    Frames = 1,
    Rice = 2,
    Runs = 3,
}

/// Appends `values`; the caller stores their count.
pub fn encode(values: &[i64], out: &mut Vec<u8>) {
    let Some(first) = values.first() else { return };
    let mut residuals: Vec<i64> = values[1..].iter().zip(values).map(|(a, b)| a.wrapping_sub(*b)).collect();
    let flat = residuals.iter().all(|r| *r == 0);
    let mut best = Plan::of(&residuals, 1);
    if !flat && residuals.len() > 1 {
        let order2 = differences(&residuals);
        let plan2 = Plan::of(&order2, 2);
        let from_first: Vec<i64> = values[1..].iter().map(|v| v.wrapping_sub(*first)).collect();
        let plan0 = Plan::of(&from_first, 0);
        if plan0.bits < best.bits && plan0.bits <= plan2.bits {
            (best, residuals) = (plan0, from_first);
        } else if plan2.bits < best.bits {
            (best, residuals) = (plan2, order2);
        }
    }
    out.push(best.packer as u8 | best.order << 2);
    put_signed(out, *first);
    best.write(&residuals, out);
}

/// Order-2 residuals from order-1 ones: the first stays as it is.
fn differences(deltas: &[i64]) -> Vec<i64> {
    let mut prev = 0i64;
    deltas
        .iter()
        .map(|d| {
            let r = d.wrapping_sub(prev);
            prev = *d;
            r
        })
        .collect()
}

/// A candidate encoding of residuals and its cost.
struct Plan {
    order: u8,
    packer: Packer,
    shift: u32,
    center: i64,
    k: u32,
    gap_k: u32,
    bits: u64,
}

impl Plan {
    fn of(residuals: &[i64], order: u8) -> Self {
        let or = residuals.iter().fold(0i64, |a, r| a | r);
        let mut plan = Self { order, packer: Packer::Zero, shift: 0, center: 0, k: 0, gap_k: 0, bits: 0 };
        if or == 0 {
            return plan;
        }
        let shift = or.trailing_zeros();
        plan.shift = shift;
        let n = residuals.len() as u64;
        let frames: u64 = residuals
            .chunks(FRAME)
            .map(|f| 8 + 8 * signed_size(frame(f, shift).0) + u64::from(frame(f, shift).1) * f.len() as u64)
            .sum();
        (plan.packer, plan.bits) = (Packer::Frames, frames);

        let sum: i128 = residuals.iter().map(|r| i128::from(r >> shift)).sum();
        let center = (sum / i128::from(n)) as i64;
        let (k, cost) = rice::choose(residuals.iter().map(|r| zigzag((r >> shift).wrapping_sub(center))));
        let cost = cost + 8 + 8 * signed_size(center);
        if cost < plan.bits {
            (plan.packer, plan.bits, plan.k, plan.center) = (Packer::Rice, cost, k, center);
        }

        let nonzero = residuals.iter().filter(|r| **r != 0).count() as u64;
        if nonzero * 4 <= n {
            let (k, cost) = rice::choose(run_values(residuals, shift));
            let (gap_k, gap_cost) = rice::choose(run_gaps(residuals));
            let cost = cost + gap_cost + 32;
            if cost < plan.bits {
                (plan.packer, plan.bits, plan.k, plan.gap_k) = (Packer::Runs, cost, k, gap_k);
            }
        }
        plan.bits += 8;
        plan
    }

    fn write(&self, residuals: &[i64], out: &mut Vec<u8>) {
        if self.packer == Packer::Zero {
            return;
        }
        out.push(self.shift as u8);
        match self.packer {
            Packer::Zero => {}
            Packer::Frames => {
                let frames: Vec<(i64, u32)> = residuals.chunks(FRAME).map(|f| frame(f, self.shift)).collect();
                for (min, width) in &frames {
                    put_signed(out, *min);
                    out.push(*width as u8);
                }
                let mut w = BitWriter::after(std::mem::take(out));
                for (values, (min, width)) in residuals.chunks(FRAME).zip(frames) {
                    for r in values {
                        w.put((r >> self.shift).wrapping_sub(min) as u64, width);
                    }
                }
                *out = w.finish();
            }
            Packer::Rice => {
                out.push(self.k as u8);
                put_signed(out, self.center);
                let mut w = BitWriter::after(std::mem::take(out));
                for r in residuals {
                    rice::put(&mut w, zigzag((r >> self.shift).wrapping_sub(self.center)), self.k);
                }
                *out = w.finish();
            }
            Packer::Runs => {
                out.extend_from_slice(&[self.k as u8, self.gap_k as u8]);
                let mut w = BitWriter::after(std::mem::take(out));
                let values = run_values(residuals, self.shift).map(Some).chain([None]);
                for (gap, value) in run_gaps(residuals).zip(values) {
                    rice::put(&mut w, gap, self.gap_k);
                    if let Some(v) = value {
                        rice::put(&mut w, v, self.k);
                    }
                }
                *out = w.finish();
            }
        }
    }
}

fn signed_size(v: i64) -> u64 {
    super::varint::size(zigzag(v)) as u64
}

/// Minimum and bit width of one frame. The span is taken modulo 2^64, so any values fit.
fn frame(values: &[i64], shift: u32) -> (i64, u32) {
    let (min, max) = values.iter().fold((i64::MAX, i64::MIN), |(a, b), r| (a.min(*r), b.max(*r)));
    let (min, max) = (min >> shift, max >> shift);
    (min, 64 - (max.wrapping_sub(min) as u64).leading_zeros())
}

/// Zeros before each nonzero residual, then the zeros at the end.
fn run_gaps(residuals: &[i64]) -> impl Iterator<Item = u64> + Clone + '_ {
    residuals.split(|r| *r != 0).map(|zeros| zeros.len() as u64)
}

/// Nonzero residuals. They are never zero, so positive ones are stored minus one.
fn run_values(residuals: &[i64], shift: u32) -> impl Iterator<Item = u64> + Clone + '_ {
    residuals.iter().filter(|r| **r != 0).map(move |r| zigzag(r >> shift).wrapping_sub(1))
}

/// Decodes `n` values; `bytes` is exactly the output of [`encode`].
///
/// # Errors
/// [`Corrupt`] if the bytes do not hold `n` values.
pub fn decode(bytes: &[u8], n: usize) -> Result<Vec<i64>, Corrupt> {
    let mut values = Vec::with_capacity(n);
    decode_into(bytes, n, &mut Vec::new(), &mut values, |v| v)?;
    Ok(values)
}

/// Decodes `n` values, maps each through `of` and appends the results; `residuals` is a reusable buffer.
///
/// # Errors
/// See [`decode`].
pub fn decode_into<T: Clone>(
    bytes: &[u8],
    n: usize,
    residuals: &mut Vec<i64>,
    out: &mut Vec<T>,
    of: impl Fn(i64) -> T,
) -> Result<(), Corrupt> {
    if n == 0 {
        return Ok(());
    }
    let mut c = Cursor::new(bytes);
    let head = c.byte()?;
    let first = c.signed()?;
    residuals.clear();
    residuals.reserve(n - 1);
    match head & 3 {
        0 => residuals.resize(n - 1, 0),
        1 => read_frames(&mut c, n - 1, residuals)?,
        2 => read_rice(&mut c, n - 1, residuals)?,
        _ => read_runs(&mut c, n - 1, residuals)?,
    }
    let order = head >> 2;
    if order > 2 {
        return Err(Corrupt("difference order over 2"));
    }
    out.push(of(first));
    let before = out.len();
    out.resize(before + n - 1, of(first));
    // Sums are kept in local variables: through an iterator each step would wait for a store to memory.
    let (mut v, mut d) = (first, 0i64);
    for (slot, r) in out[before..].iter_mut().zip(&*residuals) {
        match order {
            0 => v = first.wrapping_add(*r),
            1 => v = v.wrapping_add(*r),
            _ => {
                d = d.wrapping_add(*r);
                v = v.wrapping_add(d);
            }
        }
        *slot = of(v);
    }
    Ok(())
}

fn shift_of(c: &mut Cursor<'_>) -> Result<u32, Corrupt> {
    parameter(c)
}

fn parameter(c: &mut Cursor<'_>) -> Result<u32, Corrupt> {
    let k = u32::from(c.byte()?);
    if k > 63 {
        return Err(Corrupt("shift over 63"));
    }
    Ok(k)
}

fn read_frames(c: &mut Cursor<'_>, n: usize, values: &mut Vec<i64>) -> Result<(), Corrupt> {
    let shift = shift_of(c)?;
    let mut frames = Vec::with_capacity(n.div_ceil(FRAME));
    for _ in 0..n.div_ceil(FRAME) {
        let min = c.signed()?;
        let width = u32::from(c.byte()?);
        if width > 64 {
            return Err(Corrupt("frame width over 64"));
        }
        frames.push((min, width));
    }
    let mut r = BitReader::new(c.rest());
    let mut left = n;
    for (min, width) in frames {
        r.fields(width, left.min(FRAME), values, move |v| min.wrapping_add(v as i64) << shift)?;
        left = left.saturating_sub(FRAME);
    }
    Ok(())
}

fn read_rice(c: &mut Cursor<'_>, n: usize, values: &mut Vec<i64>) -> Result<(), Corrupt> {
    let shift = shift_of(c)?;
    let k = parameter(c)?;
    let center = c.signed()?;
    let mut r = BitReader::new(c.rest());
    for _ in 0..n {
        values.push(unzigzag(rice::get(&mut r, k)?).wrapping_add(center) << shift);
    }
    Ok(())
}

fn read_runs(c: &mut Cursor<'_>, n: usize, values: &mut Vec<i64>) -> Result<(), Corrupt> {
    let shift = shift_of(c)?;
    let k = parameter(c)?;
    let gap_k = parameter(c)?;
    let mut r = BitReader::new(c.rest());
    loop {
        let gap = rice::get(&mut r, gap_k)?;
        if gap > (n - values.len()) as u64 {
            return Err(Corrupt("run past the end"));
        }
        values.resize(values.len() + gap as usize, 0);
        if values.len() == n {
            return Ok(());
        }
        let v = rice::get(&mut r, k)?.wrapping_add(1);
        values.push(unzigzag(v) << shift);
    }
}
