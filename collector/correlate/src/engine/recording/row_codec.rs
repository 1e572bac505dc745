//! A compact form of the rows of one port, for rows that wait on disk: most counters move little from one sample to the
//! next, or not at all.

use super::rows::Row;

/// Numbers below this are exact integers.
const EXACT: f64 = 9e15;

/// Writes or reads the rows of a port, one after the other.
#[derive(Default)]
pub(super) struct RowCodec {
    time_ms: i64,
    values: Vec<f64>,
}

impl RowCodec {
    /// Appends a row.
    pub(super) fn write(&mut self, row: &Row, out: &mut Vec<u8>) {
        self.values.resize(row.values.len(), 0.0);
        number(zigzag(row.time_ms.wrapping_sub(self.time_ms)), out);
        self.time_ms = row.time_ms;
        for (eight, old) in row.values.chunks(8).zip(self.values.chunks_mut(8)) {
            let changed = |at: usize| u8::from(eight[at].to_bits() != old[at].to_bits()) << at;
            let mask = (0..eight.len()).map(changed).fold(0, |mask, bit| mask | bit);
            out.push(mask);
            for at in (0..eight.len()).filter(|at| mask >> at & 1 == 1) {
                let (new, past) = (eight[at], std::mem::replace(&mut old[at], eight[at]));
                if is_exact(new) && is_exact(past) {
                    number(zigzag(new as i64 - past as i64) + 1, out);
                } else {
                    out.push(0);
                    out.extend(new.to_bits().to_le_bytes());
                }
            }
        }
    }

    /// Reads the next row of `columns` values, and shortens `bytes` by it; `None` if they are used up.
    pub(super) fn read(&mut self, port: u32, columns: usize, bytes: &mut &[u8]) -> Option<Row> {
        self.time_ms = self.time_ms.wrapping_add(unzigzag(take_number(bytes)?));
        self.values.resize(columns, 0.0);
        for old in self.values.chunks_mut(8) {
            let mask = take(bytes, 1)?[0];
            for at in (0..old.len()).filter(|at| mask >> at & 1 == 1) {
                old[at] = match take_number(bytes)? {
                    0 => f64::from_bits(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?)),
                    by => (old[at] as i64 + unzigzag(by - 1)) as f64,
                };
            }
        }
        Some(Row { port, time_ms: self.time_ms, values: self.values.clone() })
    }
}

fn is_exact(value: f64) -> bool {
    value.abs() < EXACT && value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive())
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::absent;

    #[test]
    fn rows_are_read_as_written() {
        let values = [[0.0, absent(), 1e18], [0.25, -0.0, 3.0], [5e12, 7.0, f64::INFINITY], [5e12, 6.0, -2.0]];
        let rows: Vec<Row> = (0i64..)
            .zip(values)
            .map(|(at, few)| Row { port: 7, time_ms: 1000 * at - 1500, values: few.repeat(4) })
            .collect();
        let (mut writer, mut bytes) = (RowCodec::default(), Vec::new());
        rows.iter().for_each(|row| writer.write(row, &mut bytes));
        let (mut reader, mut left) = (RowCodec::default(), &bytes[..]);
        let bits = |row: &Row| (row.time_ms, row.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
        for row in &rows {
            assert_eq!(reader.read(7, 12, &mut left).as_ref().map(bits), Some(bits(row)));
        }
        assert_eq!(reader.read(7, 12, &mut left), None);
    }

    #[test]
    fn resting_counters_take_little_space() {
        let (mut writer, mut bytes) = (RowCodec::default(), Vec::new());
        (0..100).for_each(|s| writer.write(&Row { port: 0, time_ms: s * 1000, values: vec![1e12; 24] }, &mut bytes));
        assert!(bytes.len() < 800, "{}", bytes.len());
    }
}
