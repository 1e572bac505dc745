//! Rows that are not compressed yet: sorted by time, one row per time. Most values are those of the row before, so only
//! the newest row is stored in full, and each older one as the values that differ from the row after it.

use super::chunk::Chunk;
use super::memory;
use fabriclens_model::is_absent;
use smallvec::SmallVec;
use std::ops::Range;

/// The open row buffer of one layout. Its first row decides the number of columns.
#[derive(Debug, Default)]
pub struct Rows {
    /// Ascending, Unix ms.
    times: Vec<i64>,
    /// Values of the newest row.
    newest: Box<[f64]>,
    /// For each row but the newest, oldest first: its values that the row after it replaces, by column, eight bytes each;
    /// then one bit per column, low bits first, padded to whole bytes, that says which these are.
    older: Vec<u8>,
}

impl Rows {
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        memory::vec(&self.times) + size_of_val(&self.newest[..]) + memory::vec(&self.older)
    }

    /// Times of the rows, ascending, Unix ms.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Appends row `r` of a column-major group; its time must be after the last row.
    pub fn push(&mut self, time: i64, group: &[f64], rows: usize, r: usize) {
        match rows {
            1 => self.append(time, group),
            _ => self.append(time, &group.iter().skip(r).step_by(rows.max(1)).copied().collect::<Vec<_>>()),
        }
    }

    fn append(&mut self, time: i64, row: &[f64]) {
        reserve(&mut self.times, 1);
        self.times.push(time);
        if self.times.len() == 1 {
            self.newest = row.into();
            return;
        }
        let mut changed = SmallVec::<[u8; 32]>::new();
        for (old, new) in self.newest.chunks_mut(8).zip(row.chunks(8)) {
            let both = || old.iter().zip(new).map(|(old, new)| old.to_bits() ^ new.to_bits());
            if both().fold(0, |any, difference| any | difference) == 0 {
                changed.push(0);
                continue;
            }
            let bit = |(column, difference): (usize, u64)| u8::from(difference != 0) << column;
            let bits = both().enumerate().map(bit).fold(0, |bits, bit| bits | bit);
            changed.push(bits);
            reserve(&mut self.older, 8 * size_of::<f64>());
            each_one(&[bits], |column| {
                self.older.extend_from_slice(&old[column].to_le_bytes());
                old[column] = new[column];
            });
        }
        reserve(&mut self.older, changed.len());
        self.older.extend_from_slice(&changed);
    }

    /// Merges present values into the row at `time`, inserting it if needed. Values already present are kept.
    pub fn merge(&mut self, time: i64, row: &[f64]) {
        let place = self.times.binary_search(&time);
        if place == Err(self.times.len()) {
            return self.push(time, row, 1, 0);
        }
        // Rows in random order are rare: all are written again.
        let (values, times) = (self.columns(), std::mem::take(self).times);
        let kept = |r: usize| values.iter().skip(r).step_by(times.len()).copied();
        for (r, at) in times.iter().enumerate() {
            if place == Err(r) {
                self.push(time, row, 1, 0);
            }
            if place == Ok(r) {
                let merged: Vec<f64> =
                    kept(r).zip(row).map(|(old, new)| if is_absent(old) { *new } else { old }).collect();
                self.push(*at, &merged, 1, 0);
            } else {
                self.push(*at, &values, times.len(), r);
            }
        }
    }

    /// The value of a column at a time.
    pub fn at(&self, time: i64, column: usize) -> Option<f64> {
        let row = self.times.binary_search(&time).ok()?;
        self.backward(column).nth(self.times.len() - 1 - row).filter(|v| !is_absent(*v))
    }

    /// Appends the values of a column in these rows, absent ones included.
    pub fn column(&self, column: usize, rows: Range<usize>, out: &mut Vec<f64>) {
        let before = out.len();
        out.extend(self.backward(column).skip(self.times.len() - rows.end).take(rows.len()));
        out[before..].reverse();
    }

    /// The last of these rows with a value in the column, as a range of one or zero rows.
    pub fn newest(&self, column: usize, rows: Range<usize>) -> Range<usize> {
        let values = self.backward(column).skip(self.times.len() - rows.end).take(rows.len());
        let row = rows.clone().rev().zip(values).find(|(_, value)| !is_absent(*value));
        row.map_or(0..0, |(row, _)| row..row + 1)
    }

    /// The rows but the newest, the last one first: which values the row after it replaces, and these values.
    fn replaced(&self) -> impl Iterator<Item = (&[u8], &[[u8; 8]])> {
        let (mut rest, bytes) = (&self.older[..], self.newest.len().div_ceil(8));
        std::iter::from_fn(move || {
            let (before, changed) = rest.split_at_checked(rest.len().checked_sub(bytes)?)?;
            let (before, values) = before.split_at_checked(before.len().checked_sub(8 * ones(changed))?)?;
            rest = before;
            Some((changed, values.as_chunks().0))
        })
        .take(self.times.len().saturating_sub(1))
    }

    /// The values of a column, newest row first.
    fn backward(&self, column: usize) -> impl Iterator<Item = f64> {
        let newest = self.newest.get(column).filter(|_| !self.times.is_empty()).copied();
        let (byte, bit) = (column / 8, 1u8 << (column % 8));
        let older = self.replaced().scan(newest.unwrap_or_default(), move |value, (changed, values)| {
            if changed[byte] & bit != 0 {
                *value = f64::from_le_bytes(values[ones_before(changed, column)]);
            }
            Some(*value)
        });
        newest.into_iter().chain(older)
    }

    /// All values, column-major.
    pub fn columns(&self) -> Vec<f64> {
        let (rows, mut row) = (self.times.len(), self.newest.clone());
        let mut all = Vec::with_capacity(rows * row.len());
        row.iter().for_each(|value| all.resize(all.len() + rows, *value));
        // Only columns that change are written again, from the newest row back to the first.
        let mut any = vec![0; row.len().div_ceil(8)];
        self.replaced().for_each(|(changed, _)| any.iter_mut().zip(changed).for_each(|(any, bits)| *any |= bits));
        let mut moved = Vec::new();
        each_one(&any, |column| moved.push(column));
        for (r, (changed, values)) in (0..rows).rev().skip(1).zip(self.replaced()) {
            let mut values = values.iter();
            each_one(changed, |column| row[column] = values.next().map_or(row[column], |v| f64::from_le_bytes(*v)));
            moved.iter().for_each(|column| all[column * rows + r] = row[*column]);
        }
        all
    }

    /// Compresses all rows and empties the buffer.
    pub fn seal(&mut self) -> Option<Chunk> {
        let rows = std::mem::take(self);
        let values = rows.columns();
        let column = |c: usize| &values[c * rows.times.len()..(c + 1) * rows.times.len()];
        (!rows.times.is_empty())
            .then(|| Chunk::build(&rows.times, rows.newest.len(), |c, out| out.extend_from_slice(column(c))))
    }
}

/// Number of set bits.
fn ones(bytes: &[u8]) -> usize {
    bytes.chunks(8).map(|eight| word(eight).count_ones() as usize).sum()
}

/// Number of set bits before a position.
fn ones_before(bytes: &[u8], position: usize) -> usize {
    let (whole, last) = bytes.split_at(position / 64 * 8);
    let below = (1 << (position % 64)) - 1;
    ones(whole) + last.chunks(8).next().map_or(0, |eight| (word(eight) & below).count_ones() as usize)
}

/// Up to eight bytes as a number, low bits first.
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Calls `f` for the position of each set bit.
fn each_one(bytes: &[u8], mut f: impl FnMut(usize)) {
    for (byte, bits) in bytes.iter().enumerate() {
        let mut left = *bits;
        while left != 0 {
            f(8 * byte + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

/// Makes room for `more` elements. A buffer that is not small grows by a quarter and not to the double, since the buffers
/// of a fleet grow at the same time.
fn reserve<T>(buffer: &mut Vec<T>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        buffer.reserve_exact(more.max(buffer.len() / 4).max(SMALL / size_of::<T>()));
    }
}

/// Bytes by which a buffer grows at least.
const SMALL: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::absent;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Few different values, some of them absent, so that most rows repeat the row before.
    fn value(code: u8) -> f64 {
        if code == 0 { absent() } else { f64::from(code) }
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    proptest! {
        #[test]
        fn rows_in_any_order_equal_a_table(
            columns in 0usize..80, rows in prop::collection::vec((0i64..30, prop::collection::vec(any::<u8>(), 80)), 0..40)
        ) {
            let (mut open, mut table) = (Rows::default(), BTreeMap::<i64, Vec<f64>>::new());
            for (time, codes) in rows {
                let row: Vec<f64> = codes[..columns].iter().map(|c| value(c % 3)).collect();
                open.merge(time, &row);
                let known = table.entry(time).or_insert_with(|| vec![absent(); columns]);
                known.iter_mut().zip(&row).filter(|(old, _)| is_absent(**old)).for_each(|(old, new)| *old = *new);
            }
            let times: Vec<i64> = table.keys().copied().collect();
            prop_assert_eq!(open.times(), &times[..]);
            let mut all = Vec::new();
            for c in 0..columns {
                let want: Vec<f64> = table.values().map(|row| row[c]).collect();
                let last = |rows: Range<usize>| {
                    rows.clone().rev().find(|r| !is_absent(want[*r])).map_or(0..0, |r| r..r + 1)
                };
                for from in 0..=times.len() {
                    let (mut got, rows) = (vec![7.0], from..times.len() - (times.len() - from) / 3);
                    open.column(c, rows.clone(), &mut got);
                    prop_assert_eq!(bits(&got[1..]), bits(&want[rows.clone()]));
                    prop_assert_eq!(open.newest(c, rows.clone()), last(rows));
                }
                for time in -1..31 {
                    let want = table.get(&time).map(|row| row[c]).filter(|v| !is_absent(*v));
                    prop_assert_eq!(open.at(time, c), want);
                }
                all.extend(want);
            }
            prop_assert_eq!(bits(&open.columns()), bits(&all));
            let chunk = open.seal();
            prop_assert_eq!(chunk.is_some(), !times.is_empty());
            if let Some(chunk) = chunk {
                prop_assert_eq!(chunk.times().unwrap(), times);
                let sealed: Vec<f64> = (0..columns).flat_map(|c| chunk.column(c).unwrap()).collect();
                prop_assert_eq!(bits(&sealed), bits(&all));
            }
            prop_assert!(open.times().is_empty() && open.memory() == 0);
        }
    }

    #[test]
    fn a_value_that_does_not_move_is_stored_once() {
        let mut rows = Rows::default();
        let row: Vec<f64> = (0..64).map(f64::from).collect();
        (0..100).for_each(|time| rows.push(time, &row, 1, 0));
        let still = rows.memory();
        assert!(still < 100 * 16 * 3 / 2 + 64 * 8, "{still} bytes: times and bits");
        let mut moving = Rows::default();
        (0..100).for_each(|time| moving.push(time, &row.iter().map(|v| v + time as f64).collect::<Vec<_>>(), 1, 0));
        assert!(moving.memory() > still + 99 * 64 * 8);
    }
}
